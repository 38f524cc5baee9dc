"""One ticket: how it stands, what it was told, what it reported, and all that happened to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coterie.cli.text import Paint, clock, counted, field, one_line
from coterie.cli.ticket_table import Row, thousands, took
from coterie.model.envelope import (
    ArtifactRef,
    Envelope,
    Error,
    Instruction,
    InstructionProposal,
    Payload,
    Report,
    Review,
)

_FEW = 12
"""So many lines of a history stand on a screen; `show` has all."""


@dataclass(frozen=True)
class TicketPage:
    """What is known of one ticket."""

    task: str
    row: Row
    said: tuple[Envelope, ...]
    """All that was said of it, in order."""
    branch: str = ""

    @classmethod
    def of(cls, task: str, row: Row, envelopes: Iterable[Envelope], branch: str = "") -> TicketPage:
        """The page of a ticket, from all that was said in its session."""
        mine = [one for one in envelopes if one.ticket_id == row.ticket.id]
        return cls(task, row, tuple(mine), branch)

    def last(self, kind: type[Payload]) -> Envelope | None:
        """What was last said of it in this form."""
        return next((one for one in reversed(self.said) if isinstance(one.payload, kind)), None)

    def fields(self) -> dict[str, object]:
        """What `--json` says of it besides."""
        return {
            "branch": self.branch or None,
            "history": [vars(one) for one in self.row.ticket.history],
            "envelopes": [one.model_dump(mode="json", exclude_none=True) for one in self.said],
        }


def lines(page: TicketPage, width: int, paint: Paint, *, whole: bool = True) -> list[str]:
    """The page; with `whole` all of its history, else the end of it."""
    row = page.row
    ticket = row.ticket
    state = paint(row.state, row.meaning)
    owner = f"   {one_line(row.owner)}" if row.owner else ""
    shown = [
        f"{paint(f'{page.task}/{ticket.id}', 'name')}  {one_line(ticket.title)}   {state}{owner}"
    ]
    for name, value in _facts(page):
        shown += field(name, value, width)
    history = [_moment(one.at, one.event, one.message) for one in ticket.history]
    kept = history if whole else history[-_FEW:]
    if len(kept) < len(history):
        kept.insert(0, f"… {len(history) - len(kept)} before: coterie show {page.task}/{ticket.id}")
    for place, moment in enumerate(kept):
        shown += field("" if place else "history", moment, width)
    return shown


def _facts(page: TicketPage) -> Iterator[tuple[str, str]]:
    row = page.row
    ticket = row.ticket
    if ticket.dependencies:
        yield "after", " ".join(ticket.dependencies)
    if ticket.closed_by is not None or ticket.state in ("blocked", "error"):
        yield "why", ticket.reason
    if row.asks:
        yield "asks", f"{row.asks}   coterie show {row.asks}"
    yield from _last_said(page)
    yield from _checks(page)
    if used := _cost(row):
        yield "cost", used
    if page.branch:
        yield "branch", page.branch


_NAMES: Mapping[type[Payload], str] = {
    InstructionProposal: "proposal",
    Instruction: "told",
    Report: "report",
    Review: "review",
    Error: "error",
}


def _last_said(page: TicketPage) -> Iterator[tuple[str, str]]:
    """What manager and worker last said to each other."""
    for kind, name in _NAMES.items():
        envelope = page.last(kind)
        if envelope is not None:
            yield name, f"{envelope.source}: {_words(envelope.payload)}"


def _words(payload: Payload) -> str:
    match payload:
        case InstructionProposal():
            return _listed(payload.summary, [f"risk: {risk}" for risk in payload.risks])
        case Instruction():
            criteria = [
                f"- {one.text}   {f'checked by {one.command}' if one.command else 'please look'}"
                for one in payload.acceptance_criteria
            ]
            return _listed(payload.summary, payload.steps, criteria)
        case Report():
            # An agent's word: what it says that it ran is no check.
            made = [f"made {output}" for output in payload.outputs]
            says = [f"says {evidence}" for evidence in payload.evidence]
            return _listed(payload.status, made, says, payload.issues, payload.next_actions)
        case Review():
            decision = payload.decision.replace("_", " ")
            return _listed(decision, payload.requested_changes, [payload.notes])
        case Error():
            return f"{payload.code}: {payload.message}"
        case _:
            return ""


def _listed(first: str, *rest: Sequence[str]) -> str:
    return "\n".join([first, *(f"  {line}" for part in rest for line in part if line.strip())])


def _checks(page: TicketPage) -> Iterator[tuple[str, str]]:
    """The newest outcome of every command that Coterie ran."""
    newest: dict[str, str] = {}
    for one in page.said:
        if isinstance(one.payload, ArtifactRef) and (check := one.payload.checked):
            newest[check.command] = one.payload.description
    for command, how in newest.items():
        yield "checked", f"{command}: {how}"


def _cost(row: Row) -> str:
    view = row.view
    parts = [counted(view.turns, "turn")] if view.turns else []
    parts += [took(view.seconds)] if view.seconds else []
    parts += [f"{thousands(view.tokens)} tokens"] if view.tokens is not None else []
    return " · ".join(parts)


def _moment(at: str, event: str, message: str) -> str:
    return f"{clock(at)}  {event}" + (f": {one_line(message)}" if message else "")
