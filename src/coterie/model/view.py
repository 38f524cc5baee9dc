"""What surfaces show of things at rest: rows of `tasks`, `ps`, `inbox` and `log`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coterie.model.interaction import Interaction
from coterie.model.record import MemberState, Record
from coterie.model.task import Status, TaskState
from coterie.model.team import Member, Mode


@dataclass(frozen=True)
class TaskView:
    """A task in a list, with whether somebody runs it now."""

    id: str
    session_id: str
    workflow: str
    title: str
    status: Status
    reason: str
    created_at: str
    changed_at: str
    pid: int | None
    """The process that runs it; None when nobody does."""
    questions: tuple[str, ...] = ()

    @property
    def resumable(self) -> bool:
        """Whether `coterie resume` would do something."""
        return self.pid is None and self.status in ("created", "running", "waiting")


@dataclass(frozen=True)
class RunningMember:
    """A member whose agent runs, as `ps` shows it."""

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
