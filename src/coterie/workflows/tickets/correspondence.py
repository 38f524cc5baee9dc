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


class Correspondence:
    """All that is said in one session."""

    def __init__(self, task: TaskCreated, context: Context, key: bytes | None = None) -> None:
        self._task = task
        self._context = context
        self._key = key
        self._turns = 0
        self._prompts: Mapping[str, Template] = {}

    async def open(self) -> None:
        """Read the prompts; the user's own in `.coterie/prompts` come first."""
        self._prompts = await anyio.to_thread.run_sync(_read_prompts, self._context.root)

    async def hear_from(
        self, name: str, member: Member, text: str, *wanted: PayloadType, ticket: str | None = None
    ) -> Payload | TurnFailed:
        """What a member answers, as a payload of one of these types.

        A reply that is none gets `error(validation_failed)` and one more try; nothing else moves.
        """
        why, prompt = "", text
        for tries in range(1, _TRIES + 1):
            brief = Brief(
                prompt,
                [name, tries, list(wanted)],
                schema_of(wanted[0]) if len(wanted) == 1 else None,
            )
            self._turns += 1
            reply = await self._context.turn(f"{name}/said/{tries}", member, self._turns, brief)
            if isinstance(reply, TurnFailed):
                return reply
            try:
                return payload_in(reply.text, *wanted)
            except Unreadable as mistake:
                why = str(mistake)
            refusal = Error(
                code="validation_failed",
                message=f"The reply is no {' or '.join(wanted)}: {why}",
                resolution_hint="Answer with one JSON object in a ```json block.",
            )
            await self.post(f"{name}/refused/{tries}", Said(COTERIE, member.id, refusal, ticket))
            prompt = f"{refusal.message}\n{refusal.resolution_hint}\n\n{text}"
        return TurnFailed("protocol", f"its reply was no {' or '.join(wanted)}: {why}")

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
