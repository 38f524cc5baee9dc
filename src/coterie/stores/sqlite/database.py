"""The database file: made whole or not at all, migrated, and refused where it is not intact.

Events and audit are two chains of hashes, whose heads are kept outside the database as well, in
`logs/head.json`.  A database whose `-wal` file was lost is sound and yet older.  Events are
numbered without gaps, so a head that is lower than the one on file, or another one, shows it.
The audit's head is kept whenever an event is, at the latest when a task ends: so rows cut off its
end are missed.

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
"""A short log is soon written over in place, which costs less than a file that grows."""

CHECKED_WHOLE = 32 * 1024 * 1024
"""Up to this size every page is looked at when the file is opened (0.75 ms a MiB)."""


def open_database(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to the database at `path`, which is made if there is none.

    Raises StorageError in one of its kinds; nothing half-made is left behind.
    """
    try:
        return _opened(path, timeout)
    except (sqlite3.Error, OSError) as error:
        raise failures.explained(error, path) from error


def open_in_memory(name: str, timeout: float) -> sqlite3.Connection:
    """A connection to the database of this process by that name; it ends with its last one."""
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
    if not os.access(path, os.W_OK):  # SQLite itself would say so only at the first write
        raise failures.read_only(path)
    if path.stat().st_size == 0:
        raise failures.damaged(path, "The database is empty: its history is lost")
    # Before the database is looked at: another process may append in between, and raises the
    # file only after its commit.
    known = _head_file(path).read()
    connection = _connected(path, timeout)
    try:
        _migrate(connection, path)
        _check(connection, path, known)
    except BaseException:
        connection.close()
        raise
    return connection


def _connection(at: str, wait: float) -> sqlite3.Connection:
    return sqlite3.connect(
        at, timeout=wait, isolation_level=None, check_same_thread=False, uri=True
    )


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: a file that went away is an error, never a fresh start.
    connection = _connection(f"file:{quote(str(path))}?mode=rw", timeout)
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
            "The file system cannot hold a write-ahead log",
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
            # Under the lock nobody else makes one, so this never replaces a database.
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
        # SQLite would play another database's log into the new one.
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
        raise failures.damaged(path, "The file is not a database of Coterie")
    migrate(connection)


def _check(connection: sqlite3.Connection, path: Path, known: Head | None) -> None:
    if path.stat().st_size <= CHECKED_WHOLE:
        found = _pragma(connection, "quick_check(1)")
        if found != "ok":
            raise failures.damaged(path, f"The database is damaged: {found}")
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
        raise failures.history_lost(path, f"event {known.sequence} is not the one that was written")


def _head_file(database: Path) -> HeadFile:
    return HeadFile(database.parent, "logs", "head.json")


def head_of(connection: sqlite3.Connection) -> Head:
    """The last event, and the last row of the audit, that the database holds."""
    ends = (select(connection, name) for name in ("last_event", "last_audit"))
    event, audit = ((rows[0][0], rows[0][1].hex()) if rows else (0, "") for rows in ends)
    return Head(*event, *audit)


def _integrity(connection: sqlite3.Connection) -> list[str]:
    return [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]


PATIENCE = 5.0
"""How long another process may hold the database before we say so, in seconds."""


class _Statements(SqliteStatements):
    """With what is written only where something else is so."""

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        fence = Fence(event.task_id, 1)
        said = () if opening is None else (journal.AppendMessage(opening),)

        def make(connection: sqlite3.Connection) -> Fence | None:
            if select(connection, "task_status", event.task_id):
                return None
            if not select(connection, "insert_lease", event.task_id, owner, "running"):
                return None
            self._writes.apply(fence, (journal.AppendEvent(event), *said), connection)
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
    """All stores behind one writer; made by `open` or `in_memory`, let go by `close`."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], head_file: HeadFile | None
    ) -> None:
        self._head_file = head_file
        writes = Writes()
        self._writer = Writer(path, connect, writes.after_events(self._keep_head))
        super().__init__(_Statements(self._writer, writes), partial(failures.damaged, path))

    @classmethod
    async def open(cls, path: Path, *, patience: float = PATIENCE) -> SqliteStorage:
        """Open the database at `path`, which is made if there is none; its folder must exist.

        Raises StorageError where it is damaged, locked, newer than we are or cannot be written.
        """
        storage = cls(path, partial(open_database, path, patience), _head_file(path))
        await storage._writer.start()
        return storage

    @classmethod
    async def in_memory(cls, name: str | None = None) -> SqliteStorage:
        """A database without a file, gone when the last storage on it is closed.

        Two of one name, in this process, are on the same data, as two processes on one file.
        """
        name = name or secrets.token_hex(8)
        storage = cls(Path(name), partial(open_in_memory, name, PATIENCE), None)
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
            return pages  # the rows cannot be trusted to be rows
        read = self._statements.read
        return await read(broken_chains()) or await read(cut_off(known))

    def _keep_head(self, connection: sqlite3.Connection) -> None:
        if self._head_file is not None:
            self._head_file.raise_to(head_of(connection))
