"""What surfaces show: records of a running task, one per line of `--json`, and static views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from coterie.model.conversation import Message
from coterie.model.interaction import COTERIE, Interaction
from coterie.model.task import (
    ENDED,
    RateLimited,
    Status,
    Stop,
    Stopped,
    TaskRow,
    TaskState,
)
from coterie.model.team import Member, Mode
from coterie.model.ticket import TicketState
from coterie.model.tool_call import DENIED, NOT_RUN, AuditEntry, Effect
from coterie.model.update import Usage, WaitsFor

MemberState = Literal["starting", "working", "waiting", "quiet", "stuck", "idle", "gone"]


@dataclass(frozen=True)
class TaskRecord:
    """A task changed its status."""

    type: ClassVar[str] = "task"
    id: str
    workflow: str
    status: Status


@dataclass(frozen=True)
class MemberRecord:
    """A member's state changed."""

    type: ClassVar[str] = "member"
    task: str
    member: str
    state: MemberState
    reason: str = ""
    """Details in the agent's own words; for display only."""
    since: str = ""
    question: str | None = None
    """The question whose answer it waits for, if any."""
    waits_for: WaitsFor | None = None
    """What it waits for, if it is waiting or quiet."""
    until: str | None = None
    """When the rate limit it waits for ends, if it waits for one."""


@dataclass(frozen=True)
class DeltaRecord:
    """A piece of a reply in progress; for live screens only, never a line of `--json`."""

    type: ClassVar[str] = "delta"
    task: str
    member: str
    text: str


@dataclass(frozen=True)
class MessageRecord:
    """A member said something."""

    type: ClassVar[str] = "message"
    task: str
    turn: int
    member: str
    text: str
    next: str | None = None
    at: str = ""
    duration_ms: int | None = None
    usage: Usage | None = None
    cut: bool = False
    """Whether the user interrupted it."""

    @classmethod
    def of(
        cls, message: Message, *, duration_ms: int | None = None, usage: Usage | None = None
    ) -> MessageRecord:
        """The record of a stored message."""
        return cls(
            task=message.task_id,
            turn=message.turn,
            member=message.member,
            text=message.text,
            next=message.next,
            at=message.at,
            duration_ms=duration_ms,
            usage=usage,
            cut=message.cut,
        )


@dataclass(frozen=True)
class ToolCallRecord:
    """A member used a tool; one record when the call begins and one when it ends."""

    type: ClassVar[str] = "tool_call"
    task: str
    member: str
    id: str
    name: str
    input: Mapping[str, object]
    status: Literal["started", "completed", "unknown"]
    is_error: bool | None = None
    duration_ms: int | None = None
    denied: str = ""
    """Why it was denied permission, and so not run."""
    not_run: str = ""
    """Why it was not run, for any other reason."""
    effect: Effect | None = None
    """What its agent said it would do; known only while the task runs, not kept in the audit."""

    @classmethod
    def of(
        cls, entry: AuditEntry, given: Mapping[str, object], effect: Effect | None = None
    ) -> ToolCallRecord:
        """The record of an audit row; `given` is the call's input, which the row of its end does
        not repeat."""
        output = entry.output or {}
        return cls(
            task=entry.task_id,
            member=entry.author_actor_id,
            id=entry.tool_call_id,
            name=entry.tool_name,
            input=given,
            status="started" if entry.kind == "ToolCallRequested" else "completed",
            is_error=entry.is_error,
            duration_ms=entry.duration_ms,
            denied=str(output.get(DENIED, "")),
            not_run=str(output.get("error", "")) if NOT_RUN in output else "",
            effect=effect,
        )


@dataclass(frozen=True)
class InteractionRecord:
    """A question was asked (`open`), answered, or closed."""

    type: ClassVar[str] = "interaction"
    interaction: Interaction
    member: str
    state: Literal["open", "answered", "closed"] = "open"
    answer: str = ""
    by: str = ""
    said: str = ""
    """The text typed with the answer, such as a rule or a message to the agent; or why the question
    was closed."""


@dataclass(frozen=True)
class TicketRecord:
    """A ticket changed its state."""

    type: ClassVar[str] = "ticket"
    task: str
    id: str
    state: TicketState
    owner: str | None = None
    title: str = ""
    message: str = ""
    dependencies: tuple[str, ...] = ()
    closed_by: str | None = None
    checks: str = ""
    """How many of its checks passed, as `2/3`; empty if none was run."""
    is_new: bool = False
    """Whether a plan has just created it."""


@dataclass(frozen=True)
class PhaseRecord:
    """A step of a pipeline began or ended, or a phase was entered."""

    type: ClassVar[str] = "phase"
    task: str
    phase: str
    step: str = ""
    """Empty if the phase was entered."""
    status: str = "in_progress"
    """The status of its actor, as in the state."""
    round: int = 1
    logs: tuple[str, ...] = ()
    gate: str = ""
    """The gate that it decided."""
    passed: bool | None = None
    """Whether that gate passed."""
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErrorRecord:
    """Something went wrong; the task may continue nevertheless."""

    type: ClassVar[str] = "error"
    code: str
    message: str
    hint: str | None = None
    member: str | None = None
    where: str | None = None
    task: str | None = None


BY_SIGNAL = Stopped("interrupted")
"""The process that ran the task was told to end, as by Ctrl-C."""
PARKED = Stopped("parked")
"""Nobody runs the task, and nothing that is stored says why."""


@dataclass(frozen=True)
class ResultRecord:
    """How a run of a task ended: always the last record."""

    type: ClassVar[str] = "result"
    task: str
    status: Status
    reason: str
    summary: str
    turns: int
    usage: Usage | None = None
    changed: tuple[str, ...] = ()
    checks: tuple[Mapping[str, object], ...] = ()
    next: tuple[str, ...] = field(default_factory=tuple[str, ...])
    stop: Stop | None = None
    """Why a task that has not ended no longer runs; the same as `reason`, with details.  None if an
    error ended the run: then `reason` is its code."""

    @classmethod
    def of(
        cls,
        state: TaskState,
        turns: int,
        stop: Stop | None = None,
        usage: Usage | None = None,
        *,
        asks: bool = False,
    ) -> ResultRecord:
        """The result of a task in this state; `asks`: its user is to answer a question."""
        ended, task = state.status in ENDED, state.id
        at_reset = " --at-reset" if isinstance(stop, RateLimited) else ""
        onward = ("coterie inbox", f"coterie resume {task}{at_reset}")
        return cls(
            task=task,
            status=state.status if ended else "waiting",
            reason=state.reason if ended else stop.reason if stop else "",
            summary=state.summary,
            turns=turns,
            usage=usage,
            next=(f"coterie log {task}",) if ended else onward[0 if asks else 1 :],
            stop=None if ended else stop,
        )


Record = (
    TaskRecord
    | MemberRecord
    | DeltaRecord
    | MessageRecord
    | ToolCallRecord
    | InteractionRecord
    | TicketRecord
    | PhaseRecord
    | ErrorRecord
    | ResultRecord
)


TaskStanding = Literal["running", "waiting", "parked", "completed", "failed", "canceled"]
"""The status of a task as shown to people: `waiting` for an answer, `parked` if nobody runs it."""


@dataclass(frozen=True)
class TaskView(TaskRow):
    """A task in a list, and who is running it, if anyone."""

    pid: int | None = None
    """The process on this machine that runs it, if any."""
    questions: tuple[str, ...] = ()
    machine: str | None = None
    """The other machine that runs it, if any."""
    offered: bool = False
    """Whether it is not running and on offer to any machine that has what it needs."""

    @property
    def is_run(self) -> bool:
        """Whether it is being run now."""
        return self.pid is not None or self.machine is not None

    @property
    def standing(self) -> TaskStanding:
        """Its status as shown to people."""
        if self.status in ("completed", "failed", "canceled"):
            return self.status
        if self.questions:
            return "waiting"
        return "running" if self.is_run else "parked"

    @property
    def resumable(self) -> bool:
        """Whether `coterie resume` would have any effect."""
        return not self.is_run and self.status in ("created", "running", "waiting")


@dataclass(frozen=True)
class RunningMember:
    """A member of a running task, and what it is doing, as shown by `ps`."""

    task: str
    member: str
    agent: str
    pid: int | None
    state: MemberState
    reason: str
    since: str
    folder: Path
    mode: Mode = "ask"
    """What it may do without asking; `full` is shown wherever the member is shown."""
    home: Path | None = None
    thread: str | None = None
    """The agent's own id of the conversation."""
    memory: int | None = None
    """The memory used by its whole process tree, in bytes."""
    waits_for: WaitsFor | None = None
    """What it waits for, if it is waiting or quiet."""
    until: str | None = None
    """When the rate limit it waits for ends, if it waits for one."""
    question: str | None = None
    """The question whose answer it waits for, if any."""
    parked: bool = False
    """Whether its task is parked until a rate limit ends."""
    project: Path = Path()

    @property
    def label(self) -> str:
        """The label shown for agent and member; never parsed."""
        return f"{self.agent}-{self.member}"


@dataclass(frozen=True)
class QuestionView:
    """A question in the inbox, with enough context to answer it without looking elsewhere."""

    interaction: Interaction
    state: str
    project: Path
    member: Member | None
    """None if Coterie itself asks."""
    task_title: str
    asked_at: str
    answer: str = ""
    answered_at: str | None = None
    answered_by: str = ""
    said: str = ""
    """The text typed with the answer, or why the question was closed."""

    @property
    def by_person(self) -> bool:
        """Whether a person answered it."""
        return self.state == "answered" and self.answered_by != COTERIE


@dataclass(frozen=True)
class Entry:
    """One line of a task's timeline."""

    at: str
    record: Record
    seq: int = 0
    """Its number in the project: later entries of any task have higher numbers."""
    payload: str = ""
    """For a reply about tickets: the type of the payload that it was asked for."""


@dataclass(frozen=True)
class TaskDetail:
    """Everything that `show` prints about a task."""

    view: TaskView
    state: TaskState
    turns: int
    failures: tuple[tuple[str, str], ...]
    """(member, what happened) for each failed turn, oldest first."""
    questions: tuple[QuestionView, ...]
    folder: Path
    children: tuple[TaskView, ...] = ()
    """Its tickets, and the subtasks that were handed out in it."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """For a task on offer: why machines did not take it, by machine."""
