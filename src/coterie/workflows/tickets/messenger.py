"""Messages about tickets: members are asked for payloads, replies are parsed, and everything is
stored in envelopes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Generic, NamedTuple

import anyio
import anyio.to_thread

from coterie.model.envelope import (
    Envelope,
    Error,
    Payload,
)
from coterie.model.interaction import COTERIE, Option
from coterie.model.journal import AppendEnvelope, Write
from coterie.model.task import Stop, TaskCreated
from coterie.model.team import Member, member_folder
from coterie.model.update import TurnFailed
from coterie.ports import Context, Parked
from coterie.workflows.chat import STOP, answer_or_stop, failed_turn
from coterie.workflows.prompt_files import Prompts
from coterie.workflows.structured_turns import (
    HOW_TO_ANSWER,
    StructuredRequest,
    StructuredTurns,
)
from coterie.workflows.tickets.replies import AnyPayload, kind_of, parse_reply
from coterie.workspace.session_files import check_signatures, make_session_key, session_key

_PROMPTS = Path(__file__).with_name("prompts")


class Draft(NamedTuple):
    """A payload to be put into an envelope."""

    source: str
    target: str
    payload: Payload
    ticket: str | None = None


class PayloadRequest(NamedTuple, Generic[AnyPayload]):
    """A prompt to be answered with a payload."""

    prompt: str
    wanted: type[AnyPayload]
    ticket: str | None = None
    """The ticket the prompt is about: a reply about another one is refused."""
    tries: int | None = None
    """How often the agent may fail before that is the result; None: as often as in other turns."""
    topic: str = ""
    """Each topic has a thread of its own: workers have one for each ticket, the manager has one."""
    after_refusal: Callable[[], Awaitable[None]] | None = None
    """Called after a reply that does not fit; may be called twice."""


class Messenger:
    """Talks to the members of one session and stores what they say."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._task = task
        self._context = context
        self._key: bytes | None = None
        self._turns = StructuredTurns(context)
        self._prompts = Prompts()

    async def open(self, envelopes: Sequence[Envelope]) -> None:
        """Load the prompts, the user's own in `.coterie/prompts` first, and the session's key.

        Raises EnvelopeForged if a stored envelope was not signed with it.
        """
        root, session = self._context.root, self._task.session_id
        if envelopes:  # an earlier run's turns are not repeated, so count on from them
            self._turns.taken = self._context.turns
        own = root / ".coterie" / "prompts"
        self._prompts: Prompts = await anyio.to_thread.run_sync(Prompts.read, _PROMPTS, own)
        if self._task.scheduler.sign:
            find = session_key if envelopes else make_session_key
            self._key = await anyio.to_thread.run_sync(find, root / ".coterie", session)
            check_signatures(session, enumerate(envelopes, 1), self._key)

    async def ask(
        self, name: str, member: Member, asked: PayloadRequest[AnyPayload]
    ) -> AnyPayload | TurnFailed:
        """Return a member's reply as a payload of the requested type, or why the turn failed.

        A reply that does not parse gets `error(validation_failed)` and one more try.
        """
        kind = kind_of(asked.wanted)

        async def refused(tries: int, why: str) -> None:
            error = Error(
                code="validation_failed",
                message=f"The reply is not a valid {kind}: {why}; it came from "
                f"{self.named(member.id)}",
                resolution_hint=HOW_TO_ANSWER,
            )
            draft = Draft(COTERIE, member.id, error, asked.ticket)
            await self.post(f"{name}/refused/{tries}", draft)
            if asked.after_refusal is not None:
                await asked.after_refusal()

        wanted = StructuredRequest(asked.prompt, asked.wanted, kind, asked.tries, asked.topic)
        return await self._turns.ask(
            name,
            member,
            wanted,
            lambda text: parse_reply(text, asked.wanted, asked.ticket),
            refused,
        )

    def folder(self, instance: str) -> str:
        """Return a member's folder as shown in errors; empty if there is no such member."""
        member = self._task.team.instance(instance)
        if member is None:
            return ""
        root = self._context.root
        folder = member_folder(root, self._task.team.name, member)
        return str(folder.relative_to(root) if folder.is_relative_to(root) else folder)

    def named(self, instance: str) -> str:
        """Return a member with its folder, as shown in every error about its work."""
        folder = self.folder(instance)
        return f"{instance} ({folder})" if folder else instance

    async def post(self, name: str, *drafts: Draft) -> None:
        """Store messages that change no ticket, in one transaction."""
        kinds = [type(draft.payload).__name__ for draft in drafts]
        await self._context.record(name, kinds, lambda at: self.writes(at, drafts))

    def writes(self, at: str, drafts: Sequence[Draft]) -> list[Write]:
        """Return the writes of envelopes, for one transaction with what they cause."""
        envelopes = (Envelope.of(self._task.session_id, at, *draft) for draft in drafts)
        return [AppendEnvelope(one, self._key) for one in envelopes]

    def prompt(self, name: str, **facts: object) -> str:
        return self._prompts.filled(name, **facts)


class Manager:
    """The manager of a session: one memory for all tickets, one prompt at a time."""

    def __init__(self, context: Context, messenger: Messenger, member: Member) -> None:
        self.member: Member = member
        self._context = context
        self._messenger = messenger
        self._turn = anyio.Lock(fast_acquire=True)
        self._parked: Stop | None = None
        """Why it is no longer asked in this run: a question about it is open."""

    @property
    def id(self) -> str:
        return self.member.id

    async def ask(
        self, name: str, prompt: str, wanted: type[AnyPayload], ticket: str | None = None
    ) -> AnyPayload:
        """Return its reply; raises Parked if its agent fails and the user does not decide."""
        if ticket is not None:  # only this ticket waits if its own limit is reached
            await self._context.within_budget(self.member, ticket)
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
        raise AssertionError("unreachable")
