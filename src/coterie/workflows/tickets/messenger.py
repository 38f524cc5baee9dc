"""Messages about tickets: members are asked for payloads, replies are parsed, and all is kept in
envelopes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from string import Template
from typing import Generic, NamedTuple, TypeVar, cast

import anyio
import anyio.to_thread
from pydantic import ValidationError

from coterie.errors import ConfigError
from coterie.model.conversation import Brief
from coterie.model.envelope import TYPES, Envelope, Error, Instruction, Payload, Report, Review
from coterie.model.interaction import Option
from coterie.model.journal import AppendEnvelope, Write
from coterie.model.task import Stop, TaskCreated
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.model.workspace import shown
from coterie.ports import Context, Parked
from coterie.workflows.chat import STOP, answer_or_stop, failed_turn
from coterie.workspace.session_files import check_signatures, make_session_key, session_key

COTERIE = "coterie"
_PROMPTS = Path(__file__).with_name("prompts")
_TRIES = 2
"""A reply that does not fit gets the reason and one more try."""


class Draft(NamedTuple):
    """A payload on its way into an envelope."""

    source: str
    target: str
    payload: Payload
    ticket: str | None = None


AnyPayload = TypeVar("AnyPayload", bound=Payload)


class PayloadRequest(NamedTuple, Generic[AnyPayload]):
    """A prompt that is answered with a payload."""

    prompt: str
    wanted: type[AnyPayload]
    ticket: str | None = None
    """The ticket that it is about: a reply about another one is refused."""
    tries: int | None = None
    """How often the agent may fail before that is the result; None: as often as in any turn."""
    topic: str = ""
    """Each topic has a thread of its own: workers have one for each ticket, the manager has one."""


class Messenger:
    """Speaks with the members of one session and keeps what they say."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._task = task
        self._context = context
        self._key: bytes | None = None
        self._turns = 0
        self._prompts: Mapping[str, Template] = {}

    async def open(self, kept: Sequence[Envelope]) -> None:
        """Load the prompts, the user's own in `.coterie/prompts` first, and the session's key.

        Raises EnvelopeForged if an envelope that is kept was not signed with it.
        """
        root, session = self._context.root, self._task.session_id
        if kept:  # the turns of an earlier run are not repeated
            self._turns: int = max(message.turn for message in self._context.conversation)
        self._prompts = await anyio.to_thread.run_sync(_read_prompts, root)
        if self._task.scheduler.sign:
            find = session_key if kept else make_session_key
            self._key = await anyio.to_thread.run_sync(find, root / ".coterie", session)
            check_signatures(session, enumerate(kept, 1), self._key)

    async def ask(
        self, name: str, member: Member, asked: PayloadRequest[AnyPayload]
    ) -> AnyPayload | TurnFailed:
        """A member's reply, as a payload of the type that was asked for.

        A reply that does not parse gets `error(validation_failed)` and one more try.
        """
        why, prompt, kind = "", asked.prompt, TYPES[asked.wanted]
        for tries in range(1, _TRIES + 1):
            intent = [name, tries, [kind]]
            brief = Brief(prompt, intent, schema_of(asked.wanted), asked.tries, asked.topic)
            self._turns += 1
            reply = await self._context.turn(f"{name}/said/{tries}", member, self._turns, brief)
            if isinstance(reply, TurnFailed):
                return reply
            if reply.cut:
                return TurnFailed("refused", "it was broken off", retry=False)
            try:
                return parse_reply(reply.text, asked.wanted, asked.ticket)
            except UnreadableReply as mistake:
                why = str(mistake)
            refusal = Error(
                code="validation_failed",
                message=f"The reply is no {kind}: {why}",
                resolution_hint="Answer with one JSON object in a ```json block.",
            )
            draft = Draft(COTERIE, member.id, refusal, asked.ticket)
            await self.post(f"{name}/refused/{tries}", draft)
            prompt = f"{refusal.message}\n{refusal.resolution_hint}\n\n{asked.prompt}"
        return TurnFailed("protocol", f"its reply was no {kind}: {why}")

    async def post(self, name: str, *drafts: Draft) -> None:
        """Keep messages that change no ticket, in one transaction."""
        kinds = [type(draft.payload).__name__ for draft in drafts]
        await self._context.record(name, kinds, lambda at: self.writes(at, drafts))

    def writes(self, at: str, drafts: Sequence[Draft]) -> list[Write]:
        """Envelopes, to be stored in one transaction with what they cause."""
        made = (Envelope.of(self._task.session_id, at, *draft) for draft in drafts)
        return [AppendEnvelope(one, self._key) for one in made]

    def prompt(self, name: str, **facts: object) -> str:
        filled = {key: _shown(value) for key, value in facts.items()}
        return self._prompts[name].safe_substitute(filled)


class Manager:
    """The manager of a session: one memory for all tickets, one prompt at a time."""

    def __init__(self, context: Context, messenger: Messenger, member: Member) -> None:
        self.member: Member = member
        self._context = context
        self._messenger = messenger
        self._turn = anyio.Lock(fast_acquire=True)
        self._parked: Stop | None = None
        """Why it is not asked any more in this run: a question about it is open."""

    @property
    def id(self) -> str:
        return self.member.id

    async def ask(
        self, name: str, prompt: str, wanted: type[AnyPayload], ticket: str | None = None
    ) -> AnyPayload:
        """Its reply.  Raises Parked where its agent fails and the user does not say what to do."""
        async with self._turn:  # held while the user is asked: one question for one failure
            if self._parked is not None:
                self._context.park(self._parked)
            try:
                return await self._reply(name, PayloadRequest(prompt, wanted, ticket))
            except Parked as parked:
                self._parked = parked.stop
                raise

    async def _reply(self, name: str, request: PayloadRequest[AnyPayload]) -> AnyPayload:
        for tries in count(1):
            step = f"{name}/{tries}" if tries > 1 else name
            reply = await self._messenger.ask(step, self.member, request)
            if not isinstance(reply, TurnFailed):
                return reply
            # Nobody else can manage, so the manager cannot be skipped.
            options = (Option(id="retry", label="try again", style="primary"), STOP)
            facts = {"manages": True, "ticket": request.ticket}
            question = failed_turn(self.member, reply, tries, options, **facts)
            await answer_or_stop(self._context, f"{name}/failed/{tries}", question)
        raise AssertionError("counting never ends")


def _read_prompts(root: Path) -> dict[str, Template]:
    own = root / ".coterie" / "prompts"
    found = {path.stem: path for path in _PROMPTS.glob("*.md")}
    found |= {path.stem: path for path in own.glob("*.md") if path.stem in found}
    return {name: Template(_text_of(path)) for name, path in found.items()}


def _text_of(prompt: Path) -> str:
    try:
        return prompt.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = f"{shown(prompt)}:{line} is not UTF-8 text."
        raise ConfigError(problem, "Save it as UTF-8.", f"{prompt}:{line}") from None
    except OSError as error:
        problem = f"{shown(prompt)} cannot be read: {error.strerror}."
        raise ConfigError(problem, "Mend it, or delete it to use ours.", str(prompt)) from None


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or "-"
    if isinstance(value, Sequence):
        lines = cast("Sequence[object]", value)
        return "\n".join(f"- {one}" for one in lines) or "- none"
    return str(value)


_FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<kind>[^`\s]*)")
"""A line that opens or closes a block."""
_JSON = ("", "json")
_LONGEST = 1_000_000
"""No plan that a person could read is longer than this."""
_TICKET = "ticket_id"
_ASKS_USER = "ASK USER:"
"""How a summary begins that asks the user, where a prompt does not know of `ask_user`."""
_MOST_MISTAKES = 8
"""More are not named at once."""
_VERDICTS = (Report, Review)
"""Of a plan that was written twice the last one is meant; these decide something."""


class UnreadableReply(ValueError):
    """A reply that holds no payload of the kind that was asked for, and why."""


class WrongTicket(UnreadableReply):
    """A reply about another ticket than the one that was asked about."""


def parse_reply(text: str, wanted: type[AnyPayload], ticket: str | None = None) -> AnyPayload:
    """The payload in a reply, of the type and about the ticket that was asked for.

    Raises UnreadableReply, also for two reports or reviews that say different things: nobody could
    tell which of them is meant.
    """
    if len(text) > _LONGEST:
        raise UnreadableReply(f"it is {len(text)} characters long")
    problem = "there is no JSON object in it"
    found: list[AnyPayload] = []
    for candidate in _objects(text):
        try:
            found.append(_payload(candidate, wanted, ticket))
        except WrongTicket:
            raise
        except UnreadableReply as mistake:
            problem = str(mistake)
    if not found:
        raise UnreadableReply(problem)
    if wanted in _VERDICTS and any(one != found[0] for one in found):
        raise UnreadableReply(f"it holds {len(found)} different {TYPES[wanted]}s; give one")
    return found[0]


@cache
def schema_of(wanted: type[Payload]) -> Mapping[str, object]:
    """What a reply must look like, for agents that can be held to a schema."""
    return wanted.model_json_schema()


def _objects(text: str) -> Iterator[Mapping[str, object]]:
    """Whatever could be meant: the last block first, for it is the one that was arrived at."""
    blocks = [found for part in reversed(list(_blocks(text))) if (found := _object(part))]
    if blocks:
        yield from blocks
        return
    for part in (text, _outermost(text)):
        found = _object(part)
        if found is not None:
            yield found
            return


def _blocks(text: str) -> Iterator[str]:
    """What stands in blocks that could be JSON; those of other languages are passed over."""
    inside: list[str] | None = None
    opened, kind = "", ""
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if inside is None:
            if fence is not None:
                inside, opened, kind = [], fence["marks"], fence["kind"].casefold()
        elif fence is not None and not fence["kind"] and fence["marks"].startswith(opened):
            if kind in _JSON:
                yield "\n".join(inside)
            inside = None
        else:
            inside.append(line)


def _object(text: str) -> Mapping[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def _outermost(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if first >= 0 else ""


def _payload(
    given: Mapping[str, object], wanted: type[AnyPayload], ticket: str | None
) -> AnyPayload:
    kind = TYPES[wanted]
    body = _about(_body(given, kind), given, ticket)
    if wanted is Instruction:
        body = _asking(body)
    try:
        return wanted.model_validate(body)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, one['loc'])) or kind}: {one['msg']}"
            for one in error.errors()[:_MOST_MISTAKES]
        ]
        raise UnreadableReply("; ".join(lines)) from None


def _asking(body: Mapping[str, object]) -> Mapping[str, object]:
    """An instruction that asks the user: prompts of users' own may have it in the summary."""
    summary = body.get("summary")
    if not isinstance(summary, str) or not summary.startswith(_ASKS_USER):
        return body
    wanted = summary.removeprefix(_ASKS_USER).strip()
    return {**body, "summary": wanted, "ask_user": wanted}


def _body(given: Mapping[str, object], wanted: str) -> Mapping[str, object]:
    """The payload itself, whether it was put into an envelope or not."""
    named = given.get("payload_type")
    if named is None:
        return given
    if named != wanted:
        raise UnreadableReply(f"payload_type is {json.dumps(named)}; it must be {wanted}")
    body = given.get("payload")
    if isinstance(body, dict):
        return cast("Mapping[str, object]", body)
    return {key: value for key, value in given.items() if key != "payload_type"}


def _about(
    body: Mapping[str, object], given: Mapping[str, object], ticket: str | None
) -> Mapping[str, object]:
    """The payload without the name of its ticket, which must be the right one."""
    for named in (body.get(_TICKET), given.get(_TICKET)):
        if ticket is not None and named is not None and named != ticket:
            raise WrongTicket(f"{_TICKET} is {json.dumps(named)}; this is about {ticket}")
    return {key: value for key, value in body.items() if key != _TICKET}
