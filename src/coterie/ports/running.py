"""The seams between engine, workflows and surfaces."""

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

if TYPE_CHECKING:  # a format of its own, which only a session with tickets needs
    from coterie.model.envelope import Envelope


class Parked(Exception):
    """A run can go no further for now; the task can be resumed."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


class Observer(Protocol):
    """A surface that wants to know what happens.  Called after the commit; must not raise."""

    def saw(self, record: Record) -> None:
        """One thing happened."""
        ...


@runtime_checkable
class AttendedObserver(Observer, Protocol):
    """A surface at which a person may sit."""

    def idle_seconds(self) -> float | None:
        """How long nothing was typed there; None where nobody can."""
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

    @property
    def children(self) -> ChildLog:
        """Where processes of this session are recorded."""
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


class Checks(Protocol):
    """Runs commands whose outcome decides something, so that no agent's word has to be taken."""

    async def run(self, command: str, folder: Path, children: ChildLog) -> CheckOutcome:
        """Run it to its end or its time limit; its whole tree is gone when this returns."""
        ...

    async def loose(self) -> str:
        """What a person must know before they allow a command; empty where a sandbox holds it."""
        ...


class SessionFiles(Protocol):
    """Writes what is recorded to files as well; used only by the holder of the session's lease."""

    def wake(self) -> None:
        """Something was recorded.  Called after the commit; must not block."""
        ...

    async def follow(self) -> None:
        """Write what is recorded, as it comes; runs beside the workflow until it is cancelled."""
        ...

    async def flush(self) -> None:
        """Write all that is recorded by now."""
        ...


class Reaper(Protocol):
    """Ends what a dead owner left running."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        """Kill every process that carries one of the marks; the pids not proven dead."""
        ...


@dataclass(frozen=True)
class HandedOut:
    """How a part of a task ended that was a task of its own."""

    status: Status
    reason: str
    summary: str = ""
    text: str = ""
    """What was last said in it."""
    steps: Mapping[str, object] = field(default_factory=dict[str, object])
    """By name: what its steps gave."""


RunChild = Callable[[TaskCreated], Awaitable[ResultRecord]]
"""Carries a child task out here, from where it is; made first where it is new."""
HandOut = Callable[[TaskCreated, RunChild, float | None], Awaitable[ResultRecord]]
"""The same by whichever machine can, `RunChild` on this one; the number is how many seconds an open
question is waited for."""


class Context(Protocol):
    """All that a workflow may do.  Names are stable across code changes and used once a run."""

    @property
    def opening(self) -> Message | None:
        """The message the task was started with."""
        ...

    @property
    def root(self) -> Path:
        """The project's folder."""
        ...

    async def turn(
        self, name: str, member: Member, number: int, brief: Brief | None = None
    ) -> Message | TurnFailed:
        """One turn of a member, on the conversation so far or on a brief, recorded once.

        A failing agent is tried again before TurnFailed comes back.  An interrupted turn is a
        message with `cut` set.  Turns of several members may run side by side; a member takes
        one at a time.
        """
        ...

    async def within_budget(self, member: Member, ticket_id: str) -> None:
        """Wait until the budget of a ticket allows a turn of a member: asks at its limit.

        For those whom other tickets need too: they are free while the user is asked.
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

    async def record(
        self, name: str, intent: object, writes: Callable[[str], Sequence[Write]]
    ) -> str:
        """Write something once, in one transaction with its step; returns when that was.

        `writes` gets the instant; the same one comes back whenever the past is replayed.
        """
        ...

    @property
    def sharing(self) -> Sharing | None:
        """What the task sends to other machines; None where nothing is shared with any."""
        ...

    async def last_turn_at(self) -> str | None:
        """The machine that took the task's last turn; None where there are not several."""
        ...

    async def hand_out(self, name: str, part: TaskCreated) -> HandedOut:
        """Have a part of the task done as a task of its own, once, by whichever machine can."""
        ...

    async def permits(self, name: str, member: Member, call: PendingCall) -> bool:
        """Whether something may be done on a member's behalf: by rule, else the user is asked."""
        ...

    async def check(self, name: str, command: str, folder: Path) -> CheckOutcome:
        """Run a command ourselves, once, held in by a sandbox, and keep what it printed."""
        ...

    async def heard(self, name: str) -> Sequence[Message]:
        """What people said since the last step, added to the conversation."""
        ...

    async def words(self) -> None:
        """Wait until somebody has said something that was not heard yet."""
        ...

    @property
    def conversation(self) -> Sequence[Message]:
        """All that was said so far in the task itself, the opening first; what was said in its
        tickets is not in there."""
        ...

    @property
    def turns(self) -> int:
        """How many turns were taken so far, those of its tickets included."""
        ...

    async def tickets(self) -> tuple[list[Ticket], list[Envelope]]:
        """The session's tickets as they stand, and all that was said about them."""
        ...

    async def spent(self) -> Mapping[str, Usage]:
        """What the task used so far, by member, as far as their agents told."""
        ...

    def has_child(self, task_id: str) -> bool:
        """Whether there is a ticket of that id below the task, as a task of its own."""
        ...

    def caught_up(self) -> None:
        """From here on the workflow goes by what it finds kept, and not by repeating its steps.

        A step of a name that is recorded still counts as done.
        """
        ...

    def tell(self, record: Record) -> None:
        """Let surfaces know something that is not kept; silent while the past is replayed."""
        ...

    def park(self, stop: Stop) -> NoReturn:
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
