"""A task's timeline: what was decided, said, done and failed, in one order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

from coterie.engine.budget import usage_of
from coterie.model import instant
from coterie.model.interaction import NOBODY
from coterie.model.journal import Turn
from coterie.model.message import Message
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MessageRecord,
    Record,
    TaskRecord,
    TicketRecord,
    ToolCallRecord,
)
from coterie.model.task import ENDED, Event, TaskState, after, fold
from coterie.model.ticket import STATES, Ticket, TicketState
from coterie.model.tool_call import DENIED, AuditEntry
from coterie.model.view import Entry
from coterie.ports import Storage

_SOURCES = 5
_STATES: dict[str, TicketState] = {state: state for state in STATES}
OWNER_LOOK = 1.0
"""A dead owner writes nothing, so whether it lives is looked at this often, in seconds."""


async def timeline(storage: Storage, task_id: str) -> list[Entry]:
    """What happened so far, in order."""
    return _merged(await _sources(storage, task_id))


async def follow(
    storage: Storage, task_id: str, is_run: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[Entry]:
    """The timeline, then whatever is added, until the task ends or nobody runs it."""
    seen, told = 0, [0] * _SOURCES
    while True:
        # Looked at before the sources are read: what was written until then is still told.
        over = fold(await storage.events.of_task(task_id)).status in ENDED or not await is_run()
        sources = await _sources(storage, task_id)
        for entry in _merged([source[n:] for source, n in zip(sources, told, strict=True)]):
            yield entry
        told = [len(source) for source in sources]
        if over:
            return
        try:
            async with asyncio.timeout(OWNER_LOOK):
                seen = await storage.changed(seen)
        except TimeoutError:
            continue


async def _sources(storage: Storage, task_id: str) -> list[list[Entry]]:
    """Five lists that only grow at their ends."""
    turns = await storage.journal.turns(task_id)
    closed = sorted(
        (turn for turn in turns if turn.closed_at), key=lambda turn: turn.closed_at or ""
    )
    costs = {turn.step.partition("/again/")[0]: turn for turn in closed if _is_whole(turn)}
    messages = await storage.conversation.messages(task_id)
    return [
        _of_events(await storage.events.of_task(task_id)),
        [_said(message, costs) for message in messages if message.text],
        _of_audit(await storage.audit.of_task(task_id)),
        [_failed(turn) for turn in closed if turn.outcome == "failed"],
        _of_tickets(task_id, await storage.tickets.tickets(task_id)),
    ]


def _merged(sources: list[list[Entry]]) -> list[Entry]:
    entries = [placed for source in sources for placed in _in_order(source)]
    return [entry for _, entry in sorted(entries, key=lambda one: (one[0], _rank(one[1].record)))]


def _in_order(source: list[Entry]) -> Iterator[tuple[str, Entry]]:
    """Each entry with when it counts as: a clock that was set back must not turn the order."""
    latest = ""
    for entry in source:
        latest = max(latest, entry.at)
        yield latest, entry


def _rank(record: Record) -> int:
    """What comes first of things in one millisecond: a begin, what was said, a question, an end."""
    if isinstance(record, TaskRecord):
        return 3 if record.status in ENDED else 0
    return 2 if isinstance(record, InteractionRecord) else 1


def _of_events(events: list[Event]) -> list[Entry]:
    entries: list[Entry] = []
    state: TaskState | None = None
    asked: dict[str, InteractionRecord] = {}
    for event in events:
        state = after(state, event)
        record: Record = TaskRecord(state.id, state.created.workflow, state.status)
        if event.type == "UserInteractionRequested":
            record = InteractionRecord(event.interaction, event.interaction.author_actor_id)
            asked[event.interaction.interaction_id] = record
        elif event.type == "UserInteractionResponded":
            given = event.response
            record = InteractionRecord(
                asked[given.interaction_id].interaction,
                asked[given.interaction_id].member,
                "closed" if given.author_actor_id == NOBODY else "answered",
                given.choice,
                given.author_actor_id,
                given.words,
            )
        entries.append(Entry(event.at, record))
    return entries


def _said(message: Message, costs: dict[str, Turn]) -> Entry:
    turn = costs.get(f"turn/{message.turn}") if message.turn else None
    if turn is None or turn.member != message.member:
        return Entry(message.at, MessageRecord.of(message))
    took = instant.seconds_between(turn.opened_at, turn.closed_at or turn.opened_at)
    duration = round(max(took, 0.0) * 1000)
    record = MessageRecord.of(message, duration_ms=duration, usage=usage_of(turn))
    return Entry(message.at, record)


def _is_whole(turn: Turn) -> bool:
    return turn.outcome in ("completed", "interrupted")


def _of_audit(entries: list[AuditEntry]) -> list[Entry]:
    begun = {e.tool_call_id: e for e in entries if e.kind == "ToolCallRequested"}
    return [
        Entry(
            entry.timestamp,
            ToolCallRecord(
                task=entry.task_id,
                member=entry.author_actor_id,
                id=entry.tool_call_id,
                name=entry.tool_name,
                input=(begun.get(entry.tool_call_id) or entry).input or {},
                status="started" if entry.kind == "ToolCallRequested" else "completed",
                is_error=entry.is_error,
                duration_ms=entry.duration_ms,
                denied=str((entry.output or {}).get(DENIED, "")),
            ),
        )
        for entry in entries
    ]


def _of_tickets(task_id: str, tickets: list[Ticket]) -> list[Entry]:
    """What happened to a session's tickets."""
    entries: list[Entry] = []
    for ticket in tickets:
        state: TicketState = "pending"
        for moment in ticket.history:
            state = _STATES.get(moment.event, state)
            begun = moment.event == "created"
            closed = moment.event == "closed"
            message = moment.message if moment.event in (state, "closed") else moment.event
            if moment.message and message == moment.event:
                message = f"{moment.event}: {moment.message}"
            what = TicketRecord(
                task_id,
                ticket.id,
                state,
                None if begun else ticket.owner,
                ticket.title,
                message,
                ticket.dependencies,
                ticket.closed_by if closed else None,
                is_new=begun,
            )
            entries.append(Entry(moment.at, what))
    return sorted(entries, key=lambda entry: entry.at)


def _failed(turn: Turn) -> Entry:
    return Entry(
        turn.closed_at or turn.opened_at,
        ErrorRecord(
            code="turn_failed",
            message=f"{turn.member} failed (try {turn.attempt}): {turn.detail}",
            member=turn.member,
            task=turn.task_id,
        ),
    )
