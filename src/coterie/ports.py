"""Every seam of Coterie, as a Protocol with its promise."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from coterie.model.interaction import Answer, Ask, Question, Response
from coterie.model.journal import (
    ChildLease,
    Fence,
    Lease,
    Request,
    RequestKind,
    Step,
    Turn,
    Write,
)
from coterie.model.message import Message
from coterie.model.prompt import Limits, Prompt
from coterie.model.record import Record
from coterie.model.task import Ended, Event, TaskCreated, TaskRow
from coterie.model.team import Member
from coterie.model.ticket import Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.model.update import TurnFailed, Update
from coterie.model.workspace import Workspace

if TYPE_CHECKING:  # a format of its own, which only a session with tickets needs
    from coterie.model.envelope import Envelope

# -- agents ------------------------------------------------------------------------------------


class Channel(Protocol):
    """A member's open line to its agent.  Used by one turn at a time."""

    @property
    def thread(self) -> str | None:
        """The agent's own id of the conversation, to resume from; None where it has none."""
        ...

    @property
    def holds_past(self) -> bool:
        """Whether the agent remembers earlier turns, so that only what is new need be sent."""
        ...

    @property
    def pid(self) -> int | None:
        """The process, for `ps`; None for an agent that has none at the moment."""
        ...

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here; if not, a new channel is opened."""
        ...

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Send the prompt and yield updates, the last of them an `End`.

        Never raises for what the agent does: that is TurnFailed.  When the iteration is
        cancelled, the agent may be left in the middle: the caller closes the channel.
        """
        ...

    async def answer(self, key: str, response: Response) -> None:
        """Give the agent the answer to what it `Asked`."""
        ...

    async def interrupt(self) -> None:
        """Ask the agent to break off the turn; the iteration then ends."""
        ...

    async def close(self) -> None:
        """End the agent and its whole process tree; returns when it is proven gone.

        Bounded in time, safe to call twice, not to be cancelled half-way.
        """
        ...


class Adapter(Protocol):
    """The code that speaks to one kind of agent."""

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns."""
        ...

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> Channel:
        """Open a channel, on an earlier thread where one is given and the agent can.

        Raises AgentMissing when the agent cannot be started.
        """
        ...


class ChildLog(Protocol):
    """Where the start and end of every agent process is recorded."""

    async def starting(self, member: str, agent: str) -> str:
        """Record, before it is started, that a process will be; returns its mark."""
        ...

    def started(self, mark: str, pid: int) -> None:
        """Record its pid; need not be durable at once."""
        ...

    def ended(self, mark: str) -> None:
        """Record that it is proven gone."""
        ...


# -- stores ------------------------------------------------------------------------------------


class EventStore(Protocol):
    """Domain events: what was decided."""

    async def of_task(self, task_id: str) -> list[Event]:
        """All events of a task, in their order."""
        ...

    async def tasks(self) -> list[TaskRow]:
        """Every task, oldest first."""
        ...

    async def head(self) -> tuple[int, str]:
        """The sequence number and hash of the last event; (0, "") when there is none."""
        ...


class AuditLog(Protocol):
    """Tool calls: what was done to the world.  Append-only."""

    async def of_task(self, task_id: str) -> list[AuditEntry]:
        """All entries of a task, in their order."""
        ...

    async def all(self) -> list[AuditEntry]:
        """The entries of every task, in their order."""
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

    async def turns(self, task_id: str) -> list[Turn]:
        """Every attempt, in the order in which they were opened."""
        ...

    async def spending(self, since: str = "") -> list[Turn]:
        """Every attempt of every task that cost something, opened at or after an instant."""
        ...


class TicketStore(Protocol):
    """Tickets and the envelopes about them, session by session."""

    async def tickets(self, session_id: str) -> list[Ticket]:
        """Every ticket, in the order in which they were made."""
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

    async def respond(self, event: Event) -> bool:
        """Record a UserInteractionResponded if its question is open; False when it is not."""
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

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        """A new task, its lease and its first message, at once; None if the id is taken."""
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

    async def member_states(self, task_id: str) -> list[tuple[str, str, str, str]]:
        """(member, state, reason, since) of members in one of the rare states."""
        ...

    async def close(self) -> None:
        """Write what is queued and let go of the file."""
        ...


# -- engine and surfaces -----------------------------------------------------------------------


class Observer(Protocol):
    """A surface that wants to know what happens.  Called after the commit; must not raise."""

    def saw(self, record: Record) -> None:
        """One thing happened."""
        ...


class Channels(Protocol):
    """The open channels of one session, one per member, opened when first needed."""

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns."""
        ...

    def folder(self, member: Member) -> str:
        """The member's folder, for messages: every error names it."""
        ...

    def work_folder(self, member: Member) -> str:
        """Where the member's process works."""
        ...

    async def channel(self, member: Member, thread: str | None) -> Channel:
        """The member's channel; a dead one is replaced.  Raises AgentMissing."""
        ...

    async def close(self, member: Member) -> None:
        """End one member's agent; returns when it is proven gone."""
        ...

    async def close_all(self) -> None:
        """End every agent of the session, side by side."""
        ...


class Snapshots(Protocol):
    """Keeps a folder's files around what may change them.  Blocks; called in a thread."""

    def before(self, task_id: str, folder: str) -> None:
        """A turn of the task may change files here from now on."""
        ...

    def after(self, task_id: str, folder: str) -> None:
        """It changes none any more."""
        ...


class Reaper(Protocol):
    """Ends what a dead owner left running."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        """Kill every process that carries one of the marks; the pids not proven dead."""
        ...


class Context(Protocol):
    """All that a workflow may do.  Names are stable across code changes and used once a run."""

    @property
    def opening(self) -> Message | None:
        """The message the task was started with."""
        ...

    async def turn(self, name: str, member: Member, number: int) -> Message | TurnFailed:
        """One turn of a member on the conversation so far, recorded once.

        A failing agent is tried again before TurnFailed comes back.  An interrupted turn is a
        message with `cut` set.
        """
        ...

    async def ask(self, name: str, question: Ask) -> Answer:
        """Put a question in the inbox and wait for its answer; parks where nobody will answer."""
        ...

    async def step(
        self, name: str, intent: object, work: Callable[[], Awaitable[object]]
    ) -> object:
        """Do something once; its result (JSON data) is recorded."""
        ...

    async def heard(self, name: str) -> Sequence[Message]:
        """What people said since the last step, added to the conversation."""
        ...

    def tell(self, record: Record) -> None:
        """Let surfaces know something that is not kept; silent while the past is replayed."""
        ...

    def park(self, reason: str) -> NoReturn:
        """Stop here, resumable."""
        ...


class Workflow(Protocol):
    """How a task is carried out: a plain function of (task, context), found by name."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the task out; runs again from the top after a crash."""
        ...
