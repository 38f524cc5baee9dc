"""The schema in SQLite: created for a new database, migrated when an old one is opened."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

PAGE = 2048
"""A turn changes a little in several tables, and whole pages are written: small ones cost less."""
BESIDE = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite keeps next to a database."""

_MIGRATIONS = Path(__file__).with_name("migrations")


def migrations() -> list[tuple[int, Path]]:
    """The numbered scripts, in order."""
    return sorted((int(file.name[:4]), file) for file in _MIGRATIONS.glob("[0-9]*.sql"))


LATEST = migrations()[-1][0]


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database up to date from whatever version it has."""
    for number, script in migrations():
        _apply(connection, number, script)


def build(fresh: Path, timeout: float) -> None:
    """Create a complete, durable database file."""
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
    """Delete a database and the files next to it."""
    for ending in ("", *BESIDE):
        fresh.with_name(fresh.name + ending).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or the entries of a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _apply(connection: sqlite3.Connection, number: int, script: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Checked inside the transaction: another process may just have done it.
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
