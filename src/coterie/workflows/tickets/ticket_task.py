"""A ticket as a task below its session: made with the plan, ended when it is done or closed."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.model.journal import AppendEvent
from coterie.model.task import (
    TICKET,
    TaskCanceled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
)
from coterie.model.task import ticket_task as task_name
from coterie.model.team import Team
from coterie.model.ticket import Ticket


def id_of(session: TaskCreated, ticket: Ticket) -> str:
    """The id of a ticket's task."""
    return task_name(session.task_id, ticket.id)


def made(session: TaskCreated, ticket: Ticket, goal: str, at: str) -> AppendEvent:
    """The task of a ticket; who works on it are the members of the session."""
    created = TaskCreated(
        task_id=id_of(session, ticket),
        at=at,
        session_id=session.session_id,
        parent_id=session.task_id,
        workflow=TICKET,
        workflow_version=1,
        goal=goal,
        author=session.author,
        team=Team(name=session.team.name, workflow=TICKET, members=()),
        rehearsal=session.rehearsal,
    )
    return AppendEvent(created)


def started(session: TaskCreated, ticket: Ticket, at: str) -> AppendEvent:
    """That something was done about it."""
    return AppendEvent(TaskStarted(task_id=id_of(session, ticket), at=at))


def ended(session: TaskCreated, before: Ticket, now: Ticket, at: str) -> Iterator[AppendEvent]:
    """The end of its task, where a change is one.

    A ticket that failed can be begun anew by hand, so its task fails only when it is closed.
    """
    if before.is_over or not now.is_over:
        return
    task_id = id_of(session, now)
    if now.closed_by is None:
        yield AppendEvent(TaskCompleted(task_id=task_id, at=at, reason="done", summary=now.reason))
    elif now.state == "error":
        failed = TaskFailed(task_id=task_id, at=at, reason="ticket_failed", message=now.reason)
        yield AppendEvent(failed)
    else:
        yield AppendEvent(TaskCanceled(task_id=task_id, at=at, reason=now.reason))
