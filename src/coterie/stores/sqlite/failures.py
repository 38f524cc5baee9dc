"""What SQLite's and the system's errors mean to a user: a matching `StorageError`, with advice."""

from __future__ import annotations

import errno
import os
import resource
import shlex
import sqlite3
from pathlib import Path

from pydantic import ValidationError

from coterie.errors import (
    NotOurs,
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
)
from coterie.model import instant
from coterie.model.journal import IllegalWrite

_PRIMARY = 0xFF
"""The low byte of an extended result code is the primary code."""

_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def explained(error: Exception, path: Path) -> Exception:
    """Convert an error to one for the user; errors from other causes are returned unchanged."""
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
        return error  # misuse: a bug in our code, which must look like one
    if isinstance(error, sqlite3.IntegrityError):
        return IllegalWrite(str(error))
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, path)
    if isinstance(error, OSError):
        return from_system(error, path)
    if isinstance(error, ValidationError):
        return damaged(
            path, f"The database holds a value that this version of Coterie cannot read: {error}"
        )
    if isinstance(error, NotOurs):
        problem = f"The extent of the history cannot be recorded: {error.message.rstrip('.')}"
        return StorageError(str(path), problem, error.advice)
    return error


def _from_sqlite(error: sqlite3.Error, path: Path) -> StorageError:
    # An error without a code is Python's own: text in the file that is not UTF-8.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY
    if code in _DAMAGE:
        return damaged(path, f"The database is damaged: {error}")
    if code in _BUSY:
        return locked(path)
    if code == sqlite3.SQLITE_FULL:
        return full(path, "The disk is full")
    if code == sqlite3.SQLITE_IOERR:
        return _from_failed_io(error, path)
    if code == sqlite3.SQLITE_READONLY or not _writable(path):
        return read_only(path)
    return StorageError(str(path), f"The database cannot be used: {error}", "coterie doctor")


def _from_failed_io(error: sqlite3.Error, path: Path) -> StorageError:
    # SQLite reports "full" only for ENOSPC; a size limit or a quota shows as a plain I/O error,
    # and Python does not expose the errno.
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and _largest(path) + 64 * 1024 > limit:
        return full(path, f"The database has reached the file size limit of {limit} bytes")
    if os.statvfs(path.parent).f_bavail == 0:
        return full(path, "The disk is full")
    return StorageError(
        str(path),
        f"The disk reported an error: {error}",
        "Check the disk and its quota (df, quota, dmesg); what was committed before is safe.",
    )


def from_system(error: OSError, path: Path) -> StorageError:
    """Like `explained`, for an error of the operating system."""
    if error.errno in _FULL:
        return full(path, "The disk is full, or a size limit was reached")
    if error.errno in _READ_ONLY:
        return read_only(path)
    return StorageError(str(path), f"The database cannot be used: {error}", "coterie doctor")


def damaged(path: Path, problem: str) -> StorageDamaged:
    """With advice that loses nothing: move all files of the database together."""
    home = path.parent
    folder = home / f"damaged-{instant.now()[:19].replace(':', '')}"
    moved = f"{shlex.quote(str(path))}* {shlex.quote(str(home / 'logs' / 'head.json'))}"
    return StorageDamaged(
        str(path),
        problem,
        "Restore a copy, including its -wal file. To start over and keep these files: "
        f"mkdir {shlex.quote(str(folder))} && mv {moved} {shlex.quote(str(folder))}",
    )


def history_lost(path: Path, problem: str) -> StorageDamaged:
    """The file itself is intact, but lacks events that we know of."""
    head = shlex.quote(str(path.parent / "logs" / "head.json"))
    return StorageDamaged(
        str(path),
        f"History is lost: {problem}",
        "Restore the newer file together with its -wal file. "
        f"To continue without the missing events: mv {head} {head}.lost",
    )


def locked(path: Path) -> StorageLocked:
    """Another process is in a transaction, or was stopped inside one."""
    return StorageLocked(
        str(path),
        "Another process has locked the database",
        f"Try again; to see which process it is: fuser -v {shlex.quote(str(path))}",
    )


def full(path: Path, problem: str) -> StorageFull:
    """Nothing half-written is left: the transaction was rolled back as a whole."""
    return StorageFull(
        str(path),
        problem,
        "Free some space, then run coterie resume; what was committed before is safe.",
    )


def read_only(path: Path) -> StorageReadOnly:
    """Also if only the folder is not writable: SQLite must create files in it."""
    return StorageReadOnly(
        str(path),
        "The database is not writable",
        f"Make {path.parent} writable for you, or use another folder: coterie -C DIR",
    )


def _writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _largest(path: Path) -> int:
    sizes = [0]
    for ending in ("", "-wal", "-shm"):
        file = path.with_name(path.name + ending)
        if file.exists():
            sizes.append(file.stat().st_size)
    return max(sizes)
