"""The interface to storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from coterie.model.conversation import Message
from coterie.model.incident import Outcome, PendingNotification
from coterie.model.interaction import Question
from coterie.model.journal import (
    ChildLease,
    Fence,
    Lease,
    Request,
    RequestKind,
    SetMemberState,
    Step,
    TaskHistory,
    Turn,
    Write,
)
from coterie.model.task import Event, TaskCreated, TaskRow
from coterie.model.team import Reservation
from coterie.model.ticket import Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.model.update import Usage

if TYPE_CHECKING:  # a separate format, which only sessions with tickets need
    from coterie.model.envelope import Envelope
    from coterie.model.timeline import TimelineRow, TimelineSource


class EventStore(Protocol):
    """Domain events: what was decided."""

    async def of_task(self, task_id: str, after: int = 0) -> list[Event]:
        """Return the events of a task in order, without the first `after` of them."""
        ...

    async def tasks(self) -> list[TaskRow]:
        """Return every task, oldest first."""
        ...

    async def below(self, task_id: str) -> list[TaskRow]:
        """Return every task below a task at any depth, each after its parent."""
        ...

    async def head(self) -> tuple[int, str]:
        """Return the sequence number and hash of the last event; (0, "") if there is none."""
        ...


class AuditLog(Protocol):
    """Tool calls: what was done to the world.  Append-only."""

    async def of_task(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        """Return the entries of a task in order, without the first `after` of them."""
        ...

    async def with_tickets(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        """Like `of_task`, including the tickets that are carried out as part of the task."""
        ...

    async def all(self) -> list[AuditEntry]:
        """Return the entries of every task, in order."""
        ...

    async def of_call(self, task_id: str, tool_call_id: str) -> list[ChainedEntry]:
        """Return the rows of a task's calls with this id, in order."""
        ...

    async def chain(self) -> list[ChainedEntry]:
        """Like `all`, each with its place in the hash chain, for checking it."""
        ...


class ConversationStore(Protocol):
    """What was said to and by models."""

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        """Return the messages with a higher sequence number, in order."""
        ...

    async def thread(self, thread: str) -> list[str]:
        """Return the entries of a thread that Coterie stores itself, as JSON, in order."""
        ...


class JournalStore(Protocol):
    """The record of steps and turns."""

    async def steps(self, task_id: str) -> list[Step]:
        """Return every recorded step, in the order in which they were opened."""
        ...

    async def turns(self, task_id: str, after: int = 0) -> list[Turn]:
        """Return the attempts at turns in the order in which they were opened, without the first
        `after` of them, including those of the tickets that are carried out as part of the task.

        An open attempt will still change; a closed one never does.
        """
        ...

    async def spending(self, since: str = "", task_id: str | None = None) -> list[Turn]:
        """Return every attempt opened at or after an instant, of all tasks or of one task and those
        below it."""
        ...

    async def used(self) -> dict[str, Usage]:
        """Return each session's usage so far, as far as agents reported it; rehearsals use none."""
        ...


class TicketStore(Protocol):
    """Tickets and the envelopes about them, by session."""

    async def tickets(self, session_id: str) -> list[Ticket]:
        """Return the tickets in the order of their creation."""
        ...

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        """Return every envelope with a higher number, in order; numbers have no gaps."""
        ...


class InboxStore(Protocol):
    """Questions and requests: the two things that other processes write to a task."""

    async def allocate(self) -> str:
        """Return a question id that was never given out before."""
        ...

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        """Return questions in the order in which they were asked."""
        ...

    async def budget_answers(
        self, since: str = "", session_id: str | None = None
    ) -> list[Question]:
        """Return the questions about budgets that were answered at or after an instant, of all
        tasks or of one session, in the order in which they were asked."""
        ...

    async def question(self, interaction_id: str) -> Question | None:
        """Return one question; None if it does not exist."""
        ...

    async def respond(self, event: Event, request: int | None = None) -> bool:
        """Record a UserInteractionResponded if its question is open; False if it is not.

        `request` is the request that carried the answer; it is consumed with it.
        """
        ...

    async def request(self, task_id: str, kind: RequestKind, author: str, text: str) -> int:
        """Leave a request for the task's owner; returns its id."""
        ...

    async def requests(self, task_id: str) -> list[Request]:
        """Return the requests that nobody has acted on, in order."""
        ...

    async def discard_requests(self, task_id: str, kinds: Sequence[RequestKind]) -> None:
        """Drop requests that no longer mean anything, such as an old `stop`."""
        ...


class LeaseStore(Protocol):
    """Who may run a task.  Each call is one transaction."""

    async def get(self, task_id: str) -> Lease | None:
        """Return the current lease of a task."""
        ...

    async def all(self) -> list[Lease]:
        """Return every lease."""
        ...

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        """Take the lease if its token is still `seen` (0: none yet); return the new token, or None.

        The lease is then `reclaiming`.
        """
        ...

    async def confirm(self, fence: Fence) -> bool:
        """Change the lease from `reclaiming` to `running`, if the token is still current."""
        ...

    async def park(self, fence: Fence) -> None:
        """Give up running but keep the token; does nothing if the token is no longer current."""
        ...

    async def record_child(self, fence: Fence, child: ChildLease) -> None:
        """Store a child's lease before the child is started; LeaseLost if the token is old."""
        ...

    def set_child_pid(self, mark: str, pid: int) -> None:
        """Store a child's pid.  Queued."""
        ...

    def drop_child(self, mark: str) -> None:
        """Remove a child's lease.  Queued."""
        ...

    async def children(self, task_id: str | None = None) -> list[ChildLease]:
        """Return the recorded children of a task, or of all tasks."""
        ...


class TimelineStore(Protocol):
    """A single order over everything reported of tasks, updated with every write.

    Its numbers grow from commit to commit, across all tasks of the project, so a reader who has
    reached one has missed nothing before it.  A task's rows include those of its tickets.
    """

    async def after(
        self, sequence: int, task_id: str | None = None, limit: int | None = None
    ) -> list[TimelineRow]:
        """Return the first `limit` rows with a higher number, in order, of a task or of all."""
        ...

    async def before(
        self,
        task_id: str,
        sequence: int | None = None,
        limit: int | None = None,
        source: TimelineSource | None = None,
    ) -> list[TimelineRow]:
        """Return the last `limit` rows of a task with a lower number, in order; of one source only
        if `source` is given."""
        ...

    async def head(self) -> int:
        """Return the number of the last row; 0 if there is none."""
        ...


class ReservationStore(Protocol):
    """What turns in progress, in any process, may still use of budgets."""

    async def all(self) -> tuple[int, list[Reservation]]:
        """Return how many reservations were ever made, and those not dropped, including those of
        dead runs."""
        ...

    async def add(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        """Reserve if no more than `seen` were ever made; replaces one of the same turn."""
        ...

    def drop(self, task_id: str, step: str) -> None:
        """Drop the reservation of a turn that is over or was never begun.  Queued."""
        ...


class NotificationStore(Protocol):
    """Notifications for the user.  Each is queued with its event (`AppendEvent.incident`), and sent
    by whichever process claims it."""

    async def add(self, incident: str, task_id: str, at: str) -> None:
        """Queue a notification that has no event; one that exists already is left as it is."""
        ...

    async def unsent(self) -> list[PendingNotification]:
        """Return the notifications that nobody has claimed, oldest first."""
        ...

    async def claim(self, incident: str) -> bool:
        """Claim a notification in order to send it; False if there is none, or another process has
        claimed it."""
        ...

    async def settle(self, incident: str, outcome: Outcome, problem: str = "") -> None:
        """Record the outcome; `seen`: there was no need to send it.  Settled ones never change."""
        ...

    async def failed(self) -> list[PendingNotification]:
        """Return the notifications that failed since one was last sent."""
        ...


class Storage(Protocol):
    """All stores of a project behind one writer.

    Writes are applied in the order in which they were given.  An awaited write that contradicts
    the record (IllegalWrite, IllegalEvent), or finds the database locked, raises and changes
    nothing.  Once a queued write has failed, or any write with LeaseLost or another StorageError,
    every later write of this process fails with that error: it may build on what was not stored.
    """

    @property
    def events(self) -> EventStore: ...
    @property
    def audit(self) -> AuditLog: ...
    @property
    def conversation(self) -> ConversationStore: ...
    @property
    def journal(self) -> JournalStore: ...
    @property
    def tickets(self) -> TicketStore: ...
    @property
    def inbox(self) -> InboxStore: ...
    @property
    def leases(self) -> LeaseStore: ...
    @property
    def reservations(self) -> ReservationStore: ...
    @property
    def timeline(self) -> TimelineStore: ...
    @property
    def notifications(self) -> NotificationStore: ...

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        """Create a task with its lease and first message, atomically; None if the id is taken."""
        ...

    async def history(self, task_id: str) -> TaskHistory:
        """Return everything a run needs to know of a task, read at once; empty if there is none."""
        ...

    async def commit(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Apply the writes in one transaction and wait until they are durable."""
        ...

    def post(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Queue the writes: they go into the next commit, or into one of their own soon after."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until others may have written since `seen` (0 at first), so that the caller looks
        again; returns the next `seen`.

        Answers and requests count, from this process (woken directly) or another (within 50 ms).
        """
        ...

    async def member_states(self, task_id: str | None = None) -> list[SetMemberState]:
        """Return the states of members that are in one of the rare ones, as they were set, of a
        task or of all."""
        ...

    async def problems(self) -> list[str]:
        """Describe what a thorough check finds wrong with the stored data; reads all of it."""
        ...

    async def close(self) -> None:
        """Write what is queued and close the database."""
        ...
