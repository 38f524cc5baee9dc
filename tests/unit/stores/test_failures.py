"""How SQLite and system errors are classified, and that each one says what to do."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from coterie.errors import (
    StorageDamaged,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
)
from coterie.model.journal import IllegalWrite
from coterie.stores.sqlite import failures


def sqlite_error(code: int | None, text: str = "words") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    if code is not None:
        error.sqlite_errorcode = code
    return error


CASES: list[tuple[Exception, type[Exception]]] = [
    (sqlite_error(sqlite3.SQLITE_BUSY), StorageLocked),
    (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), StorageLocked),
    (sqlite_error(sqlite3.SQLITE_LOCKED), StorageLocked),
    (sqlite_error(sqlite3.SQLITE_FULL), StorageFull),
    (sqlite_error(sqlite3.SQLITE_IOERR_READ), StorageError),
    (sqlite_error(sqlite3.SQLITE_CORRUPT), StorageDamaged),
    (sqlite_error(sqlite3.SQLITE_CORRUPT_VTAB), StorageDamaged),
    (sqlite_error(sqlite3.SQLITE_NOTADB), StorageDamaged),
    (sqlite_error(None, "Could not decode to UTF-8 column 'text'"), StorageDamaged),
    (sqlite_error(sqlite3.SQLITE_READONLY_DIRECTORY), StorageReadOnly),
    (sqlite_error(sqlite3.SQLITE_CANTOPEN), StorageError),
    (sqlite_error(sqlite3.SQLITE_ERROR), StorageError),
    (OSError(errno.ENOSPC, "no room"), StorageFull),
    (OSError(errno.EFBIG, "too large"), StorageFull),
    (OSError(errno.EROFS, "read-only"), StorageReadOnly),
    (OSError(errno.EIO, "broken"), StorageError),
    (sqlite3.IntegrityError("UNIQUE"), IllegalWrite),
]


@pytest.mark.parametrize(("error", "kind"), CASES)
def test_kind(tmp_path: Path, error: Exception, kind: type[Exception]) -> None:
    path = tmp_path / "coterie.db"
    found = failures.explained(error, path)
    assert type(found) is kind
    if isinstance(found, StorageError):
        assert str(path) in str(found)
        assert found.hint


@pytest.mark.parametrize("error", [sqlite3.ProgrammingError("bug"), ValueError("x")])
def test_bugs_stay_bugs(tmp_path: Path, error: Exception) -> None:
    assert failures.explained(error, tmp_path) is error


def test_cannot_open_where_nothing_can_be_written(tmp_path: Path) -> None:
    error = sqlite_error(sqlite3.SQLITE_CANTOPEN)
    assert isinstance(failures.explained(error, tmp_path / "none" / "coterie.db"), StorageReadOnly)


def test_the_advice_can_be_pasted(tmp_path: Path) -> None:
    home = tmp_path / "it's here"
    (home / "logs").mkdir(parents=True)
    hint = failures.damaged(home / "coterie.db", "x").hint
    assert hint is not None
    assert "'" in hint.partition("mkdir ")[2]
