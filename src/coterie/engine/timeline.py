"""A task's timeline: what was decided, said, done and failed, in one order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

from coterie.model import instant
from coterie.model.conversation import Message
from coterie.model.envelope import Envelope, TicketPayload
from coterie.model.interaction import NOBODY
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
from coterie.model.task import ENDED, Event, TaskState, after, run_with, ticket_in
from coterie.model.ticket import STATES, Ticket, TicketState
from coterie.model.tool_call import AuditEntry
from coterie.ports import Storage

_STATES: dict[str, TicketState] = {state: state for state in STATES}
OWNER_LOOK = 1.0
"""A dead owner writes nothing, so whether it lives is looked at this often, in seconds."""


async def timeline(storage: Storage, task_id: str) -> list[Entry]:
    """What happened so far, in order."""
    return await _Reading(storage, task_id).new_entries()


async def follow(
    storage: Storage, task_id: str, is_run: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[Entry]:
    """The timeline, then whatever is added, until the task ends or nobody runs it.

    That of a session tells its tickets too; that of a ticket tells the ticket alone."""
    reading, seen = _Reading(storage, task_id), 0
    while True:
        # Looked at before the stores are read: what was written until then is still shown.
        runs = await is_run()
        for entry in await reading.new_entries():
            yield entry
        if reading.is_over or not runs:
            return
        try:
            async with asyncio.timeout(OWNER_LOOK):
                seen = await storage.changed(seen)
        except TimeoutError:
            continue


class _Reading:
    """Reads what the stores have on a task, each time only what was added."""

    def __init__(self, storage: Storage, task_id: str) -> None:
        self._storage = storage
        self._task_id = task_id
        self._states: dict[str, TaskState] = {}
        """Of the task and of each of its tickets."""
        self._events = 0
        self._asked: dict[str, InteractionRecord] = {}
        self._messages: dict[str, int] = {}
        """By task: the number of the last message that is read."""
        self._audited = 0
        self._inputs: dict[tuple[str, str], Mapping[str, object]] = {}
        """By member and tool call: its input, until it ends."""
        self._turns = 0
        """How many attempts are read and closed: these never change."""
        self._closed: set[tuple[str, int]] = set()
        """Attempts after those that are closed too."""
        self._costs: dict[tuple[str, str], deque[Turn]] = {}
        """By task and member: attempts that gave messages which are not read yet.  A member takes
        one turn at a time, so they are in one order."""
        self._tickets: dict[str, int] = {}
        """By ticket: how many lines of its history are read."""
        self._envelopes = 0
        self._owners: dict[tuple[str, str], str | None] = {}
        """By ticket and when something happened to it: who worked on it then."""

    @property
    def is_over(self) -> bool:
        """Whether the task had ended when its events were last read."""
        state = self._states.get(self._task_id)
        return state is not None and state.status in ENDED

    async def new_entries(self) -> list[Entry]:
        """What was added, in order."""
        storage, task_id = self._storage, self._task_id
        # Events first, for nothing is written after a task's end; turns last, for the turn of
        # every message that is read here is closed by then.
        events = await storage.events.with_tickets(task_id, self._events)
        self._events += len(events)
        messages = await self._new_messages()
        calls = await storage.audit.with_tickets(task_id, self._audited)
        self._audited += len(calls)
        session = run_with(task_id)
        tickets = await storage.tickets.tickets(session, self._tickets)
        if tickets:  # after them, so that what was said about each line is there
            self._read_owners(await storage.tickets.envelopes(session, self._envelopes))
        turns = self._of_turns(await storage.journal.turns(task_id, self._turns))
        said = [self._of_message(message) for message in messages]
        return _merged(
            [
                [entry for entry in map(self._of_event, events) if entry is not None],
                [entry for entry in said if entry is not None],
                [self._of_call(call) for call in calls],
                turns,
                self._of_tickets(tickets),
            ]
        )

    async def _new_messages(self) -> list[Message]:
        conversation, found = self._storage.conversation, list[Message]()
        for task_id, last in (await conversation.last(self._task_id)).items():
            known = self._messages.get(task_id, 0)
            if last > known:
                found += await conversation.messages(task_id, known)
                self._messages[task_id] = found[-1].seq
        return sorted(found, key=lambda message: message.at)

    def _of_event(self, event: Event) -> Entry | None:
        """None for how a ticket of a session stands: its own lines tell that."""
        state = after(self._states.get(event.task_id), event)
        self._states[event.task_id] = state
        if state.id != self._task_id and not event.type.startswith("UserInteraction"):
            return None
        record: Record = TaskRecord(state.id, state.created.workflow, state.status)
        if event.type == "UserInteractionRequested":
            record = InteractionRecord(event.interaction, event.interaction.author_actor_id)
            self._asked[event.interaction.interaction_id] = record
        elif event.type == "UserInteractionResponded":
            given = event.response
            asked = self._asked.pop(given.interaction_id)
            record = InteractionRecord(
                asked.interaction,
                asked.member,
                "closed" if given.author_actor_id == NOBODY else "answered",
                given.choice,
                given.author_actor_id,
                given.words,
            )
        return Entry(event.at, record)

    def _of_message(self, message: Message) -> Entry | None:
        """None for one that says nothing."""
        turns = self._costs.get((message.task_id, message.member)) if message.turn else None
        turn = turns.popleft() if turns else None
        if not message.text:
            return None
        if turn is None:
            return Entry(message.at, MessageRecord.of(message))
        took = instant.seconds_between(turn.opened_at, turn.closed_at or turn.opened_at)
        duration = round(max(took, 0.0) * 1000)
        record = MessageRecord.of(message, duration_ms=duration, usage=turn.used)
        return Entry(message.at, record)

    def _of_call(self, entry: AuditEntry) -> Entry:
        key = entry.author_actor_id, entry.tool_call_id
        if entry.kind == "ToolCallRequested":
            given = self._inputs[key] = entry.input or {}
        else:
            given = self._inputs.pop(key, {})
        return Entry(entry.timestamp, ToolCallRecord.of(entry, given))

    def _of_turns(self, turns: Sequence[Turn]) -> list[Entry]:
        """Attempts that failed; what the others cost is shown with their messages."""
        new = [turn for turn in turns if turn.closed_at and _key(turn) not in self._closed]
        self._closed |= {_key(turn) for turn in new}
        for turn in turns:  # the longest beginning of the list that cannot change any more
            if turn.closed_at is None:
                break
            self._turns += 1
            self._closed.discard(_key(turn))
        for turn in new:
            if turn.outcome in ("completed", "interrupted"):
                self._costs.setdefault((turn.task_id, turn.member), deque()).append(turn)
        failed = [turn for turn in new if turn.outcome == "failed"]
        entries = [Entry(turn.closed_at or turn.opened_at, _failure(turn)) for turn in failed]
        return sorted(entries, key=lambda entry: entry.at)

    def _of_tickets(self, tickets: Sequence[Ticket]) -> list[Entry]:
        """What happened to a session's tickets."""
        entries: list[Entry] = []
        only = ticket_in(self._task_id)
        for ticket in tickets:
            if only not in ("", ticket.id):
                continue
            shown = self._tickets.get(ticket.id, 0)
            self._tickets[ticket.id] = len(ticket.history)
            entries += _of_history(run_with(self._task_id), ticket, self._owners)[shown:]
        return sorted(entries, key=lambda entry: entry.at)

    def _read_owners(self, envelopes: Sequence[tuple[int, Envelope]]) -> None:
        for number, envelope in envelopes:
            self._envelopes: int = number
            ticket = envelope.payload
            if isinstance(ticket, TicketPayload) and ticket.history:
                self._owners[ticket.ticket_id, ticket.history[-1].timestamp] = ticket.owner


def _key(turn: Turn) -> tuple[str, int]:
    return turn.step, turn.attempt


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


def _of_history(
    task_id: str, ticket: Ticket, owners: Mapping[tuple[str, str], str | None]
) -> list[Entry]:
    """All that happened to a ticket, and who worked on it at the time."""
    entries: list[Entry] = []
    owner: str | None = ticket.owner
    state: TicketState = "pending"
    for moment in ticket.history:
        state = _STATES.get(moment.event, state)
        owner = owners.get((ticket.id, moment.at), owner)
        begun, closed = moment.event == "created", moment.event == "closed"
        message = moment.message if moment.event in (state, "closed") else moment.event
        if moment.message and message == moment.event:
            message = f"{moment.event}: {moment.message}"
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
        entries.append(Entry(moment.at, record))
    return entries


def _failure(turn: Turn) -> ErrorRecord:
    return ErrorRecord(
        code="turn_failed",
        message=f"{turn.member} failed (try {turn.attempt}): {turn.detail}",
        member=turn.member,
        task=turn.task_id,
    )
