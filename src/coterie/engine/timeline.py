"""A task's timeline: what was decided, said, done and failed, in the order it was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from coterie.errors import NotFound
from coterie.model import instant, step_name
from coterie.model.check import ended
from coterie.model.journal import Turn
from coterie.model.record import (
    Entry,
    ErrorRecord,
    InteractionRecord,
    MessageRecord,
    Record,
    TaskRecord,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.task import ENDED, Status
from coterie.model.ticket import STATES, Ticket, TicketState
from coterie.model.timeline import (
    AskedQuestion,
    AuditedCall,
    SentMessage,
    Source,
    StatusChange,
    TicketMoment,
    TimelineRow,
)
from coterie.ports import Storage

_STATES: dict[str, TicketState] = {state: state for state in STATES}
_STATUSES: Mapping[str, Status] = {
    "TaskCreated": "created",
    "TaskStarted": "running",
    "TaskCompleted": "completed",
    "TaskFailed": "failed",
    "TaskCanceled": "canceled",
}
_Lines = Mapping[str, Sequence[tuple[str, TicketRecord]]]
"""By ticket: everything that happened to it, and when."""
OWNER_LOOK = 1.0
"""Seconds between checks whether the owner is alive: a dead one writes nothing."""


async def timeline(storage: Storage, task_id: str) -> list[Entry]:
    """Everything that happened so far, in order.  Raises NotFound if there is no such task."""
    return await entries(storage, await _after(storage, 0, task_id))


async def _after(storage: Storage, last: int, task_id: str) -> Sequence[TimelineRow]:
    rows = await storage.timeline.after(last, task_id)
    if not rows and not last:  # the first row of every task says that it was created
        raise NotFound(f'No task "{task_id}".', "coterie tasks")
    return rows


async def follow(
    storage: Storage, task_id: str, is_run: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[Entry]:
    """The timeline, then whatever is added, until the task ends or nobody runs it.

    The timeline of a session includes its tickets; that of a ticket only the ticket itself.
    Raises NotFound if there is no such task."""
    last = seen = 0
    is_over = False
    while True:
        # Checked before the stores are read: whatever was written by then is still shown.
        runs = await is_run()
        for entry in await entries(storage, await _after(storage, last, task_id)):
            record = entry.record
            if isinstance(record, TaskRecord) and record.id == task_id:
                is_over = record.status in ENDED
            last = entry.seq
            yield entry
        if is_over or not runs:
            return
        try:
            async with asyncio.timeout(OWNER_LOOK):
                seen = await storage.changed(seen)
        except TimeoutError:
            continue


async def entries(storage: Storage, rows: Sequence[TimelineRow]) -> list[Entry]:
    """Convert rows of the timeline to the entries that surfaces show."""
    sources = [row.source for row in rows]
    sessions = {one.session_id for one in sources if isinstance(one, TicketMoment)}
    tickets = {session: await _of_tickets(storage, session) for session in sessions}
    result: list[Entry] = []
    for row in rows:
        at, record = _of(row.source, tickets)
        result.append(Entry(at, record, row.sequence, _payload(row.source)))
    return result


def _payload(source: Source) -> str:
    if not isinstance(source, SentMessage) or source.turn is None:
        return ""
    return step_name.parse(source.turn.step).payload


def _of(source: Source, tickets: Mapping[str, _Lines]) -> tuple[str, Record]:
    match source:
        case StatusChange(event=event, workflow=workflow):
            return event.at, TaskRecord(event.task_id, workflow, _STATUSES[event.type])
        case AskedQuestion():
            return source.event.at, _question(source)
        case SentMessage():
            return source.message.at, _message(source)
        case AuditedCall(entry=entry, given=given):
            return entry.timestamp, ToolCallRecord.of(entry, given)
        case Turn():
            return source.closed_at or source.opened_at, _failure(source)
        case TicketMoment(session_id=session, ticket_id=ticket, place=place):
            return tickets[session][ticket][place - 1]


def _question(source: AskedQuestion) -> InteractionRecord:
    interaction = source.interaction
    if source.event.type == "UserInteractionRequested":
        return InteractionRecord(interaction, interaction.author_actor_id)
    response = source.event.response
    return InteractionRecord(
        interaction,
        interaction.author_actor_id,
        "answered" if response.by_person else "closed",
        response.choice,
        response.author_actor_id,
        response.words,
    )


def _message(source: SentMessage) -> MessageRecord:
    turn = source.turn
    if turn is None:
        return MessageRecord.of(source.message)
    took = instant.seconds_between(turn.opened_at, turn.closed_at or turn.opened_at)
    duration = round(max(took, 0.0) * 1000)
    return MessageRecord.of(source.message, duration_ms=duration, usage=turn.used)


async def _of_tickets(storage: Storage, session: str) -> _Lines:
    """Everything that happened to a session's tickets, and who worked on each at the time."""
    from coterie.model.envelope import (  # only needed for tickets, and slow to import
        ArtifactRef,
        TicketPayload,
    )

    tickets = await storage.tickets.tickets(session)
    known: dict[tuple[str, int], _AtTheTime] = {}
    """By ticket and place in its history: two moments may have one timestamp."""
    ran: dict[str, list[str]] = {}
    """By ticket: the checks since its last transition."""
    for _, envelope in await storage.tickets.envelopes(session):
        payload = envelope.payload
        if isinstance(payload, TicketPayload) and payload.history:
            checks = ran.pop(payload.ticket_id, [])
            known[payload.ticket_id, len(payload.history)] = _AtTheTime(payload.owner, checks)
        elif isinstance(payload, ArtifactRef) and payload.checked and envelope.ticket_id:
            check = f"{payload.checked.command}: {ended(payload.checked)}"
            ran.setdefault(envelope.ticket_id, []).append(check)
    return {ticket.id: _of_history(session, ticket, known) for ticket in tickets}


class _AtTheTime(NamedTuple):
    """The circumstances in which something happened to a ticket."""

    owner: str | None
    checks: Sequence[str]
    """The commands that Coterie ran, and how they ended."""


def _of_history(
    task_id: str, ticket: Ticket, known: Mapping[tuple[str, int], _AtTheTime]
) -> list[tuple[str, TicketRecord]]:
    """Everything that happened to a ticket, and who worked on it at the time."""
    lines: list[tuple[str, TicketRecord]] = []
    owner: str | None = ticket.owner
    state: TicketState = "pending"
    for place, moment in enumerate(ticket.history, 1):
        state = _STATES.get(moment.event, state)
        owner, checks = known.get((ticket.id, place), _AtTheTime(owner, ()))
        begun, closed = moment.event == "created", moment.event == "closed"
        message = moment.message if moment.event in (state, "closed") else moment.event
        if moment.message and message == moment.event:
            message = f"{moment.event}: {moment.message}"
        if checks:
            message = f"{message}; Coterie ran {', '.join(checks)}"
        record = TicketRecord(
            task_id,
            ticket.id,
            state,
            None if begun else owner,
            ticket.title,
            message,
            ticket.dependencies,
            ticket.closed_by if closed else None,
            is_new=begun,
        )
        lines.append((moment.at, record))
    return lines


def _failure(turn: Turn) -> ErrorRecord:
    return ErrorRecord(
        code="turn_failed",
        message=f"{turn.member} failed (try {turn.attempt}): {turn.detail}",
        member=turn.member,
        task=turn.task_id,
    )
