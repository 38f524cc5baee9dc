"""The seam to what is kept."""

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

if TYPE_CHECKING:  # a format of its own, which only a session with tickets needs
    from coterie.model.envelope import Envelope
    from coterie.model.timeline import TimelineRow, TimelineSource


class EventStore(Protocol):
    """Domain events: what was decided."""

    async def of_task(self, task_id: str, after: int = 0) -> list[Event]:
        """The events of a task in their order, without the first `after` of them."""
        ...

    async def tasks(self) -> list[TaskRow]:
        """Every task, oldest first."""
        ...

    async def below(self, task_id: str) -> list[TaskRow]:
        """Every task below a task, be it a child of one of those; each after the one above it."""
        ...

    async def head(self) -> tuple[int, str]:
        """The sequence number and hash of the last event; (0, "") when there is none."""
        ...


class AuditLog(Protocol):
    """Tool calls: what was done to the world.  Append-only."""

    async def of_task(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        """The entries of a task in their order, without the first `after` of them."""
        ...

    async def with_tickets(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        """The same, with those of the tickets that are carried out as part of the task."""
        ...

    async def all(self) -> list[AuditEntry]:
        """The entries of every task, in their order."""
        ...

    async def of_call(self, task_id: str, tool_call_id: str) -> list[ChainedEntry]:
        """The rows of a task's calls with this id, in their order."""
        ...

    async def chain(self) -> list[ChainedEntry]:
        """The same, each with its place in the chain of hashes: for whoever checks it."""
        ...


class ConversationStore(Protocol):
    """What was said to and by models."""

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        """The messages with a higher sequence number, in order."""
        ...

    async def thread(self, thread: str) -> list[str]:
        """The entries of a thread that we keep ourselves, as JSON, in order."""
        ...


class JournalStore(Protocol):
    """The record of steps and turns."""

    async def steps(self, task_id: str) -> list[Step]:
        """Every recorded step, in the order in which they were opened."""
        ...

    async def turns(self, task_id: str, after: int = 0) -> list[Turn]:
        """The attempts in the order in which they were opened, without the first `after` of them;
        those of the tickets that are carried out as part of the task are among them.

        An attempt that is open will change; one that is closed never does.
        """
        ...

    async def spending(self, since: str = "", task_id: str | None = None) -> list[Turn]:
        """Every attempt opened at or after an instant: of one task with all below it, or of all."""
        ...

    async def used(self) -> dict[str, Usage]:
        """What each session used so far, as far as agents told; rehearsals use nothing."""
        ...


class TicketStore(Protocol):
    """Tickets and the envelopes about them, session by session."""

    async def tickets(self, session_id: str) -> list[Ticket]:
        """The tickets, in the order in which they were made."""
        ...

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        """Every envelope with a higher number, in order; numbers have no gaps."""
        ...


class InboxStore(Protocol):
    """Questions and requests: the two things that other processes write to a task."""

    async def allocate(self) -> str:
        """A question id that was never given out before."""
        ...

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        """Questions in the order they were asked."""
        ...

    async def question(self, interaction_id: str) -> Question | None:
        """One question."""
        ...

    async def respond(self, event: Event, request: int | None = None) -> bool:
        """Record a UserInteractionResponded if its question is open; False when it is not.

        `request` is the word that it was said by, which is acted on with that.
        """
        ...

    async def request(self, task_id: str, kind: RequestKind, author: str, text: str) -> int:
        """Leave a word for the task's owner; returns its id."""
        ...

    async def requests(self, task_id: str) -> list[Request]:
        """Words that nobody has acted on, in order."""
        ...

    async def discard_requests(self, task_id: str, kinds: Sequence[RequestKind]) -> None:
        """Drop words that mean nothing any more, such as an old `stop`."""
        ...


class LeaseStore(Protocol):
    """Who may run a task.  Each call is one transaction."""

    async def get(self, task_id: str) -> Lease | None:
        """The lease as it stands."""
        ...

    async def all(self) -> list[Lease]:
        """Every lease."""
        ...

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        """Take the lease if its token is still `seen` (0: none yet); the new token, or None.

        The lease is then `reclaiming`.
        """
        ...

    async def confirm(self, fence: Fence) -> bool:
        """From `reclaiming` to `running`, if the token is still ours."""
        ...

    async def park(self, fence: Fence) -> None:
        """Give up running, keep the token; nothing happens where it is no longer ours."""
        ...

    async def record_child(self, fence: Fence, child: ChildLease) -> None:
        """Keep a child's lease before the child is started; LeaseLost where the token is old."""
        ...

    def set_child_pid(self, mark: str, pid: int) -> None:
        """Queued."""
        ...

    def drop_child(self, mark: str) -> None:
        """Queued."""
        ...

    async def children(self, task_id: str | None = None) -> list[ChildLease]:
        """Recorded children of a task, or of all."""
        ...


class TimelineStore(Protocol):
    """One order over all that is told of tasks, kept with every write.

    Its numbers grow from commit to commit, over all tasks of the project, so whoever has read up
    to one has missed nothing before it.  A task's rows are told with those of its tickets.
    """

    async def after(
        self, sequence: int, task_id: str | None = None, limit: int | None = None
    ) -> list[TimelineRow]:
        """The rows with a higher number in their order, the first `limit` of them: of a task, or
        of all."""
        ...

    async def before(
        self,
        task_id: str,
        sequence: int | None = None,
        limit: int | None = None,
        source: TimelineSource | None = None,
    ) -> list[TimelineRow]:
        """The rows of a task, or those of one source, with a lower number in their order, the last
        `limit` of them."""
        ...

    async def head(self) -> int:
        """The number of the last row; 0 when there is none."""
        ...


class ReservationStore(Protocol):
    """What turns under way, in every process, may still use of budgets."""

    async def all(self) -> tuple[int, list[Reservation]]:
        """Every reservation that was not dropped, and how many were ever made; that of a run that
        is dead is among them."""
        ...

    async def add(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        """Reserve, if no more than `seen` were ever made; one of the same turn is replaced."""
        ...

    def drop(self, task_id: str, step: str) -> None:
        """The turn is over, or was never begun.  Queued."""
        ...


class NotificationStore(Protocol):
    """What the user is to be told of elsewhere.  It is queued with its event
    (`AppendEvent.incident`), and sent by whoever claims it."""

    async def add(self, incident: str, task_id: str, at: str) -> None:
        """Queue what has no event; what was queued before stays as it is."""
        ...

    async def unsent(self) -> list[PendingNotification]:
        """What nobody has claimed, oldest first."""
        ...

    async def claim(self, incident: str) -> bool:
        """Take it upon us to send it; False where there is nothing to send, or another did."""
        ...

    async def settle(self, incident: str, outcome: Outcome, problem: str = "") -> None:
        """How that went; `seen`: there was no need.  What is settled stays as it is."""
        ...

    async def failed(self) -> list[PendingNotification]:
        """What could not be sent, since something last could."""
        ...


class Storage(Protocol):
    """All stores of a project behind one writer.

    Writes are applied in the order they were given.  An awaited write that cannot follow what is
    recorded (IllegalWrite, IllegalEvent), or finds the database locked, raises and changes
    nothing.  Once a queued write has failed, or any write with LeaseLost or another StorageError,
    every later write of this process fails with that error: it may build on what was not kept.
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
        """A new task, its lease and its first message, at once; None if the id is taken."""
        ...

    async def history(self, task_id: str) -> TaskHistory:
        """All that a run needs to know of a task, read at once; empty where there is none."""
        ...

    async def commit(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Apply the writes in one transaction and wait until they are durable."""
        ...

    def post(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        """Queue the writes: they ride in the next commit, or in one of their own soon after."""
        ...

    async def changed(self, seen: int) -> int:
        """Wait until others may have written since `seen` (0 at first): look again.

        Answers and requests count, from this process (woken directly) or another (within 50 ms).
        """
        ...

    async def member_states(self, task_id: str | None = None) -> list[SetMemberState]:
        """The states of members that are in one of the rare ones, as they were set; of a task, or
        of all."""
        ...

    async def problems(self) -> list[str]:
        """What a thorough look finds wrong with what is kept, in words; reads all of it."""
        ...

    async def close(self) -> None:
        """Write what is queued and let go of the file."""
        ...
