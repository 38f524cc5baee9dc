"""The interfaces between engine, workflows and surfaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

from coterie.model.check import CheckOutcome
from coterie.model.conversation import Brief, Limits, Message
from coterie.model.interaction import Answer, Ask
from coterie.model.journal import ChildLease, Write
from coterie.model.record import Record, ResultRecord
from coterie.model.task import Ended, Status, Stop, TaskCreated
from coterie.model.team import Member
from coterie.model.ticket import Ticket
from coterie.model.update import PendingCall, TurnFailed, Usage
from coterie.ports.agents import Channel, ChildLog
from coterie.ports.machines import Sharing

if TYPE_CHECKING:  # a separate format, which only sessions with tickets need
    from coterie.model.envelope import Envelope


class Parked(Exception):
    """A run cannot continue for now; the task can be resumed."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


class Observer(Protocol):
    """A surface that follows what happens.  Called after the commit; must not raise."""

    def saw(self, record: Record) -> None:
        """Handle a record of something that happened."""
        ...


@runtime_checkable
class AttendedObserver(Observer, Protocol):
    """A surface that a person may be watching."""

    def idle_seconds(self) -> float | None:
        """Return how long nothing has been typed there; None if nobody can type."""
        ...


class Channels(Protocol):
    """The open channels of one session, one per member, opened when first needed."""

    def limits(self, member: Member) -> Limits:
        """Return the limits of this member's turns."""
        ...

    def folder(self, member: Member) -> str:
        """Return the member's folder, for messages: every error names it."""
        ...

    def work_folder(self, member: Member) -> str:
        """Return the folder in which the member's process works."""
        ...

    async def channel(self, member: Member, thread: str | None) -> Channel:
        """Return the member's channel, replacing a dead one.  Raises AgentMissing."""
        ...

    @property
    def children(self) -> ChildLog:
        """Where processes of this session are recorded."""
        ...

    async def close(self, member: Member) -> None:
        """End one member's agent; returns when it is proven gone."""
        ...

    async def close_all(self) -> None:
        """End every agent of the session, concurrently."""
        ...


class Snapshots(Protocol):
    """Saves a folder's files before and after turns that may change them.  Blocks; called in a
    thread."""

    def before(self, task_id: str, folder: str) -> None:
        """Save the files: a turn of the task may change some from now on."""
        ...

    def after(self, task_id: str, folder: str) -> None:
        """Save the files: the turn changes no more of them."""
        ...


class Checks(Protocol):
    """Runs commands whose outcome decides something, instead of trusting an agent's claims."""

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        """Run a command to its end or time limit; its whole tree is gone when this returns."""
        ...

    async def unconfined_warning(self) -> str:
        """Return a warning for the person who allows a command; empty if a sandbox confines it."""
        ...


class SessionFiles(Protocol):
    """Also writes what is recorded to files; used only by the holder of the session's lease."""

    def wake(self) -> None:
        """Signal that something was recorded.  Called after the commit; must not block."""
        ...

    async def follow(self) -> None:
        """Write what is recorded, as it comes; runs alongside the workflow until cancelled."""
        ...

    async def flush(self) -> None:
        """Write everything recorded so far."""
        ...


class Reaper(Protocol):
    """Ends what a dead owner left running."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        """Kill every process that carries one of the marks; returns the pids not proven dead."""
        ...


@dataclass(frozen=True)
class HandedOut:
    """How a part of a task ended that was run as a task of its own."""

    status: Status
    reason: str
    summary: str = ""
    text: str = ""
    """The last message in it."""
    steps: Mapping[str, object] = field(default_factory=dict[str, object])
    """The results of its steps, by name."""


RunChild = Callable[[TaskCreated], Awaitable[ResultRecord]]
"""Runs a child task here, from where it stopped; creates it first if it is new."""
HandOut = Callable[[TaskCreated, RunChild, float | None], Awaitable[ResultRecord]]
"""Like `RunChild`, on whichever machine can, with `RunChild` for this one; the number is how many
seconds to wait for an answer to a question."""


class Context(Protocol):
    """Everything a workflow may do.  Names are stable across code changes and unique per run."""

    @property
    def opening(self) -> Message | None:
        """The message that the task was started with."""
        ...

    @property
    def root(self) -> Path:
        """The project's folder."""
        ...

    async def turn(
        self, name: str, member: Member, number: int, brief: Brief | None = None
    ) -> Message | TurnFailed:
        """Take one turn of a member, on the conversation so far or on a brief; recorded once.

        A failing agent is retried before TurnFailed is returned.  An interrupted turn is a
        message with `cut` set.  Turns of several members on briefs may run concurrently; a member
        takes one at a time.  On the conversation turns must not: each depends on the one before.
        """
        ...

    async def within_budget(self, member: Member, ticket_id: str) -> None:
        """Wait until a ticket's budget allows a turn of a member; asks the user at its limit.

        For members that other tickets need too: they stay free while the user is asked.
        """
        ...

    async def ask(self, name: str, question: Ask) -> Answer:
        """Put a question in the inbox and wait for its answer; parks if nobody will answer."""
        ...

    async def step(
        self, name: str, intent: object, work: Callable[[], Awaitable[object]]
    ) -> object:
        """Do something once and record its result (JSON data); if a crash cuts it off, it is done
        again."""
        ...

    async def record(
        self, name: str, intent: object, writes: Callable[[str], Sequence[Write]]
    ) -> str:
        """Write something once, in one transaction with its step; returns the instant of the write.

        `writes` is called with that instant; replaying the past returns the same one.
        """
        ...

    @property
    def sharing(self) -> Sharing | None:
        """What the task exchanges with other machines; None if nothing is shared."""
        ...

    async def last_turn_at(self) -> str | None:
        """Return the machine that took the task's last turn; None if there is only one machine."""
        ...

    async def hand_out(self, name: str, part: TaskCreated) -> HandedOut:
        """Have a part of the task done, once, as a child task on whichever machine can."""
        ...

    async def permits(self, name: str, member: Member, call: PendingCall) -> bool:
        """Whether something may be done on a member's behalf, by rule or by asking the user."""
        ...

    async def check(self, name: str, command: str, folder: Path) -> CheckOutcome:
        """Run a command without an agent, once, confined by a sandbox, and keep its output."""
        ...

    async def heard(self, name: str) -> Sequence[Message]:
        """Return what people have said since the last step, adding it to the conversation."""
        ...

    async def words(self) -> None:
        """Wait until people have said something that `heard` has not returned yet."""
        ...

    @property
    def conversation(self) -> Sequence[Message]:
        """Everything said so far in the task itself, the opening first; what was said in its
        tickets is not included."""
        ...

    @property
    def turns(self) -> int:
        """How many turns were taken so far, including those of its tickets."""
        ...

    async def tickets(self) -> tuple[list[Ticket], list[Envelope]]:
        """Return the session's tickets in their current state, and all envelopes about them."""
        ...

    async def spent(self) -> Mapping[str, Usage]:
        """Return what the task has used so far, by member, as far as their agents reported it."""
        ...

    def has_child(self, task_id: str) -> bool:
        """Whether the task has a ticket with this id as a child task."""
        ...

    def caught_up(self) -> None:
        """Stop replaying: from here on the workflow relies on stored state instead of repeating
        its steps.

        A step whose name is recorded still counts as done.
        """
        ...

    def tell(self, record: Record) -> None:
        """Show surfaces a record that is not stored; silent while the past is replayed."""
        ...

    def park(self, stop: Stop) -> NoReturn:
        """Stop here; the task can be resumed."""
        ...


class Workflow(Protocol):
    """How a task is carried out: a plain function of (task, context), found by name."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry out the task; runs again from the top after a crash."""
        ...
