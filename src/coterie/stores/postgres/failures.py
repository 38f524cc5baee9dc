"""What PostgreSQL's errors mean to a user: which `StorageError`, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import (
    HistoryLost,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
)

if TYPE_CHECKING:
    import psycopg

    from coterie.stores.postgres.place import Place

_FULL = frozenset({"53100", "54000"})  # disk_full, program_limit_exceeded
_READ_ONLY = frozenset({"25006"})  # read_only_sql_transaction
_NO_RIGHT = frozenset({"42501"})  # insufficient_privilege
_LOCKED = frozenset({"55P03", "57014"})  # lock_not_available, query_canceled


def explained(place: Place, error: psycopg.Error) -> StorageError:
    """The error of a statement as the user should read it."""
    return from_server(place, error.sqlstate or "", first_line(str(error)))


def from_server(place: Place, state: str, problem: str) -> StorageError:
    """The same for what the server said, by its code."""
    if state in _FULL:
        return StorageFull(
            place.shown,
            f"The disk of the database is full: {problem}",
            "Make room there, then coterie resume; what was committed before is safe.",
        )
    if state in _READ_ONLY:
        return StorageReadOnly(
            place.shown,
            f"The database cannot be written: {problem}",
            "Name the server that takes writes, not a replica of it.",
        )
    if state in _NO_RIGHT:
        return StorageReadOnly(
            place.shown,
            f"User {place.user} has no right to do that: {problem}",
            f"As its owner:  ALTER DATABASE {place.database} OWNER TO {place.user};",
        )
    if state in _LOCKED:
        return StorageLocked(
            place.shown, f"Another process holds the database: {problem}", "Try again."
        )
    return StorageError(
        place.shown,
        f"The database cannot be used: {problem}",
        f"coterie doctor --store {place.quoted}",
    )


def history_lost(place: Place, problem: str) -> HistoryLost:
    """The server is there, but we know of commits that it does not hold."""
    return HistoryLost(
        place.shown,
        f"History is lost: {problem}",
        "Put the newer database back. To go on without what is missing, end every process of "
        f"Coterie on every machine, then: coterie store continue {place.quoted}",
    )


def first_line(text: str) -> str:
    """The first line that says something, without its full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else "no reason given"
