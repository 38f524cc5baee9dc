"""One connection to PostgreSQL, read by the event loop: messages go out, results and notifications
come in.

It uses libpq itself, not psycopg's cursors: a message of several statements is one round trip, and
notifications arrive on the same connection, without a task that waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq import abc as pq

from coterie.stores.codec import Row
from coterie.stores.postgres.sql_text import rows_of, unescape_nul

_GONE = ("08", "57P")
"""Prefixes of the codes with which a server ends a connection."""


@dataclass(frozen=True)
class ServerError:
    """The server's error for a message that was rolled back."""

    state: str
    problem: str
    detail: str
    hint: str


@dataclass
class ServerReply:
    """The reply to a message: the rows of each statement that returns rows, or the error."""

    rows: list[list[Row]] = field(default_factory=list[list[Row]])
    error: ServerError | None = None


class PgConnection:
    """A connection in use; once `lost` has been called, it is unusable."""

    def __init__(
        self,
        connection: psycopg.Connection,
        on_notify: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._server = connection.pgconn
        self._server.nonblocking = 1
        self._loop = asyncio.get_running_loop()
        self._on_notify = on_notify
        self._lost = lost
        self._answered: Callable[[ServerReply], None] | None = None
        self._reply = ServerReply()
        self._is_open = True
        self._socket = self._server.socket
        self._loop.add_reader(self._socket, self._readable)

    def send(self, message: bytes, answered: Callable[[ServerReply], None]) -> None:
        """Send a message of several statements as one transaction; one message at a time."""
        self._answered, self._reply = answered, ServerReply()
        try:
            self._server.send_query(message)
        except psycopg.Error:
            self._break()
        else:
            self._flush()

    def close(self) -> None:
        """Close the connection."""
        self._is_open = False
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._connection.close()

    def _flush(self) -> None:
        try:
            rest = self._server.flush()
        except psycopg.Error:
            self._break()
            return
        if rest:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            self._server.consume_input()
            while self._answered is not None and not self._server.is_busy():
                self._take(self._server.get_result())
            # Last: a notification may arrive in the middle of results, and is read with them.
            while self._is_open and (note := self._server.notifies()) is not None:
                self._on_notify(note.extra.decode())
        except psycopg.Error:
            self._break()

    def _take(self, result: pq.PGresult | None) -> None:
        if result is None:
            answered, self._answered = self._answered, None
            if answered is not None:
                answered(self._reply)
        elif result.status == ExecStatus.TUPLES_OK:
            self._reply.rows.append(rows_of(result))
        elif result.status != ExecStatus.COMMAND_OK:
            error = _server_error(result)
            if error.state.startswith(_GONE) or not error.state:
                self._break()
            else:
                self._reply.error = error

    def _break(self) -> None:
        if self._is_open:
            self._answered = None
            self.close()
            self._lost()


def _server_error(result: pq.PGresult) -> ServerError:
    def field_text(name: DiagnosticField) -> str:
        return unescape_nul((result.error_field(name) or b"").decode(errors="replace"))

    return ServerError(
        field_text(DiagnosticField.SQLSTATE),
        field_text(DiagnosticField.MESSAGE_PRIMARY),
        field_text(DiagnosticField.MESSAGE_DETAIL),
        field_text(DiagnosticField.MESSAGE_HINT),
    )
