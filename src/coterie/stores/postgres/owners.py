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
from coterie.stores.postgres.failures import explained, from_server
from coterie.stores.postgres.known_head import HEAD, KnownHead
from coterie.stores.postgres.link import Link, ServerReply
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
class _Call:
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


class _Line:
    """A connection, used for one call at a time."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.call = _Call()
        self.link: Link | None = Link(connection, lambda _: None, self._lost)

    def _lost(self) -> None:
        self.link = None
        self.call.lost()

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None


@dataclass
class PostgresOwnerRows:
    """The owners in the store at a URL."""

    store: StoreUrl
    known: KnownHead | None = None
    _idle: list[_Line] = field(default_factory=list[_Line])

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
        line = await self._line()
        try:
            assert line.link is not None
            line.link.send(encoded(filled(text.split("?"), values)), line.call.take)
            await line.call.answered.wait()
        except BaseException:
            line.close()
            raise
        reply = line.call.reply
        if reply is None:
            raise from_server(self.store, "08006", "the connection was lost")
        self._idle.append(line)
        if reply.refusal is not None:
            raise from_server(self.store, reply.refusal.state, reply.refusal.problem)
        return reply.rows

    async def _line(self) -> _Line:
        while self._idle:
            line = self._idle.pop()
            if line.link is not None:
                line.call = _Call()
                return line
        opening = _Opening(self.store, self.known)
        try:
            await anyio.to_thread.run_sync(opening.run, abandon_on_cancel=True)
        except psycopg.Error as error:
            raise explained(self.store, error) from None
        except BaseException:
            opening.abandon()
            raise
        assert opening.connection is not None
        return _Line(opening.connection)


def _row(row: Row) -> OwnerRow:
    owner, machine, beat, dead, started_at, version = row
    texts = str(started_at), str(version)
    return OwnerRow(str(owner), str(machine), int(str(beat)), bool(dead), *texts)
