"""What PostgreSQL's errors mean to a user: the matching `StorageError`, with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import (
    HistoryLost,
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
)

if TYPE_CHECKING:
    import psycopg

    from coterie.stores.postgres.store_url import StoreUrl

_FULL = frozenset({"53100", "54000"})  # disk_full, program_limit_exceeded
_READ_ONLY = frozenset({"25006"})  # read_only_sql_transaction
_NO_RIGHT = frozenset({"42501"})  # insufficient_privilege
_LOCKED = frozenset({"55P03", "57014"})  # lock_not_available, query_canceled


def explained(store: StoreUrl, error: psycopg.Error) -> StorageError:
    """Convert the error of a statement to one for the user."""
    return from_server(store, error.sqlstate or "", first_line(str(error)))


def from_server(store: StoreUrl, state: str, problem: str) -> StorageError:
    """Like `explained`, for a server's message and its code."""
    if state in _FULL:
        return StorageFull(
            store.shown,
            f"The disk of the database is full: {problem}",
            "Free some space there, then run coterie resume; what was committed before is safe.",
        )
    if state in _READ_ONLY:
        return StorageReadOnly(
            store.shown,
            f"The database is read-only: {problem}",
            "Use the URL of the primary server, not of a replica.",
        )
    if state in _NO_RIGHT:
        return StorageReadOnly(
            store.shown,
            f"User {store.user} lacks a privilege: {problem}",
            f"As its owner:  ALTER DATABASE {store.database} OWNER TO {store.user};",
        )
    if state in _LOCKED:
        return StorageLocked(
            store.shown, f"Another process has locked the database: {problem}", "Try again."
        )
    return StorageError(
        store.shown,
        f"The database cannot be used: {problem}",
        f"coterie doctor --store {store.quoted}",
    )


def unreadable(store: StoreUrl, error: Exception) -> StorageDamaged:
    """A stored value that was changed, or written by another version."""
    problem = f"The database holds a value that this version of Coterie cannot read: {error}"
    return StorageDamaged(store.shown, problem, "Restore it from a backup.")


def history_lost(store: StoreUrl, problem: str) -> HistoryLost:
    """The server is up, but lacks commits that we know of."""
    return HistoryLost(
        store.shown,
        f"History is lost: {problem}",
        "Restore the newer database. To continue without the missing history, stop every "
        f"Coterie process on every machine, then run: coterie store continue {store.quoted}",
    )


def first_line(text: str) -> str:
    """Return the first non-empty line, without its full stop."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else "no reason given"
