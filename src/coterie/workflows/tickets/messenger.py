"""Messages about tickets: members are asked for payloads, and what is said is kept in envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from string import Template
from typing import NamedTuple, cast

import anyio
import anyio.to_thread

from coterie.model.conversation import Brief
from coterie.model.envelope import Envelope, Error, Payload, PayloadType
from coterie.model.interaction import Ask, Option
from coterie.model.journal import AppendEnvelope, Write
from coterie.model.task import Stop, TaskCreated
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import Context, Parked
from coterie.workflows.failed_turns import STOP, answer_or_stop, failed_turn
from coterie.workflows.tickets.reply_parser import UnreadableReply, parse_reply, schema_of
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


class PayloadRequest(NamedTuple):
    """A prompt that is answered with a payload."""

    prompt: str
    wanted: PayloadType
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

    async def ask(self, name: str, member: Member, asked: PayloadRequest) -> Payload | TurnFailed:
        """A member's reply, as a payload of the type that was asked for.

        A reply that does not parse gets `error(validation_failed)` and one more try.
        """
        why, prompt = "", asked.prompt
        for tries in range(1, _TRIES + 1):
            intent = [name, tries, [asked.wanted]]
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
                message=f"The reply is no {asked.wanted}: {why}",
                resolution_hint="Answer with one JSON object in a ```json block.",
            )
            draft = Draft(COTERIE, member.id, refusal, asked.ticket)
            await self.post(f"{name}/refused/{tries}", draft)
            prompt = f"{refusal.message}\n{refusal.resolution_hint}\n\n{asked.prompt}"
        return TurnFailed("protocol", f"its reply was no {asked.wanted}: {why}")

    async def post(self, name: str, draft: Draft) -> None:
        """Keep a message that changes no ticket."""
        kinds = [type(draft.payload).__name__]
        await self._context.record(name, kinds, lambda at: self.writes(at, [draft]))

    def writes(self, at: str, drafts: Sequence[Draft]) -> list[Write]:
        """Envelopes, to be stored in one transaction with what they cause."""
        return [AppendEnvelope(self._envelope(at, draft)) for draft in drafts]

    def _envelope(self, at: str, draft: Draft) -> Envelope:
        session = self._task.session_id
        made = Envelope.of(session, at, draft.source, draft.target, draft.payload, draft.ticket)
        return made.signed(self._key) if self._key else made

    def prompt(self, name: str, **facts: object) -> str:
        """A prompt, filled in."""
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
        """The member's id."""
        return self.member.id

    async def ask(
        self, name: str, prompt: str, wanted: PayloadType, ticket: str | None = None
    ) -> Payload:
        """Its reply.  Raises Parked where its agent fails and the user does not say what to do."""
        async with self._turn:  # held while the user is asked: one question for one failure
            if self._parked is not None:
                self._context.park(self._parked)
            try:
                return await self._reply(name, PayloadRequest(prompt, wanted, ticket))
            except Parked as parked:
                self._parked = parked.stop
                raise

    async def _reply(self, name: str, request: PayloadRequest) -> Payload:
        for tries in count(1):
            step = f"{name}/{tries}" if tries > 1 else name
            reply = await self._messenger.ask(step, self.member, request)
            if not isinstance(reply, TurnFailed):
                return reply
            question = self._question(reply, tries, request.ticket)
            await answer_or_stop(self._context, f"{name}/failed/{tries}", question)
        raise AssertionError("counting never ends")

    def _question(self, failure: TurnFailed, tries: int, ticket: str | None) -> Ask:
        # Nobody else can manage, so the manager cannot be skipped.
        options = (Option(id="retry", label="try again", style="primary"), STOP)
        question = failed_turn(self.member, failure, tries, options)
        about = question.about.model_copy(update={"manages": True, "ticket": ticket})
        return replace(question, about=about)


def _read_prompts(root: Path) -> dict[str, Template]:
    own = root / ".coterie" / "prompts"
    found = {path.stem: path for path in _PROMPTS.glob("*.md")}
    found |= {path.stem: path for path in own.glob("*.md") if path.stem in found}
    return {name: Template(path.read_text(encoding="utf-8")) for name, path in found.items()}


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value or "-"
    if isinstance(value, Sequence):
        lines = cast("Sequence[object]", value)
        return "\n".join(f"- {one}" for one in lines) or "- none"
    return str(value)
