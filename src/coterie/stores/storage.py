"""All stores of a project on top of named statements, whichever database runs them.

The stores only read, except for inbox, leases, reservations and notifications, which other
processes write to as well: each of their calls is a transaction.  Everything else is written
through `Storage.commit` and `Storage.post`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coterie.model import instant, journal
from coterie.model.conversation import Message
from coterie.model.incident import Outcome, PendingNotification
from coterie.model.interaction import Question
from coterie.model.journal import Fence
from coterie.model.step_name import BUDGET_PATTERN
from coterie.model.task import (
    Event,
    IllegalEvent,
    TaskCreated,
    TaskRow,
    UserInteractionResponded,
)
from coterie.model.team import Reservation
from coterie.model.ticket import Moment, Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.model.update import Usage
from coterie.stores import codec
from coterie.stores.codec import Row
from coterie.stores.statements import After, Reading, Statements
from coterie.stores.timeline import TimelineRows

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope

T = TypeVar("T")


class SubmittedJob(Protocol):
    """What a writer has done; without a future its caller does not wait for it."""

    future: asyncio.Future[Any] | None
    after: After
    result: Any
    error: Exception | None


def settle(
    loop: asyncio.AbstractEventLoop, jobs: Iterable[SubmittedJob], failure: Exception | None
) -> bool:
    """Tell the callers of jobs how they ended; returns whether one of them learned of `failure`."""
    reported = False
    for job in jobs:
        if job.error is None and job.after is not None:
            try:
                job.after()
            except Exception as error:  # noqa: BLE001 - a surface that fails stops no task
                loop.call_exception_handler(
                    {"message": "A commit callback failed", "exception": error}
                )
        future = job.future
        if future is None or future.done():
            continue
        if job.error is None:
            future.set_result(job.result)
        else:
            reported = reported or job.error is failure
            future.set_exception(job.error)
    return reported


class RowStore:
    """Base class of the stores of a database."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    async def _all(self, decode: Callable[[Row], T], name: str, *values: object) -> list[T]:
        return await self._statements.read(_values(decode, name, *values))


def _values(decode: Callable[[Row], T], *query: object) -> Reading[list[T]]:
    (rows,) = yield [query]
    return [decode(row) for row in rows]


def history(task_id: str, seen: int) -> Reading[journal.TaskHistory]:
    """Read everything recorded about a task, from one snapshot."""
    events, leases, tickets, messages, below, steps, turns, requests = yield [
        ("events_of_task", task_id, 0),
        ("lease", task_id),
        ("tickets_below", task_id),
        ("messages", task_id, 0),
        ("messages_of_tickets", task_id),
        ("steps", task_id),
        ("turns", task_id, 0),
        ("requests", task_id),
    ]
    return journal.TaskHistory(
        events=[codec.event_of(row) for row in events],
        lease=codec.LEASE.value(leases[0]) if leases else None,
        messages=[codec.MESSAGE.value(row) for row in (*messages, *below)],
        steps=[codec.STEP.value(row) for row in steps],
        turns=[codec.turn_of(row) for row in turns],
        requests=[codec.REQUEST.value(row) for row in requests],
        children=dict(tickets),
        seen=seen,
    )


class EventRows(RowStore):
    """Domain events, and the list of tasks derived from them."""

    async def of_task(self, task_id: str, after: int = 0) -> list[Event]:
        return await self._all(codec.event_of, "events_of_task", task_id, after)

    async def tasks(self) -> list[TaskRow]:
        return await self._all(codec.TASK.value, "tasks")

    async def below(self, task_id: str) -> list[TaskRow]:
        return await self._all(codec.TASK.value, "tasks_below", task_id)

    async def head(self) -> tuple[int, str]:
        rows = await self._all(tuple, "last_event")
        return (rows[0][0], rows[0][1].hex()) if rows else (0, "")


class AuditRows(RowStore):
    """Tool calls."""

    async def of_task(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_of_task", task_id, after)

    async def with_tickets(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_with_tickets", task_id, after)

    async def all(self) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_entries")

    async def of_call(self, task_id: str, tool_call_id: str) -> list[ChainedEntry]:
        return await self._all(codec.chained_of, "audit_of_call", task_id, tool_call_id)

    async def chain(self) -> list[ChainedEntry]:
        return await self._all(codec.chained_of, "audit_chain")


class ConversationRows(RowStore):
    """Messages, and the threads that Coterie itself stores."""

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        return await self._all(codec.MESSAGE.value, "messages", task_id, after)

    async def thread(self, thread: str) -> list[str]:
        return [row[0] for row in await self._all(tuple, "thread", thread)]


class JournalRows(RowStore):
    """Steps and turns."""

    async def steps(self, task_id: str) -> list[journal.Step]:
        return await self._all(codec.STEP.value, "steps", task_id)

    async def turns(self, task_id: str, after: int = 0) -> list[journal.Turn]:
        return await self._all(codec.turn_of, "turns", task_id, after)

    async def spending(self, since: str = "", task_id: str | None = None) -> list[journal.Turn]:
        if task_id is None:
            return await self._all(codec.turn_of, "spending", since)
        return await self._all(codec.turn_of, "spending_of_task", task_id, since)

    async def used(self) -> dict[str, Usage]:
        rows = await self._all(tuple, "used")
        return {session: Usage(*figures) for session, *figures in rows}


def _tickets(session_id: str) -> Reading[list[Ticket]]:
    moments, tickets = yield [("ticket_history", session_id), ("tickets", session_id)]
    histories: dict[str, list[Moment]] = {}
    for ticket_id, *moment in moments:
        histories.setdefault(ticket_id, []).append(codec.MOMENT.value(tuple(moment)))
    return [codec.TICKET.value(row, history=tuple(histories.get(row[0], ()))) for row in tickets]


class TicketRows(RowStore):
    """Tickets and envelopes."""

    async def tickets(self, session_id: str) -> list[Ticket]:
        return await self._statements.read(_tickets(session_id))

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        return await self._all(codec.envelope_of, "envelopes", session_id, after)


class InboxRows(RowStore):
    """Questions and requests."""

    async def allocate(self) -> str:
        rows = await self._statements.submit(("next_question",))
        return f"q{rows[0][0]}"

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        return await self._all(codec.question_of, "questions_open" if only_open else "questions")

    async def budget_answers(
        self, since: str = "", session_id: str | None = None
    ) -> list[Question]:
        given = (BUDGET_PATTERN, since, session_id, session_id)
        return await self._all(codec.question_of, "budget_answers", *given)

    async def question(self, interaction_id: str) -> Question | None:
        questions = await self._all(codec.question_of, "question", interaction_id)
        return questions[0] if questions else None

    async def respond(self, event: Event, request: int | None = None) -> bool:
        if not isinstance(event, UserInteractionResponded):
            raise IllegalEvent(f"{event.type} is not an answer")
        return await self._statements.respond(event, request)

    async def request(self, task_id: str, kind: journal.RequestKind, author: str, text: str) -> int:
        row = ("insert_request", task_id, kind, author, text, instant.now())
        return (await self._statements.submit(row, after=self._statements.wake))[0][0]

    async def requests(self, task_id: str) -> list[journal.Request]:
        return await self._all(codec.REQUEST.value, "requests", task_id)

    async def discard_requests(self, task_id: str, kinds: Sequence[journal.RequestKind]) -> None:
        for kind in kinds:
            await self._statements.submit(("delete_requests_of_kind", task_id, kind))


class LeaseRows(RowStore):
    """Who may run a task, and which processes run for it."""

    async def get(self, task_id: str) -> journal.Lease | None:
        leases = await self._all(codec.LEASE.value, "lease", task_id)
        return leases[0] if leases else None

    async def all(self) -> list[journal.Lease]:
        return await self._all(codec.LEASE.value, "leases")

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        rows = await self._statements.submit(
            ("insert_lease", task_id, owner, "reclaiming")
            if seen == 0
            else ("claim_lease", owner, task_id, seen)
        )
        return rows[0][0] if rows else None

    async def confirm(self, fence: Fence) -> bool:
        return bool(await self._statements.submit(("confirm_lease", fence.task_id, fence.token)))

    async def park(self, fence: Fence) -> None:
        await self._statements.submit(("give_up_lease", fence.task_id, fence.token))

    async def record_child(self, fence: Fence, child: journal.ChildLease) -> None:
        await self._statements.submit(("insert_child", *codec.CHILD.row(child)), fence=fence)

    def set_child_pid(self, mark: str, pid: int) -> None:
        self._statements.post(("set_child_pid", pid, mark))

    def drop_child(self, mark: str) -> None:
        self._statements.post(("drop_child", mark))

    async def children(self, task_id: str | None = None) -> list[journal.ChildLease]:
        if task_id is None:
            return await self._all(codec.CHILD.value, "children")
        return await self._all(codec.CHILD.value, "children_of_task", task_id)


def _reservations() -> Reading[tuple[int, list[Reservation]]]:
    count, rows = yield [("reservations_made",), ("reservations",)]
    return count[0][0], [codec.RESERVATION.value(row) for row in rows]


class ReservationRows(RowStore):
    """How much of the budgets running turns may still use."""

    async def all(self) -> tuple[int, list[Reservation]]:
        return await self._statements.read(_reservations())

    async def add(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        return await self._statements.reserve(fence, reservation, seen)

    def drop(self, task_id: str, step: str) -> None:
        self._statements.post(("drop_reservation", task_id, step))


class NotificationRows(RowStore):
    """Queued by `AppendEvent.incident`; each is claimed once."""

    async def add(self, incident: str, task_id: str, at: str) -> None:
        await self._statements.submit(("queue_notification", incident, task_id, at))

    async def unsent(self) -> list[PendingNotification]:
        return await self._all(codec.PENDING_NOTIFICATION.value, "notifications_due")

    async def claim(self, incident: str) -> bool:
        return bool(await self._statements.submit(("claim_notification", incident)))

    async def settle(self, incident: str, outcome: Outcome, problem: str = "") -> None:
        await self._statements.submit(("settle_notification", outcome, problem, incident))

    async def failed(self) -> list[PendingNotification]:
        return await self._all(codec.PENDING_NOTIFICATION.value, "notifications_failed")


class DatabaseStorage:
    """All stores over one database; the back end supplies the `Statements`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self.events: EventRows = EventRows(statements)
        self.audit: AuditRows = AuditRows(statements)
        self.conversation: ConversationRows = ConversationRows(statements)
        self.journal: JournalRows = JournalRows(statements)
        self.tickets: TicketRows = TicketRows(statements)
        self.inbox: InboxRows = InboxRows(statements)
        self.leases: LeaseRows = LeaseRows(statements)
        self.reservations: ReservationRows = ReservationRows(statements)
        self.notifications: NotificationRows = NotificationRows(statements)

    @property
    def timeline(self) -> TimelineRows:
        """The timeline, made on demand as most commands never use it."""
        return TimelineRows(self._statements)

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        return await self._statements.create(event, owner, opening)

    async def commit(
        self, fence: Fence | None, *writes: journal.Write, after: Callable[[], None] | None = None
    ) -> None:
        await self._statements.commit(fence, writes, after)

    def post(
        self, fence: Fence | None, *writes: journal.Write, after: Callable[[], None] | None = None
    ) -> None:
        self._statements.queue(fence, writes, after)

    async def history(self, task_id: str) -> journal.TaskHistory:
        return await self._statements.read(history(task_id, self._statements.version))

    async def changed(self, seen: int) -> int:
        return await self._statements.changed(seen)

    async def member_states(self, task_id: str | None = None) -> list[journal.SetMemberState]:
        reading = _values(codec.MEMBER_STATE.value, "member_states", task_id)
        return await self._statements.read(reading)

    async def close(self) -> None:
        await self._statements.close()
