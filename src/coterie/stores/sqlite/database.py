"""The database file: created completely or not at all, migrated, and refused if not intact.

Events and audit are two hash chains, whose heads are recorded outside the database as well, in
`logs/head.json`.  A database whose `-wal` file was lost is consistent and yet older.  Events are
numbered without gaps, so a head that is lower than the one on file, or differs from it, reveals
that.  The audit's head is recorded with every event, at the latest when a task ends, so that rows
cut off its end are noticed.

Blocking; runs on the writer's thread.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import quote

import anyio.to_thread

from coterie.errors import StorageError
from coterie.model import journal
from coterie.model.conversation import Message
from coterie.model.journal import Fence
from coterie.model.task import TaskCreated, UserInteractionResponded
from coterie.model.team import Reservation
from coterie.stores import codec
from coterie.stores.chain import broken_chains, cut_off
from coterie.stores.codec import Head, HeadFile
from coterie.stores.sqlite import failures
from coterie.stores.sqlite.schema import (
    BESIDE,
    LATEST,
    build,
    migrate,
    remove,
    sync,
)
from coterie.stores.sqlite.transactions import SQL, Writes, execute, select
from coterie.stores.sqlite.writer import SqliteStatements, Writer
from coterie.stores.storage import DatabaseStorage
from coterie.workspace.beneath import require_file

CHECKPOINT_PAGES = 64
"""A short log is soon overwritten in place, which costs less than a growing file."""

CHECKED_WHOLE = 32 * 1024 * 1024
"""Up to this size, every page is checked when the file is opened (0.75 ms per MiB)."""


def open_database(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a connection to the database at `path`, which is created if there is none.

    Raises StorageError or a subclass of it; nothing half-made is left behind.
    """
    try:
        return _opened(path, timeout)
    except (sqlite3.Error, OSError) as error:
        raise failures.explained(error, path) from error


def open_in_memory(name: str, timeout: float) -> sqlite3.Connection:
    """Connect to this process's database of that name, which ends with its last connection."""
    connection = _connection(f"file:/{quote(name, safe='')}?vfs=memdb", timeout)
    migrate(connection)
    return connection


def _opened(path: Path, timeout: float) -> sqlite3.Connection:
    if not path.parent.is_dir():
        raise StorageError(str(path), "The folder of the database does not exist", "coterie init")
    if not os.access(path.parent, os.W_OK):
        raise failures.read_only(path)
    for ending in ("", *BESIDE):
        require_file(path.parent, path.name + ending)
    if not path.exists():
        _create(path, timeout)
    if not os.access(path, os.W_OK):  # SQLite itself would report it only at the first write
        raise failures.read_only(path)
    if path.stat().st_size == 0:
        raise failures.damaged(path, "The database is empty: its history is lost")
    # Read before the database: another process may append in between, and updates the head file
    # only after its commit.
    known = _head_file(path).read()
    connection = _connected(path, timeout)
    try:
        _migrate(connection, path)
        _check(connection, path, known)
    except BaseException:
        connection.close()
        raise
    return connection


def _connection(at: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        at, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: a missing file is an error, never a fresh start.
    connection = _connection(f"file:{quote(os.fsencode(path))}?mode=rw", timeout)
    try:
        mode = _pragma(connection, "journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    if mode != "wal":
        connection.close()
        raise StorageError(
            str(path),
            "The file system does not support SQLite's write-ahead log",
            "Put the project on a local disk; network file systems do not work.",
        )
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchall()[0][0]


def _create(path: Path, timeout: float) -> None:
    head_file = _head_file(path)
    with closing(head_file), head_file.locked(timeout) as held:
        if path.exists():
            return  # another process was quicker
        if held is None:
            raise failures.locked(path)
        _refuse_second_start(path, head_file.read())
        fresh = path.with_name(path.name + ".new")
        try:
            build(fresh, timeout)
            # Under the lock nobody else creates one, so this never replaces a database.
            fresh.rename(path)
            sync(path.parent)
        finally:
            remove(fresh)


def _refuse_second_start(path: Path, known: Head | None) -> None:
    if known is not None and known.sequence > 0:
        raise failures.history_lost(
            path, f"the database is gone, and it held {known.sequence} events"
        )
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        # SQLite would replay another database's log into the new one.
        raise failures.damaged(path, "The database is gone, but its -wal file is still there")


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = _pragma(connection, "user_version")
    if version == LATEST:
        return
    if not isinstance(version, int) or version > LATEST:
        raise StorageError(
            str(path),
            f"The database was made by a newer Coterie ({version}, this one knows {LATEST})",
            "pip install --upgrade coterie",
        )
    if version == 0:  # ours are never without tables, not even for an instant
        raise failures.damaged(path, "The file is not a Coterie database")
    migrate(connection)


def _check(connection: sqlite3.Connection, path: Path, known: Head | None) -> None:
    if path.stat().st_size <= CHECKED_WHOLE:
        result = _pragma(connection, "quick_check(1)")
        if result != "ok":
            raise failures.damaged(path, f"The database is damaged: {result}")
    if known is None or known.sequence == 0:
        return
    rows = connection.execute(SQL["event_hash"], (known.sequence,)).fetchall()
    if not rows:
        last = connection.execute(SQL["last_event"]).fetchall()
        raise failures.history_lost(
            path,
            f"the database ends at event {last[0][0] if last else 0}, "
            f"but event {known.sequence} was written",
        )
    if rows[0][0].hex() != known.hash:
        raise failures.history_lost(path, f"event {known.sequence} differs from what was written")


def _head_file(database: Path) -> HeadFile:
    return HeadFile(database.parent, "logs", "head.json")


def head_of(connection: sqlite3.Connection) -> Head:
    """Return number and hash of the last event and of the last audit row in the database."""
    ends = (select(connection, name) for name in ("last_event", "last_audit"))
    event, audit = ((rows[0][0], rows[0][1].hex()) if rows else (0, "") for rows in ends)
    return Head(*event, *audit)


def _integrity(connection: sqlite3.Connection) -> list[str]:
    return [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]


LOCK_TIMEOUT = 5.0
"""How long to wait for another process that holds the database, in seconds."""


class _Statements(SqliteStatements):
    """Adds the writes that depend on a condition."""

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        fence = Fence(event.task_id, 1)
        writes = () if opening is None else (journal.AppendMessage(opening),)

        def make(connection: sqlite3.Connection) -> Fence | None:
            if select(connection, "task_status", event.task_id):
                return None
            if not select(connection, "insert_lease", event.task_id, owner, "running"):
                return None
            self._writes.apply(fence, (journal.AppendEvent(event), *writes), connection)
            return fence

        return await self._writer.submit(make)

    async def respond(self, event: UserInteractionResponded, request: int | None) -> bool:
        def answer(connection: sqlite3.Connection) -> bool:
            questions = select(connection, "open_questions", event.task_id)
            if (event.response.interaction_id,) not in questions:
                return False
            taken = () if request is None else (journal.TakeRequest(request),)
            self._writes.apply(None, (journal.AppendEvent(event), *taken), connection)
            return True

        return await self._writer.submit(answer, after=self.wake)

    async def reserve(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        def add(connection: sqlite3.Connection) -> bool:
            if not select(connection, "next_reservation", seen):
                return False
            connection.execute(SQL["drop_reservations_of_others"])
            row = codec.RESERVATION.row(reservation)
            execute(connection, SQL["insert_reservation"], row).close()
            return True

        return await self._writer.submit(add, fence)


class SqliteStorage(DatabaseStorage):
    """All stores over one writer; made by `open` or `in_memory`, released by `close`."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], head_file: HeadFile | None
    ) -> None:
        self._head_file = head_file
        writes = Writes()
        self._writer = Writer(path, connect, writes.after_events(self._keep_head))
        super().__init__(_Statements(self._writer, writes))

    @classmethod
    async def open(cls, path: Path, *, lock_timeout: float = LOCK_TIMEOUT) -> SqliteStorage:
        """Open the database at `path`, which is created if there is none; its folder must exist.

        Raises StorageError if it is damaged, locked, newer than this program or not writable.
        """
        storage = cls(path, partial(open_database, path, lock_timeout), _head_file(path))
        await storage._writer.start()
        return storage

    @classmethod
    async def in_memory(cls, name: str | None = None) -> SqliteStorage:
        """Open a database without a file, gone when the last storage on it is closed.

        Two storages of one name in this process share the data, like two processes on one file.
        """
        name = name or secrets.token_hex(8)
        storage = cls(Path(name), partial(open_in_memory, name, LOCK_TIMEOUT), None)
        await storage._writer.start()
        return storage

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            if self._head_file is not None:
                self._head_file.close()

    async def problems(self) -> list[str]:
        known = await anyio.to_thread.run_sync(self._head_file.read) if self._head_file else None
        pages = await self._writer.read(_integrity)
        if pages != ["ok"]:
            return pages  # the rows cannot be relied on
        read = self._statements.read
        return await read(broken_chains()) or await read(cut_off(known))

    def _keep_head(self, connection: sqlite3.Connection) -> None:
        if self._head_file is not None:
            self._head_file.raise_to(head_of(connection))
