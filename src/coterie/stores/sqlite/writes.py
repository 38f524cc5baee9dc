"""What each `Write` does to the database.  The hot path: two submissions of these a turn."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from coterie.model import journal
from coterie.model.journal import Fence, IllegalWrite, Write
from coterie.model.task import (
    ENDED,
    Event,
    Status,
    TaskCreated,
    TaskRow,
    TaskState,
    UserInteractionRequested,
    UserInteractionResponded,
    after,
)
from coterie.model.ticket import IllegalMove, check_move
from coterie.stores.codec import Value, envelope_text, event_text, mended_row
from coterie.stores.projection import KEPT_STATES, chained, question_state, state_of, title_of
from coterie.stores.sqlite.queries import (
    AUDIT,
    MEMBER_STATE,
    MESSAGE,
    MOMENT,
    SQL,
    STEP,
    TASK,
    TICKET,
    TURN,
    execute,
    select,
)

_OPEN_STEP = SQL["open_step"]
_OPEN_TURN = SQL["open_turn"]
_LAST_MESSAGE = SQL["last_message"]
_INSERT_MESSAGE = SQL["insert_message"]


def _by_field(name: str, problem: str) -> tuple[str, Callable[[object], tuple[Value, ...]], str]:
    """A statement on `:fields`, what takes these from a write, and what its failure means.

    Values in their order are bound in half the time that values by name take.
    """
    fields = re.findall(r":(\w+)", SQL[name])
    return re.sub(r":\w+", "?", SQL[name]), attrgetter(*fields), problem


_UPDATES: dict[type, tuple[str, Callable[[object], tuple[Value, ...]], str]] = {
    journal.AppendThread: _by_field("insert_thread", "{thread} has no place {place} next"),
    journal.CloseStep: _by_field("close_step", "step {name!r} is not open"),
    journal.SpendTurn: _by_field("spend_turn", "attempt {attempt} of {step!r} is not open"),
    journal.CloseTurn: _by_field("close_turn", "attempt {attempt} of {step!r} is not open"),
}
"""Writes that are one statement on their fields."""


class Writes:
    """Applies writes; knows how far the `opened` numbers of each task have come.

    That is asked of the database once for each fencing token: as long as the token holds,
    nobody else opens steps of the task.
    """

    def __init__(self) -> None:
        self.events_appended = False
        """Whether the head of the events may have moved; who reads it sets it back."""
        self._token = 0
        self._opened: dict[str, tuple[int, int]] = {}
        self._apply: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
            **dict.fromkeys(_UPDATES, _update),
            journal.AppendEvent: self._append_event,
            journal.AppendMessage: _append_message,
            journal.AppendAudit: _append_audit,
            journal.OpenStep: self._open_step,
            journal.OpenTurn: self._open_turn,
            journal.AppendEnvelope: _append_envelope,
            journal.PutTicket: _put_ticket,
            journal.TakeRequest: _take_request,
            journal.SupersedeSteps: _supersede_steps,
            journal.SetMemberState: _set_member_state,
        }

    def apply(
        self, fence: Fence | None, writes: tuple[Write, ...], connection: sqlite3.Connection
    ) -> None:
        """All of them in order; raises at the first that is refused."""
        self._token = 0 if fence is None else fence.token
        for write in writes:
            self._apply[type(write)](connection, write)

    def _append_event(self, connection: sqlite3.Connection, write: journal.AppendEvent) -> None:
        self.events_appended: bool = True
        _append_event(connection, write.event, write.step)

    def _open_step(self, connection: sqlite3.Connection, write: journal.OpenStep) -> None:
        row = (*STEP.row(write.step), self._next_opened(connection, write.step.task_id))
        try:
            execute(connection, _OPEN_STEP, row)
        except sqlite3.IntegrityError:
            raise _refusal(write.step, "step {name!r} is recorded already") from None

    def _open_turn(self, connection: sqlite3.Connection, write: journal.OpenTurn) -> None:
        row = (*TURN.row(write.turn), self._next_opened(connection, write.turn.task_id))
        try:
            execute(connection, _OPEN_TURN, row)
        except sqlite3.IntegrityError:
            raise _refusal(
                write.turn, "attempt {attempt} of {step!r} is recorded already"
            ) from None

    def _next_opened(self, connection: sqlite3.Connection, task_id: str) -> int:
        token, last = self._opened.get(task_id, (0, 0))
        if token == 0 or token != self._token:
            last = select(connection, "last_opened", task_id, task_id)[0][0]
        self._opened[task_id] = (self._token, last + 1)
        return last + 1


def _refusal(value: object, problem: str) -> IllegalWrite:
    return IllegalWrite(f"{{task_id}}: {problem}".format(**vars(value)))


def _update(connection: sqlite3.Connection, write: Write) -> None:
    statement, fields, problem = _UPDATES[type(write)]
    if execute(connection, statement, fields(write)).rowcount != 1:
        raise _refusal(write, problem)


def _append_message(connection: sqlite3.Connection, write: journal.AppendMessage) -> None:
    message = write.message
    last = connection.execute(_LAST_MESSAGE, (message.task_id,)).fetchall()[0][0]
    if message.seq != last + 1:
        raise IllegalWrite(f"{message.task_id}: message {message.seq} does not follow {last}")
    execute(connection, _INSERT_MESSAGE, MESSAGE.row(message))


def _append_audit(connection: sqlite3.Connection, write: journal.AppendAudit) -> None:
    rows = select(connection, "last_audit")
    last, previous = rows[0] if rows else (0, b"")
    # Mended before the hash, which must be over what is kept.
    row = mended_row((last + 1, *AUDIT.row(write.entry)))
    connection.execute(SQL["insert_audit"], (*row, chained(previous, row)))


def _take_request(connection: sqlite3.Connection, write: journal.TakeRequest) -> None:
    connection.execute(SQL["delete_request"], (write.request_id,))


def _supersede_steps(connection: sqlite3.Connection, write: journal.SupersedeSteps) -> None:
    for name in write.names:
        row = (write.prefix, write.task_id, name)
        execute(connection, SQL["supersede_step"], row)
        execute(connection, SQL["supersede_turns"], row)


def _set_member_state(connection: sqlite3.Connection, write: journal.SetMemberState) -> None:
    if write.state in KEPT_STATES:
        execute(connection, SQL["set_member_state"], MEMBER_STATE.row(write))
    else:
        connection.execute(SQL["drop_member_state"], (write.task_id, write.member))


# -- events: numbered, chained, and folded into tasks and questions at once ---------------------


def task_exists(connection: sqlite3.Connection, task_id: str) -> bool:
    """Whether the id is taken."""
    return bool(select(connection, "task_status", task_id))


def is_open(connection: sqlite3.Connection, event: UserInteractionResponded) -> bool:
    """Whether the question that the event answers is one of its task's open ones."""
    return (event.response.interaction_id,) in select(connection, "open_questions", event.task_id)


def _append_event(connection: sqlite3.Connection, event: Event, step: str | None) -> None:
    """Append the event and keep the projections, or raise IllegalEvent where it cannot follow."""
    state = after(_state(connection, event.task_id), event)
    rows = select(connection, "last_event")
    last, previous = rows[0] if rows else (0, b"")
    sequence: int = last + 1
    row = (sequence, event.task_id, event.type, event.at, event_text(event))
    connection.execute(SQL["insert_event"], (*row, chained(previous, row)))
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
    rows: list[tuple[Status]] = select(connection, "task_status", task_id)
    if not rows:
        return None
    questions = select(connection, "open_questions", task_id)
    return state_of(task_id, rows[0][0], (row[0] for row in questions))


def _insert_task(
    connection: sqlite3.Connection, event: TaskCreated, state: TaskState, sequence: int
) -> None:
    task = TaskRow(
        id=event.task_id,
        session_id=event.session_id,
        parent_id=event.parent_id,
        workflow=event.workflow,
        title=title_of(event.goal),
        status=state.status,
        reason=state.reason,
        created_at=event.at,
        changed_at=state.changed_at,
    )
    execute(connection, SQL["insert_task"], (*TASK.row(task), sequence))


# -- tickets: each change of state and what was said of it in one transaction -------------------


def _append_envelope(connection: sqlite3.Connection, write: journal.AppendEnvelope) -> None:
    row = (write.envelope.session_id, envelope_text(write.envelope))
    execute(connection, SQL["insert_envelope"], row)


def _put_ticket(connection: sqlite3.Connection, write: journal.PutTicket) -> None:
    """A ticket as it is now, and the lines that its history has more."""
    ticket, session = write.ticket, write.session_id
    row = (*TICKET.row(ticket), session)
    if write.before is None:
        done = execute(connection, SQL["insert_ticket"], row)
    else:
        _check_move(write)
        done = execute(connection, SQL["update_ticket"], (*row, write.before))
    if done.rowcount != 1:
        was = "there already" if write.before is None else f"not {write.before}"
        raise IllegalWrite(f"{session}: ticket {ticket.id} is {was}")
    last = select(connection, "last_moment", session, ticket.id)[0][0]
    for place, moment in enumerate(ticket.history[last:], last + 1):
        line = (session, ticket.id, place, *MOMENT.row(moment))
        execute(connection, SQL["insert_moment"], line)


def _check_move(write: journal.PutTicket) -> None:
    if write.before is None or write.before == write.ticket.state:
        return
    try:
        check_move(write.ticket.id, write.before, write.ticket.state)
    except IllegalMove as problem:
        raise IllegalWrite(f"{write.session_id}: {problem}") from None
