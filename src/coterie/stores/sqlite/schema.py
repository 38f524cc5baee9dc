"""The schema in SQLite: a new database made whole, an old one migrated when it is opened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

PAGE = 2048
"""A turn changes a little of several tables, and whole pages are written: small ones cost less."""
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by the end of its name."""

_MIGRATIONS = Path(__file__).with_name("migrations")


def migrations() -> list[tuple[int, Path]]:
    """The numbered scripts, in order."""
    return sorted((int(file.name[:4]), file) for file in _MIGRATIONS.glob("[0-9]*.sql"))


LATEST = migrations()[-1][0]


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date, from whatever number it has."""
    for number, script in migrations():
        _apply(connection, number, script)


def build(fresh: Path, timeout: float) -> None:
    """Make a database file, in one piece and durable."""
    remove(fresh)  # left by a crash
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    connection = sqlite3.connect(fresh, timeout=timeout, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={PAGE}")
        connection.execute("PRAGMA journal_mode=WAL")
        migrate(connection)
    finally:
        connection.close()  # moves the log into the file, so that one rename moves everything
    sync(fresh)


def remove(fresh: Path) -> None:
    """Take a database away, with all that is beside it."""
    for ending in ("", *BESIDE):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _apply(connection: sqlite3.Connection, number: int, script: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked inside the transaction: another process may just have done it.
        if connection.execute("PRAGMA user_version").fetchall()[0][0] < number:
            for statement in _statements(script.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):  # a trigger has semicolons inside
            yield statement
            statement = ""
