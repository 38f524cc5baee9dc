"""`ports.OwnerRows` in PostgreSQL, on connections of its own.

A renewal must not wait for anything: every call has a connection to itself, which is closed if the
call fails or is cancelled, and otherwise kept for the next one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
import psycopg

from coterie.model.machine import OwnerRow
from coterie.stores.codec import Head, Row, Value
from coterie.stores.postgres.connection import PgConnection, ServerReply
from coterie.stores.postgres.failures import explained, from_server
from coterie.stores.postgres.known_head import HEAD, KnownHead
from coterie.stores.postgres.sql_text import encoded, filled
from coterie.stores.postgres.store_url import StoreUrl

_ADD = (
    "INSERT INTO owners (id, machine, beat, started_at, version, dead) "
    "VALUES (?, ?, ?, ?, ?, false)"
)
_BEAT = "UPDATE owners SET beat = beat + 1 WHERE id = ? AND NOT dead RETURNING beat"
_GET = "SELECT id, machine, beat, dead, started_at, version FROM owners WHERE id = ?"
_LIVING = (
    "SELECT id, machine, beat, dead, started_at, version FROM owners WHERE NOT dead ORDER BY id"
)
_DECLARE_DEAD = (
    "UPDATE owners SET dead = true "
    "WHERE id = ? AND NOT dead AND beat = COALESCE(?::bigint, beat) RETURNING beat"
)


@dataclass
class _Query:
    """One query to the server, and its reply."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: ServerReply | None = None

    def take(self, reply: ServerReply) -> None:
        self.reply = reply
        self.answered.set()

    def lost(self) -> None:
        self.answered.set()


@dataclass
class _Opening:
    """A connection being opened on a thread, whose caller may have stopped waiting for it."""

    store: StoreUrl
    known: KnownHead | None = None
    connection: psycopg.Connection | None = None
    _is_wanted: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        connection = self.store.connect(autocommit=True)
        if self.known is not None:
            try:
                self.known.check(self.store, connection)
            except BaseException:
                connection.close()
                raise
        with self._lock:
            self.connection = connection
            if not self._is_wanted:
                connection.close()

    def abandon(self) -> None:
        with self._lock:
            self._is_wanted = False
            if self.connection is not None:
                self.connection.close()


class _OwnerConnection:
    """A connection, used for one query at a time."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.query = _Query()
        self.pg: PgConnection | None = PgConnection(connection, lambda _: None, self._lost)

    def _lost(self) -> None:
        self.pg = None
        self.query.lost()

    def close(self) -> None:
        if self.pg is not None:
            self.pg.close()
            self.pg = None


@dataclass
class PostgresOwnerRows:
    """The owners in the store at a URL."""

    store: StoreUrl
    known: KnownHead | None = None
    _idle: list[_OwnerConnection] = field(default_factory=list[_OwnerConnection])

    @classmethod
    def at(cls, url: str) -> PostgresOwnerRows:
        """Create it without connecting, which the first call does."""
        return cls(StoreUrl.of(url))

    async def add(self, row: OwnerRow) -> None:
        """Insert a new owner, alive."""
        values = (row.id, row.machine, row.beat, row.started_at, row.version)
        await self._query(_ADD, *values)

    async def renew(self, owner: str) -> int | None:
        """Increment the beat unless the owner is dead; also note how far the history goes now."""
        beats, head = await self._all(f"{_BEAT};{HEAD}", owner)
        if self.known is not None:
            self.known.note(Head(*head[0]))
        return int(str(beats[0][0])) if beats else None

    async def get(self, owner: str) -> OwnerRow | None:
        """Return an owner's row, if there is one."""
        rows = await self._query(_GET, owner)
        return _row(rows[0]) if rows else None

    async def living(self) -> list[OwnerRow]:
        """Return the owners that nobody has declared dead."""
        return [_row(row) for row in await self._query(_LIVING)]

    async def declare_dead(self, owner: str, beat: int | None) -> bool:
        """By compare-and-set, if a beat is given."""
        return bool(await self._query(_DECLARE_DEAD, owner, beat))

    def close(self) -> None:
        """Close all kept connections."""
        while self._idle:
            self._idle.pop().close()

    async def _query(self, text: str, *values: Value) -> list[Row]:
        results = await self._all(text, *values)
        return results[0] if results else []

    async def _all(self, text: str, *values: Value) -> list[list[Row]]:
        conn = await self._connected()
        try:
            assert conn.pg is not None
            conn.pg.send(encoded(filled(text.split("?"), values)), conn.query.take)
            await conn.query.answered.wait()
        except BaseException:
            conn.close()
            raise
        reply = conn.query.reply
        if reply is None:
            raise from_server(self.store, "08006", "the connection was lost")
        self._idle.append(conn)
        if reply.error is not None:
            raise from_server(self.store, reply.error.state, reply.error.problem)
        return reply.rows

    async def _connected(self) -> _OwnerConnection:
        while self._idle:
            conn = self._idle.pop()
            if conn.pg is not None:
                conn.query = _Query()
                return conn
        opening = _Opening(self.store, self.known)
        try:
            await anyio.to_thread.run_sync(opening.run, abandon_on_cancel=True)
        except psycopg.Error as error:
            raise explained(self.store, error) from None
        except BaseException:
            opening.abandon()
            raise
        assert opening.connection is not None
        return _OwnerConnection(opening.connection)


def _row(row: Row) -> OwnerRow:
    owner, machine, beat, dead, started_at, version = row
    texts = str(started_at), str(version)
    return OwnerRow(str(owner), str(machine), int(str(beat)), bool(dead), *texts)
