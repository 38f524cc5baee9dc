"""A ticket as a task below its session: created with the plan, ended when done or closed."""

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
    """Return the id of a ticket's task."""
    return task_name(session.task_id, ticket.id)


def made(session: TaskCreated, ticket: Ticket, goal: str, at: str) -> AppendEvent:
    """Create the task of a ticket; the session's members work on it, so its own team is empty."""
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
    """Return the start of a ticket's task."""
    return AppendEvent(TaskStarted(task_id=id_of(session, ticket), at=at))


def ended(session: TaskCreated, before: Ticket, now: Ticket, at: str) -> Iterator[AppendEvent]:
    """Yield the end of a ticket's task if a change ends it.

    A failed ticket can be reset by hand, so its task fails only when the ticket is closed.
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
