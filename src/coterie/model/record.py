"""What surfaces show: records of a running task, one per line of `--json`, and views at rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from coterie.model.conversation import Message
from coterie.model.interaction import Interaction
from coterie.model.task import Status, Stop, TaskRow, TaskState
from coterie.model.team import Member, Mode
from coterie.model.ticket import TicketState
from coterie.model.tool_call import DENIED, NOT_RUN, AuditEntry, Effect
from coterie.model.update import Usage, WaitsFor

MemberState = Literal["starting", "working", "waiting", "quiet", "stuck", "idle", "gone"]


@dataclass(frozen=True)
class TaskRecord:
    """A task came to a status."""

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
    """More about it, in the words of its agent; nothing is decided by it."""
    since: str = ""
    question: str | None = None
    """For one that waits for an answer: to which question."""
    waits_for: WaitsFor | None = None
    """For one that waits, or is quiet: for what."""
    until: str | None = None
    """For one that waits for a limit: when that ends."""


@dataclass(frozen=True)
class DeltaRecord:
    """A piece of a reply under way; for live screens only, never a line of `--json`."""

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
    """Whether the user broke it off."""

    @classmethod
    def of(
        cls, message: Message, *, duration_ms: int | None = None, usage: Usage | None = None
    ) -> MessageRecord:
        """A kept message, as surfaces are told of it."""
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
    """A member used a tool; once when it begins and once when it ends."""

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
    """Why it was not permitted; then it was not run."""
    not_run: str = ""
    """Why else it was never run."""
    effect: Effect | None = None
    """What its agent said that it would do; known while its task runs, not kept in the audit."""

    @classmethod
    def of(
        cls, entry: AuditEntry, given: Mapping[str, object], effect: Effect | None = None
    ) -> ToolCallRecord:
        """A row of the audit; `given` is the call's input, which its last row does not repeat."""
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
    """What was typed with the answer: a rule, a word to the agent; or why it was closed."""


@dataclass(frozen=True)
class TicketRecord:
    """A ticket came to a state."""

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
    """How many of its checks passed, as `2/3`; empty where none was run."""
    is_new: bool = False
    """Whether a plan has just made it."""


@dataclass(frozen=True)
class PhaseRecord:
    """A step of a pipeline began or ended, or a phase was entered."""

    type: ClassVar[str] = "phase"
    task: str
    phase: str
    step: str = ""
    """Empty: the phase was entered."""
    status: str = "in_progress"
    """How its actor stands, as in the state."""
    round: int = 1
    logs: tuple[str, ...] = ()
    gate: str = ""
    """The gate that it decided."""
    passed: bool | None = None
    """How."""
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErrorRecord:
    """Something went wrong; the task may well go on."""

    type: ClassVar[str] = "error"
    code: str
    message: str
    hint: str | None = None
    member: str | None = None
    where: str | None = None
    task: str | None = None


@dataclass(frozen=True)
class ResultRecord:
    """How a run of a task ended: always the last."""

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
    """Why a task that is not over does not run any more; `reason` is its word."""


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
"""How a task stands for a person: `waiting` for an answer, `parked` where nobody runs it."""


@dataclass(frozen=True)
class TaskView(TaskRow):
    """A task in a list, with whether somebody runs it now."""

    pid: int | None = None
    """The process that runs it here; None when none does."""
    questions: tuple[str, ...] = ()
    machine: str | None = None
    """The machine that runs it, where that is another one."""
    offered: bool = False
    """Whether nobody runs it, and any machine may that has what it needs."""

    @property
    def is_run(self) -> bool:
        """Whether somebody runs it now."""
        return self.pid is not None or self.machine is not None

    @property
    def standing(self) -> TaskStanding:
        """How it stands for a person."""
        if self.status in ("completed", "failed", "canceled"):
            return self.status
        if self.questions:
            return "waiting"
        return "running" if self.is_run else "parked"

    @property
    def resumable(self) -> bool:
        """Whether `coterie resume` would do something."""
        return not self.is_run and self.status in ("created", "running", "waiting")


@dataclass(frozen=True)
class RunningMember:
    """A member of a task that runs, and what it does now, as `ps` shows it."""

    task: str
    member: str
    agent: str
    pid: int | None
    state: MemberState
    reason: str
    since: str
    folder: Path
    mode: Mode = "ask"
    """What it may do unasked; `full` is shown wherever the member is."""
    home: Path | None = None
    thread: str | None = None
    """The agent's own id of the conversation."""
    memory: int | None = None
    """Bytes that its whole process tree holds."""
    waits_for: WaitsFor | None = None
    """For one that waits, or is quiet: for what."""
    until: str | None = None
    """For one that waits for a limit: when that ends."""
    question: str | None = None
    """For one that waits for an answer: to which question."""
    parked: bool = False
    """Whether nobody runs its task, which waits for a limit to end."""
    project: Path = Path()

    @property
    def label(self) -> str:
        """How the pair is shown; never parsed."""
        return f"{self.agent}-{self.member}"


@dataclass(frozen=True)
class QuestionView:
    """A question in the inbox, with enough around it to answer without looking elsewhere."""

    interaction: Interaction
    state: str
    project: Path
    member: Member | None
    """None when Coterie itself asks."""
    task_title: str
    asked_at: str
    answer: str = ""
    answered_at: str | None = None
    answered_by: str = ""
    said: str = ""
    """What was typed with the answer, or why it was closed."""


@dataclass(frozen=True)
class Entry:
    """One line of a task's timeline."""

    at: str
    record: Record
    seq: int = 0
    """Its number in the project: later lines of all its tasks have higher ones."""


@dataclass(frozen=True)
class TaskDetail:
    """Everything `show` tells of a task."""

    view: TaskView
    state: TaskState
    turns: int
    failures: tuple[tuple[str, str], ...]
    """(member, what happened) of turns that failed, oldest first."""
    questions: tuple[QuestionView, ...]
    folder: Path
    children: tuple[TaskView, ...] = ()
    """Its tickets and the subtasks that were handed out in it."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """By machine: why it did not take the task, which is on offer."""
