"""Appending a domain event: numbered, chained, and folded into tasks and questions at once."""

from __future__ import annotations

import sqlite3

from pydantic_core import PydanticSerializationError

from coterie.model.task import (
    ENDED,
    Event,
    Status,
    TaskCreated,
    TaskState,
    UserInteractionRequested,
    UserInteractionResponded,
    after,
)
from coterie.stores.projection import chained, json_of, question_state, state_of, title_of
from coterie.stores.sqlite.head import Head
from coterie.stores.sqlite.queries import SQL, execute


def head_of(connection: sqlite3.Connection) -> Head:
    """The last event, and the last row of the audit, that the database holds."""
    ends = (connection.execute(SQL[name]).fetchall() for name in ("last_event", "last_audit"))
    event, audit = ((rows[0][0], rows[0][1].hex()) if rows else (0, "") for rows in ends)
    return Head(*event, *audit)


def task_exists(connection: sqlite3.Connection, task_id: str) -> bool:
    """Whether the id is taken."""
    return bool(connection.execute(SQL["task_status"], (task_id,)).fetchall())


def is_open(connection: sqlite3.Connection, event: UserInteractionResponded) -> bool:
    """Whether the question that the event answers is one of its task's open ones."""
    rows = connection.execute(SQL["open_questions"], (event.task_id,)).fetchall()
    return (event.response.interaction_id,) in rows


def append_event(connection: sqlite3.Connection, event: Event, step: str | None) -> None:
    """Append the event and keep the projections, or raise IllegalEvent where it cannot follow."""
    state = after(_state(connection, event.task_id), event)
    sequence = _append(connection, event)
    if isinstance(event, TaskCreated):
        _insert_task(connection, event, state, sequence)
        return
    if isinstance(event, UserInteractionRequested):
        asked = event.interaction.interaction_id
        connection.execute(SQL["insert_question"], (asked, event.task_id, step or "", sequence))
    elif isinstance(event, UserInteractionResponded):
        answer = event.response
        connection.execute(
            SQL["respond_question"], (question_state(answer), sequence, answer.interaction_id)
        )
    elif state.status in ENDED:
        connection.execute(SQL["close_questions"], (event.task_id,))
    connection.execute(
        SQL["update_task"], (state.status, state.reason, state.changed_at, event.task_id)
    )


def _state(connection: sqlite3.Connection, task_id: str) -> TaskState | None:
    rows: list[tuple[Status]] = connection.execute(SQL["task_status"], (task_id,)).fetchall()
    if not rows:
        return None
    questions = connection.execute(SQL["open_questions"], (task_id,)).fetchall()
    return state_of(task_id, rows[0][0], (row[0] for row in questions))


def _append(connection: sqlite3.Connection, event: Event) -> int:
    rows: list[tuple[int, bytes]] = connection.execute(SQL["last_event"]).fetchall()
    last, previous = rows[0] if rows else (0, b"")
    sequence, data = last + 1, _data(event)
    row = (sequence, event.task_id, event.type, event.at, data)
    connection.execute(SQL["insert_event"], (*row, chained(previous, row)))
    return sequence


def _data(event: Event) -> str:
    try:
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # Half a surrogate pair somewhere in what an agent wanted to be asked.
        return json_of(event.model_dump(by_alias=True))


def _insert_task(
    connection: sqlite3.Connection, event: TaskCreated, state: TaskState, sequence: int
) -> None:
    execute(
        connection,
        SQL["insert_task"],
        (
            event.task_id,
            sequence,
            event.session_id,
            event.parent_id,
            event.workflow,
            title_of(event.goal),
            state.status,
            state.reason,
            event.at,
            state.changed_at,
        ),
    )
