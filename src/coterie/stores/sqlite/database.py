"""The database file: made whole or not at all, migrated, and refused where it is not intact.

Events and audit are two chains of hashes, whose heads are kept outside the database as well, in
`logs/head.json`.  A database whose `-wal` file was lost is sound and yet older.  Events are
numbered without gaps, so a head that is lower than the one on file, or another one, shows it.
The audit's head is kept whenever an event is, at the latest when a task ends: so rows cut off its
end are missed.

Blocking; runs on the writer's thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from coterie.errors import StorageError
from coterie.stores.sqlite import failures
from coterie.stores.sqlite.codec import SQL, chained, select
from coterie.workspace.beneath import open_file, opened_folder, read_file, require_file

CHECKPOINT_PAGES = 64
"""A short log is soon written over in place, which costs less than a file that grows."""

CHECKED_WHOLE = 32 * 1024 * 1024
"""Up to this size every page is looked at when the file is opened (0.75 ms a MiB)."""

HEAD_LENGTH = 512
"""How long the file of the head always is, in bytes."""

_MIGRATIONS = Path(__file__).with_name("migrations")


_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by the end of its name."""


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
    for number, script in migrations():
        _apply(connection, number, script)
    return connection


def _opened(path: Path, timeout: float) -> sqlite3.Connection:
    head_file = HeadFile(path)
    if not path.parent.is_dir():
        raise StorageError(str(path), "The folder of the database does not exist", "coterie init")
    if not os.access(path.parent, os.W_OK):
        raise failures.read_only(path)
    for ending in ("", *_BESIDE):
        require_file(path.parent, path.name + ending)
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


def _create(path: Path, head_file: HeadFile, timeout: float) -> None:
    with head_file.locked(timeout) as held:
        if path.exists():
            return  # another process was quicker
        if held is None:
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
    for ending in ("", *_BESIDE):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


@dataclass(frozen=True)
class Head:
    """The last event and the last row of the audit then: number and hash of each."""

    sequence: int
    hash: str
    audit: int = 0
    audit_hash: str = ""


def head_of(connection: sqlite3.Connection) -> Head:
    """The last event, and the last row of the audit, that the database holds."""
    ends = (select(connection, name) for name in ("last_event", "last_audit"))
    event, audit = ((rows[0][0], rows[0][1].hex()) if rows else (0, "") for rows in ends)
    return Head(*event, *audit)


class HeadFile:
    """The file, and the lock under which it is written and a new database is made."""

    def __init__(self, database: Path) -> None:
        self._project = database.parent
        self._path = database.parent / "logs" / "head.json"

    def read(self) -> Head | None:
        """What the file says; None where there is none or a crash of the machine spoiled it."""
        try:
            return _head_in(read_file(self._project, "logs", self._path.name))
        except FileNotFoundError:
            return None

    def raise_to(self, head: Head) -> None:
        """Write the head unless a later one is there already.

        Where the lock stays busy (its holder was stopped) nothing is written: a head that is
        too low only shows less.  One write of one length, in place: a process that is killed
        leaves the old head or the new one.
        """
        with self.locked(wait=0.1) as file:
            if file is None:
                return
            known = _head_in(os.read(file, HEAD_LENGTH))
            if known is None or known.sequence < head.sequence:
                os.pwrite(file, json.dumps(vars(head)).ljust(HEAD_LENGTH).encode(), 0)

    @contextlib.contextmanager
    def locked(self, wait: float) -> Generator[int | None]:
        """The file, open and locked; None where the lock cannot be had in `wait` seconds."""
        with opened_folder(self._project, "logs", make=True) as folder:
            file = open_file(folder, self._path, os.O_RDWR | os.O_CREAT)
        try:
            yield file if _flocked(file, time.monotonic() + wait) else None
        finally:
            os.close(file)  # lets go of the lock


def _head_in(content: bytes) -> Head | None:
    try:
        found = json.loads(content)
        audit = int(found.get("audit", 0)), str(found.get("audit_hash", ""))
        return Head(int(found["sequence"]), str(found["hash"]), *audit)
    except (ValueError, KeyError, TypeError):
        return None


def _flocked(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)
        else:
            return True


def problems(known: Head | None, connection: sqlite3.Connection) -> list[str]:
    """What is wrong, in words; nothing where all is well.  `known` was on file before."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]
    if found != ["ok"]:
        return found  # the rows cannot be trusted to be rows
    broken = [*_broken_chain(connection, "events"), *_broken_chain(connection, "audit")]
    return broken or [*_cut_off(connection, known)]


def _cut_off(connection: sqlite3.Connection, known: Head | None) -> Iterator[str]:
    """A chain that lost its end is whole in itself."""
    if known is None or known.audit == 0:
        return
    hashes = [row[-1].hex() for row in select(connection, "all_audit")]
    if len(hashes) < known.audit:
        yield f"audit: {known.audit} rows were written, {len(hashes)} are there"
    elif hashes[known.audit - 1] != known.audit_hash:
        yield f"audit: row {known.audit} is not the one that was written"


def _broken_chain(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    previous = b""
    for place, row in enumerate(select(connection, f"all_{table}"), start=1):
        *fields, found = row
        if fields[0] != place:
            yield f"{table}: row {place} is missing"
            return
        if chained(previous, fields) != found:
            yield f"{table}: row {place} is not the one that was written"
            return
        previous = found
