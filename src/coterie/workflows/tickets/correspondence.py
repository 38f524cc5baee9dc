"""What is said about tickets: asked of members, read into payloads, kept in envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import cast

import anyio.to_thread

from coterie.model.envelope import Envelope, Error, Payload, PayloadType
from coterie.model.journal import AppendEnvelope, Write
from coterie.model.prompt import Brief
from coterie.model.task import TaskCreated
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import Context
from coterie.workflows.tickets.reading import Unreadable, payload_in, schema_of
from coterie.workspace.session_files import check_signatures, make_session_key, session_key

COTERIE = "coterie"
_PROMPTS = Path(__file__).with_name("prompts")
_TRIES = 2
"""A reply that does not fit gets the reason and one more try."""


@dataclass(frozen=True)
class Said:
    """A payload on its way into an envelope."""

    source: str
    target: str
    payload: Payload
    ticket: str | None = None


@dataclass(frozen=True)
class Inquiry:
    """What a member is asked."""

    text: str
    wanted: PayloadType
    ticket: str | None = None
    """The ticket that it is about; an answer about another is none."""
    tries: int | None = None
    """How often its agent may fail before that is the answer; None: as often as any."""


class Correspondence:
    """All that is said in one session."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        self._task = task
        self._context = context
        self._key: bytes | None = None
        self._turns = 0
        self._prompts: Mapping[str, Template] = {}

    @property
    def task_id(self) -> str:
        """The task whose letters these are."""
        return self._task.task_id

    @property
    def session_id(self) -> str:
        """The session that they are kept in."""
        return self._task.session_id

    async def open(self, kept: Sequence[Envelope]) -> None:
        """Read the prompts, the user's own in `.coterie/prompts` first, and the session's key.

        Raises EnvelopeForged where what is kept was not signed with it.
        """
        root, session = self._context.root, self._task.session_id
        if kept:  # the turns of an earlier run are not repeated
            self._turns: int = max(message.turn for message in self._context.conversation)
        self._prompts = await anyio.to_thread.run_sync(_read_prompts, root)
        if self._task.scheduler.sign:
            find = session_key if kept else make_session_key
            self._key = await anyio.to_thread.run_sync(find, root / ".coterie", session)
            check_signatures(session, enumerate(kept, 1), self._key)

    async def hear_from(self, name: str, member: Member, asked: Inquiry) -> Payload | TurnFailed:
        """What a member answers, as a payload of the type that was asked for.

        A reply that is none gets `error(validation_failed)` and one more try; nothing else moves.
        """
        why, prompt = "", asked.text
        for tries in range(1, _TRIES + 1):
            intent = [name, tries, [asked.wanted]]
            brief = Brief(prompt, intent, schema_of(asked.wanted), asked.tries)
            self._turns += 1
            reply = await self._context.turn(f"{name}/said/{tries}", member, self._turns, brief)
            if isinstance(reply, TurnFailed):
                return reply
            if reply.cut:
                return TurnFailed("refused", "it was broken off", retry=False)
            try:
                return payload_in(reply.text, asked.wanted, asked.ticket)
            except Unreadable as mistake:
                why = str(mistake)
            refusal = Error(
                code="validation_failed",
                message=f"The reply is no {asked.wanted}: {why}",
                resolution_hint="Answer with one JSON object in a ```json block.",
            )
            said = Said(COTERIE, member.id, refusal, asked.ticket)
            await self.post(f"{name}/refused/{tries}", said)
            prompt = f"{refusal.message}\n{refusal.resolution_hint}\n\n{asked.text}"
        return TurnFailed("protocol", f"its reply was no {asked.wanted}: {why}")

    async def post(self, name: str, *said: Said) -> None:
        """Keep what was said, where it moves no ticket."""
        kinds = [type(one.payload).__name__ for one in said]
        await self._context.record(name, kinds, lambda at: self.writes(at, said))

    def writes(self, at: str, said: Sequence[Said]) -> list[Write]:
        """The envelopes, to be kept in one transaction with what they cause."""
        return [AppendEnvelope(self._envelope(at, one)) for one in said]

    def _envelope(self, at: str, said: Said) -> Envelope:
        session = self._task.session_id
        made = Envelope.of(session, at, said.source, said.target, said.payload, said.ticket)
        return made.signed(self._key) if self._key else made

    def prompt(self, name: str, **facts: object) -> str:
        """A prompt, filled in."""
        filled = {key: _shown(value) for key, value in facts.items()}
        return self._prompts[name].safe_substitute(filled)


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
