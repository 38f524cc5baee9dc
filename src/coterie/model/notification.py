"""Notifications sent when a question waits, a task ends or a rate limit parks it (`notify`)."""

from __future__ import annotations

import shlex
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from coterie.model import instant
from coterie.model.about import HumanTurn
from coterie.model.incident import PendingNotification
from coterie.model.instant import Instant
from coterie.model.interaction import Kind, Question, answer_command, answer_word, in_short
from coterie.model.task import Status, TaskCreated, TaskState, title_of
from coterie.model.visible import printable

MOST = 300
"""The maximum number of characters passed on of a text by agents or people."""


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, use_attribute_docstrings=True
    )


class NotifiedChoice(_Part):
    """One possible answer."""

    id: str
    """`approve`, `reject`, …"""
    label: str
    """The text shown to a person."""
    command: str
    """The command that gives this answer."""


class NotifiedQuestion(_Part):
    """A question waiting for an answer."""

    id: str
    """`q4`"""
    kind: Kind
    """A choice (`Select`, `Confirm`), text (`Input`), or a choice with text (`Composite`)."""
    author: str
    """The member who asks."""
    text: str
    """Who asks what, in one line; for a tool call, the command line."""
    choices: tuple[NotifiedChoice, ...]
    """Empty if the answer is text."""


class NotifiedEnd(_Part):
    """How a task ended."""

    status: Literal["completed", "failed", "canceled"]
    """The final status of the task."""
    reason: str
    """Why, in one word."""
    summary: str
    """A summary of the outcome; may be empty."""


class NotifiedLimit(_Part):
    """The rate limit that parked a task."""

    member: str
    """The member whose agent has reached it."""
    until: Instant
    """When it ends."""


class Notification(_Part):
    """Passed to the `notify` setting's command on stdin, or to its URL as the body of a POST."""

    version: Literal[1] = 1
    """The version of this format: fields may be added, but none are changed or removed."""
    id: str
    """The question, the task that ended, or `k3f9@` and the end of the limit it waits for; each is
    sent once per project."""
    kind: Literal["question", "task_ended", "task_limited"]
    """What happened."""
    at: Instant
    """When it was asked, ended or parked."""
    project: str
    """The project's folder."""
    task: str
    """`k3f9`; for a question asked by a ticket, `k3f9/T2`."""
    workflow: str
    """`chat`, `solo`, `tickets`, `pipeline`"""
    title: str
    """What the task is about: the first line of its goal."""
    text: str
    """The whole notification in one sentence, for a person."""
    command: str
    """The command that answers the question, shows the task, or resumes it once the limit is
    over."""
    question: NotifiedQuestion | None = None
    """Set if a question waits."""
    ended: NotifiedEnd | None = None
    """Set if a task ended."""
    limit: NotifiedLimit | None = None
    """Set if a rate limit parked a task."""


_ENDINGS: dict[Status, str] = {
    "completed": "is completed",
    "failed": "has failed",
    "canceled": "was canceled",
}


def of_question(question: Question, task: TaskCreated, project: str) -> Notification:
    """The notification that a question waits, in a task or in one of its tickets."""
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
    """The notification that a task has ended."""
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


def of_limit(
    pending: PendingNotification, task: TaskCreated, member: str, project: str
) -> Notification:
    """The notification that a task is parked until a rate limit is over."""
    name, until = task.task_id, pending.limited_until
    title = _line(title_of(task.goal))
    return Notification(
        id=pending.incident,
        kind="task_limited",
        at=pending.at,
        project=project,
        task=name,
        workflow=task.workflow,
        title=title,
        text=f"{name} waits for {member}'s rate limit until {instant.in_utc(until)}: {title}",
        command=f"coterie resume -C {shlex.quote(project)} {name} --at-reset",
        limit=NotifiedLimit(member=member, until=until),
    )


def _line(text: str) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= MOST else f"{line[: MOST - 1]}…"
