"""Opening a database: made whole or not at all, migrated, and refused where it is not intact.

Blocking; runs on the writer's thread.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from coterie.errors import StorageError
from coterie.stores.sqlite import failures
from coterie.stores.sqlite.integrity import Head, HeadFile
from coterie.stores.sqlite.queries import SQL

CHECKPOINT_PAGES = 125
"""A short log is soon written over in place, which costs less than a file that grows."""

CHECKED_WHOLE = 32 * 1024 * 1024
"""Up to this size every page is looked at when the file is opened (0.75 ms a MiB)."""

_MIGRATIONS = Path(__file__).with_name("migrations")


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
    connection = sqlite3.connect(
        f"file:/{quote(name, safe='')}?vfs=memdb", uri=True, timeout=timeout, isolation_level=None
    )
    for number, script in migrations():
        _apply(connection, number, script)
    return connection


def _opened(path: Path, timeout: float) -> sqlite3.Connection:
    head_file = HeadFile(path)
    if not path.parent.is_dir():
        raise StorageError(str(path), "The folder of the database does not exist", "coterie init")
    if not os.access(path.parent, os.W_OK):
        raise failures.read_only(path)
    if not path.exists():
        _create(path, head_file, timeout)
    if not os.access(path, os.W_OK):  # SQLite itself would say so only at the first write
        raise failures.read_only(path)
    if path.stat().st_size == 0:
        raise failures.damaged(path, "The database is empty: its history is lost")
    # Before the database is looked at: another process may append in between, and raises the
    # file only after its commit.
    known = head_file.read()
    connection = _connected(path, timeout)
    try:
        _migrate(connection, path)
        _check(connection, path, known)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(path: Path, timeout: float) -> sqlite3.Connection:
    # mode=rw: a file that went away is an error, never a fresh start.
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=timeout, isolation_level=None
    )
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


# -- making ------------------------------------------------------------------------------------


def _create(path: Path, head_file: HeadFile, timeout: float) -> None:
    with head_file.locked(timeout) as ours:
        if path.exists():
            return  # another process was quicker
        if not ours:
            raise failures.locked(path)
        _refuse_second_start(path, head_file.read())
        fresh = path.with_name(path.name + ".new")
        try:
            _build(fresh, timeout)
            # Under the lock nobody else makes one, so this never replaces a database.
            fresh.rename(path)
            _sync(path.parent)
        finally:
            _remove(fresh)


def _refuse_second_start(path: Path, known: Head | None) -> None:
    if known is not None and known.sequence > 0:
        raise failures.history_lost(
            path, f"the database is gone, and it held {known.sequence} events"
        )
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        # SQLite would play another database's log into the new one.
        raise failures.damaged(path, "The database is gone, but its -wal file is still there")


def _build(fresh: Path, timeout: float) -> None:
    _remove(fresh)  # left by a crash
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(fresh, timeout=timeout, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        for number, script in migrations():
            _apply(connection, number, script)
    finally:
        connection.close()  # moves the log into the file, so that one rename moves everything
    _sync(fresh)


def _remove(fresh: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- migrating ---------------------------------------------------------------------------------


def migrations() -> list[tuple[int, Path]]:
    """The numbered scripts, in order."""
    return sorted((int(file.name[:4]), file) for file in _MIGRATIONS.glob("[0-9]*.sql"))


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    scripts = migrations()
    latest = scripts[-1][0]
    version = _pragma(connection, "user_version")
    if version == latest:
        return
    if not isinstance(version, int) or version > latest:
        raise StorageError(
            str(path),
            f"The database was made by a newer Coterie ({version}, this one knows {latest})",
            "pip install --upgrade coterie",
        )
    if version == 0:  # ours are never without tables, not even for an instant
        raise failures.damaged(path, "The file is not a database of Coterie")
    for number, script in scripts:
        _apply(connection, number, script)


def _apply(connection: sqlite3.Connection, number: int, script: Path) -> None:
    connection.execute(SQL["begin"])
    try:
        # Asked inside the transaction: another process may just have done it.
        version = _pragma(connection, "user_version")
        if isinstance(version, int) and version < number:
            for statement in _statements(script.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute(SQL["commit"])
    finally:
        if connection.in_transaction:
            connection.execute(SQL["rollback"])


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):  # a trigger has semicolons inside
            yield statement
            statement = ""


# -- looking -----------------------------------------------------------------------------------


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
