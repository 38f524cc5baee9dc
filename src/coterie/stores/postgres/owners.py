"""`ports.OwnerRows` in PostgreSQL, on connections of its own.

A renewal must not wait for anything: every call has a connection to itself, which is closed where
the call fails or is cancelled, and else kept for the next one.
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
from coterie.stores.postgres.place import Place
from coterie.stores.postgres.sql_text import encoded, filled

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
    """One question to the server, and its answer."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: ServerReply | None = None

    def take(self, reply: ServerReply) -> None:
        self.reply = reply
        self.answered.set()

    def lost(self) -> None:
        self.answered.set()


@dataclass
class _Opening:
    """A connection that is made on a thread, which nobody may be waiting for any more."""

    place: Place
    known: KnownHead | None = None
    connection: psycopg.Connection | None = None
    _is_wanted: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        connection = self.place.connect(autocommit=True)
        if self.known is not None:
            try:
                self.known.check(self.place, connection)
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

    place: Place
    known: KnownHead | None = None
    _idle: list[_Line] = field(default_factory=list[_Line])

    @classmethod
    def at(cls, url: str) -> PostgresOwnerRows:
        """Nothing is connected before the first call."""
        return cls(Place.of(url))

    async def add(self, row: OwnerRow) -> None:
        """A new owner, alive."""
        values = (row.id, row.machine, row.beat, row.started_at, row.version)
        await self._asked(_ADD, *values)

    async def renew(self, owner: str) -> int | None:
        """One beat more, unless it is dead; and how far the history goes by now."""
        found, head = await self._all(f"{_BEAT};{HEAD}", owner)
        if self.known is not None:
            self.known.note(Head(*head[0]))
        return int(str(found[0][0])) if found else None

    async def get(self, owner: str) -> OwnerRow | None:
        """What is known of an owner."""
        found = await self._asked(_GET, owner)
        return _row(found[0]) if found else None

    async def living(self) -> list[OwnerRow]:
        """Those that nobody has declared dead."""
        return [_row(row) for row in await self._asked(_LIVING)]

    async def declare_dead(self, owner: str, beat: int | None) -> bool:
        """By compare and set, where a beat is given."""
        return bool(await self._asked(_DECLARE_DEAD, owner, beat))

    def close(self) -> None:
        """Let go of all connections."""
        while self._idle:
            self._idle.pop().close()

    async def _asked(self, text: str, *values: Value) -> list[Row]:
        found = await self._all(text, *values)
        return found[0] if found else []

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
            raise from_server(self.place, "08006", "the connection was lost")
        self._idle.append(line)
        if reply.refusal is not None:
            raise from_server(self.place, reply.refusal.state, reply.refusal.problem)
        return reply.rows

    async def _line(self) -> _Line:
        while self._idle:
            line = self._idle.pop()
            if line.link is not None:
                line.call = _Call()
                return line
        opening = _Opening(self.place, self.known)
        try:
            await anyio.to_thread.run_sync(opening.run, abandon_on_cancel=True)
        except psycopg.Error as error:
            raise explained(self.place, error) from None
        except BaseException:
            opening.abandon()
            raise
        assert opening.connection is not None
        return _Line(opening.connection)


def _row(row: Row) -> OwnerRow:
    owner, machine, beat, dead, started_at, version = row
    texts = str(started_at), str(version)
    return OwnerRow(str(owner), str(machine), int(str(beat)), bool(dead), *texts)
