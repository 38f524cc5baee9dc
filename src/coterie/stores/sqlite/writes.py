"""What each `Write` does to the database.  The hot path: two submissions of these a turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendMessage,
    AppendThread,
    CloseStep,
    CloseTurn,
    Fence,
    IllegalWrite,
    OpenStep,
    OpenTurn,
    PutTicket,
    SetAside,
    SetMemberState,
    SpendTurn,
    TakeRequest,
    Write,
)
from coterie.model.message import Message
from coterie.stores.projection import KEPT_STATES, audit_row, chained
from coterie.stores.sqlite.events import append_event
from coterie.stores.sqlite.queries import SQL, execute
from coterie.stores.sqlite.tickets import append_envelope, put_ticket

_LAST_MESSAGE = SQL["last_message"]
_INSERT_MESSAGE = SQL["insert_message"]
_OPEN_STEP = SQL["open_step"]
_CLOSE_STEP = SQL["close_step"]
_OPEN_TURN = SQL["open_turn"]
_CLOSE_TURN = SQL["close_turn"]


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
            AppendEvent: self._append_event,
            AppendMessage: _append_message,
            AppendAudit: _append_audit,
            AppendThread: _append_thread,
            OpenStep: self._open_step,
            CloseStep: _close_step,
            OpenTurn: self._open_turn,
            SpendTurn: _spend_turn,
            CloseTurn: _close_turn,
            AppendEnvelope: append_envelope,
            PutTicket: put_ticket,
            TakeRequest: _take_request,
            SetAside: _set_aside,
            SetMemberState: _set_member_state,
        }

    def apply(
        self, fence: Fence | None, writes: tuple[Write, ...], connection: sqlite3.Connection
    ) -> None:
        """All of them in order; raises at the first that is refused."""
        self._token = 0 if fence is None else fence.token
        for write in writes:
            self._apply[type(write)](connection, write)

    def _append_event(self, connection: sqlite3.Connection, write: AppendEvent) -> None:
        self.events_appended: bool = True
        append_event(connection, write.event, write.step)

    def _open_step(self, connection: sqlite3.Connection, write: OpenStep) -> None:
        step = write.step
        opened = self._next_opened(connection, step.task_id)
        row = (step.task_id, step.name, step.kind, step.digest, step.input, step.result, opened)
        try:
            execute(connection, _OPEN_STEP, row)
        except sqlite3.IntegrityError:
            raise IllegalWrite(f"{step.task_id}: step {step.name!r} is recorded already") from None

    def _open_turn(self, connection: sqlite3.Connection, write: OpenTurn) -> None:
        turn = write.turn
        row = (
            turn.task_id,
            turn.step,
            turn.attempt,
            turn.member,
            turn.token,
            turn.opened_at,
            turn.thread,
            turn.closed_at,
            turn.outcome,
            turn.detail,
            self._next_opened(connection, turn.task_id),
        )
        try:
            execute(connection, _OPEN_TURN, row)
        except sqlite3.IntegrityError:
            raise IllegalWrite(
                f"{turn.task_id}: attempt {turn.attempt} of {turn.step!r} is recorded already"
            ) from None

    def _next_opened(self, connection: sqlite3.Connection, task_id: str) -> int:
        token, last = self._opened.get(task_id, (0, 0))
        if token == 0 or token != self._token:
            last = connection.execute(SQL["last_opened"], (task_id, task_id)).fetchall()[0][0]
        self._opened[task_id] = (self._token, last + 1)
        return last + 1


def append_message(connection: sqlite3.Connection, message: Message) -> None:
    """The next message of its task; any other number is refused."""
    last = connection.execute(_LAST_MESSAGE, (message.task_id,)).fetchall()[0][0]
    if message.seq != last + 1:
        raise IllegalWrite(f"{message.task_id}: message {message.seq} does not follow {last}")
    row = (
        message.task_id,
        message.seq,
        message.member,
        message.text,
        message.at,
        message.turn,
        message.next,
        message.done,
        message.cut,
    )
    execute(connection, _INSERT_MESSAGE, row)


def _append_message(connection: sqlite3.Connection, write: AppendMessage) -> None:
    append_message(connection, write.message)


def _append_audit(connection: sqlite3.Connection, write: AppendAudit) -> None:
    rows: list[tuple[int, bytes]] = connection.execute(SQL["last_audit"]).fetchall()
    last, previous = rows[0] if rows else (0, b"")
    row = audit_row(last + 1, write.entry)
    connection.execute(SQL["insert_audit"], (*row, chained(previous, row)))


def _append_thread(connection: sqlite3.Connection, write: AppendThread) -> None:
    row = (write.thread, write.place, write.task_id, write.entry)
    if execute(connection, SQL["insert_thread"], row).rowcount != 1:
        raise IllegalWrite(f"{write.task_id}: {write.thread} has no place {write.place} next")


def _close_step(connection: sqlite3.Connection, write: CloseStep) -> None:
    row = (write.result, write.task_id, write.name)
    if execute(connection, _CLOSE_STEP, row).rowcount != 1:
        raise IllegalWrite(f"{write.task_id}: step {write.name!r} is not open")


def _spend_turn(connection: sqlite3.Connection, write: SpendTurn) -> None:
    row = (write.usage, write.task_id, write.step, write.attempt)
    if execute(connection, SQL["spend_turn"], row).rowcount != 1:
        raise IllegalWrite(
            f"{write.task_id}: attempt {write.attempt} of {write.step!r} is not open"
        )


def _close_turn(connection: sqlite3.Connection, write: CloseTurn) -> None:
    row = (
        write.closed_at,
        write.outcome,
        write.detail,
        write.thread,
        write.usage,
        write.task_id,
        write.step,
        write.attempt,
    )
    if execute(connection, _CLOSE_TURN, row).rowcount != 1:
        raise IllegalWrite(
            f"{write.task_id}: attempt {write.attempt} of {write.step!r} is not open"
        )


def _take_request(connection: sqlite3.Connection, write: TakeRequest) -> None:
    connection.execute(SQL["delete_request"], (write.request_id,))


def _set_aside(connection: sqlite3.Connection, write: SetAside) -> None:
    for name in write.names:
        row = (write.prefix, write.task_id, name)
        execute(connection, SQL["set_step_aside"], row)
        execute(connection, SQL["set_turns_aside"], row)


def _set_member_state(connection: sqlite3.Connection, write: SetMemberState) -> None:
    if write.state in KEPT_STATES:
        row = (write.task_id, write.member, write.state, write.reason, write.since)
        execute(connection, SQL["set_member_state"], row)
    else:
        connection.execute(SQL["drop_member_state"], (write.task_id, write.member))
