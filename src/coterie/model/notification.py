"""What a person is told elsewhere when a question waits or a task ends: the `notify` setting."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from coterie.model.about import HumanTurn
from coterie.model.instant import Instant
from coterie.model.interaction import Kind, Question, answer_command, answer_word, in_short
from coterie.model.task import Status, TaskCreated, TaskState, title_of
from coterie.model.visible import printable

Outcome = Literal["sent", "failed", "seen"]
"""`seen`: the person sat where it was shown."""
MOST = 300
"""So many characters of what agents and people wrote are passed on, at most."""


@dataclass(frozen=True)
class PendingNotification:
    """What is to be told, or could not be."""

    incident: str
    """The question, or the task that ended."""
    task_id: str
    at: str
    problem: str = ""

    @property
    def is_end(self) -> bool:
        """Whether it is the end of a task."""
        return self.incident == self.task_id


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, use_attribute_docstrings=True
    )


class NotifiedChoice(_Part):
    """One answer that may be given."""

    id: str
    """`approve`, `reject`, …"""
    label: str
    """What a person reads."""
    command: str
    """What gives this answer."""


class NotifiedQuestion(_Part):
    """A question that waits."""

    id: str
    """`q4`"""
    kind: Kind
    """A choice (`Select`, `Confirm`), text (`Input`), or a choice with words (`Composite`)."""
    author: str
    """The member who asks."""
    text: str
    """Who asks what, in one line; of a tool call, the command line."""
    choices: tuple[NotifiedChoice, ...]
    """Empty where the answer is text."""


class NotifiedEnd(_Part):
    """How a task ended."""

    status: Literal["completed", "failed", "canceled"]
    """What became of it."""
    reason: str
    """Why, in one word."""
    summary: str
    """What there is to say of it; may be empty."""


class Notification(_Part):
    """What the `notify` setting's command gets on stdin, and its address as the body of a POST."""

    version: Literal[1] = 1
    """Of this form: fields may be added to it, but none is changed or taken away."""
    id: str
    """The question, or the task that ended: each comes once in a project."""
    kind: Literal["question", "task_ended"]
    """What happened."""
    at: Instant
    """When it was asked, or ended."""
    project: str
    """The project's folder."""
    task: str
    """`k3f9`; of a question that a ticket asks, `k3f9/T2`."""
    workflow: str
    """`chat`, `solo`, `tickets`, `pipeline`"""
    title: str
    """What the task is about: the first line of its goal."""
    text: str
    """All of it in one sentence, for a person."""
    command: str
    """What answers the question, or shows the task."""
    question: NotifiedQuestion | None = None
    """Where it is one."""
    ended: NotifiedEnd | None = None
    """Where a task ended."""


_ENDINGS: dict[Status, str] = {
    "completed": "is completed",
    "failed": "has failed",
    "canceled": "was canceled",
}


def of_question(question: Question, task: TaskCreated, project: str) -> Notification:
    """That a question waits, in a task or in a ticket of it."""
    asked = question.interaction
    name, here = asked.interaction_id, f" -C {shlex.quote(project)}"
    say = ' --say "…"' if asked.kind == "Composite" and asked.validation.required else ""
    choices = tuple(
        NotifiedChoice(
            id=option.id,
            label=_line(option.label),
            command=f"coterie answer{here} {name} {answer_word(option)}{say}",
        )
        for option in asked.options
    )
    own = isinstance(asked.about, HumanTurn)
    text = _line(asked.display.title if own else f"{asked.author_actor_id} {in_short(asked)}")
    return Notification(
        id=name,
        kind="question",
        at=question.asked_at,
        project=project,
        task=asked.task_id,
        workflow=task.workflow,
        title=_line(title_of(task.goal)),
        text=f"{name}: {text}",
        command=answer_command(asked, here),
        question=NotifiedQuestion(
            id=name, kind=asked.kind, author=asked.author_actor_id, text=text, choices=choices
        ),
    )


def of_end(state: TaskState, project: str) -> Notification:
    """That a task has ended."""
    task, title = state.created, _line(title_of(state.created.goal))
    assert state.status in ("completed", "failed", "canceled"), "a task that has ended"
    return Notification(
        id=state.id,
        kind="task_ended",
        at=state.changed_at,
        project=project,
        task=state.id,
        workflow=task.workflow,
        title=title,
        text=f"{state.id} {_ENDINGS[state.status]}: {title}",
        command=f"coterie show -C {shlex.quote(project)} {state.id}",
        ended=NotifiedEnd(status=state.status, reason=state.reason, summary=_line(state.summary)),
    )


def _line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= MOST else f"{line[: MOST - 1]}…"
