"""Read files that people write (text, JSON, TOML), and write our own files atomically."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, cast

from coterie.errors import (
    ConfigError,
    FileMistake,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageReadOnly,
)
from coterie.model.workspace import shown

LIMIT = 1 << 20
"""Bytes; no file written by hand is larger."""
TIMEOUT = 5.0
"""Seconds to wait for another writer, which normally takes milliseconds."""


def read_text(path: Path) -> str:
    """Return the text of a file; raises a ConfigError that says why it cannot be read."""
    raw = read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unreadable(path, "is not UTF-8 text", "Save it as UTF-8.", line) from None


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file of bounded size."""
    try:
        # Non-blocking: opening a pipe without a writer would hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _unreadable(path, "does not exist") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable(path, f"cannot be read: {why}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise _unreadable(path, f"is {what}; expected a file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            raw = file.read(LIMIT + 1)
        except OSError as error:
            raise _unreadable(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > LIMIT:
        raise _unreadable(path, "is larger than 1 MiB")
    return raw


def _unreadable(path: Path, why: str, advice: str | None = None, line: int = 0) -> ConfigError:
    at = f":{line}" if line else ""
    return ConfigError(f"{shown(path)}{at} {why}.", advice, f"{path}{at}")


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a whole file; after a crash it holds either the old text or the new."""
    # Follow symlinks to the real file: people keep their dotfiles elsewhere.
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{os.urandom(4).hex()}.new")
    with storage_errors(target.parent):
        make_folder(target.parent)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(target)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)


def keep_copy(path: Path, name: str) -> Path:
    """Copy a file to this name beside it, or to the first free numbered one.

    An older copy is never overwritten; one with the same content is reused.
    """
    raw = read_bytes(path)
    with storage_errors(path.parent):
        for number in range(1, 10_000):
            copy = path.with_name(name if number == 1 else f"{name}.{number}")
            try:
                descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                if copy.is_file() and copy.read_bytes() == raw:
                    return copy
                continue
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(path.parent)
            return copy
    raise StorageError(str(path.parent), f"There are too many copies of {path.name}")


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that a good one can take its place and nothing is lost."""
    with storage_errors(path.parent):
        number = 1
        while (target := path.with_name(f"{path.name}.damaged.{number}")).exists():
            number += 1
        path.rename(target)
    return target


def make_folder(path: Path) -> None:
    """Make a private folder and its missing parents; leave an existing folder as it is."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)


@contextlib.contextmanager
def locked(path: Path, timeout: float = TIMEOUT) -> Generator[None]:
    """Lock out other writers of this file, in this process and in others."""
    with storage_errors(path.parent):
        make_folder(path.parent)
        lock = path.with_name(f".{path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, timeout)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:  # a suspended process would never release the lock
                advice = "See what other coterie commands are running."
                raise StorageLocked(str(path), "Another process is writing it", advice) from None
            time.sleep(0.01)
        except OSError as error:
            raise _storage_error(path.parent, error) from error
        else:
            return


@contextlib.contextmanager
def storage_errors(place: Path) -> Generator[None]:
    """Turn an OSError into a StorageError that names the folder and what to do."""
    try:
        yield
    except OSError as error:
        raise _storage_error(place, error) from error


def _storage_error(place: Path, error: OSError) -> StorageError:
    name = str(place)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        advice = f"Make {name} writable, or work elsewhere: -C DIR"
        return StorageReadOnly(name, "The folder cannot be written", advice)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(name, "The disk is full", "Free some space, then try again.")
    return StorageError(name, f"Writing failed: {error.strerror}")


def _sync_folder(path: Path) -> None:
    # A rename survives a power cut only once its folder is on disk too.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Place = tuple[str | int, ...]
"""The path to a value: the keys and list positions that lead to it."""


@dataclass(frozen=True)
class Document:
    """The parsed content of a file."""

    path: Path
    text: str
    data: object
    kind: Literal["json", "toml"] = "json"
    has_duplicates: bool = False
    """Whether some object has a duplicate key, of which only the last would count."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong at one place; `problem` continues after the place's name."""

    place: Place
    problem: str
    hint: str | None = None


@dataclass(frozen=True)
class Notice:
    """Something worth knowing that does not stop anything."""

    message: str
    hint: str | None = None


def read_document(path: Path) -> Document:
    """Read and parse a file: TOML by its suffix, else JSON."""
    return parse(path, read_text(path))


def parse(path: Path, text: str) -> Document:
    """Parse a text that is, or will be, the content of that file."""
    return parse_toml(path, text) if path.suffix == ".toml" else parse_json(path, text)


def parse_json(path: Path, text: str) -> Document:
    """Parse a JSON text; raises a ConfigError with line and column if it is invalid."""
    has_duplicates = False

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal has_duplicates
        parsed = dict(items)
        has_duplicates = has_duplicates or len(parsed) < len(items)
        return parsed

    try:
        data = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _invalid_json(path, error) from None
    except RecursionError:
        raise _invalid(path, "JSON", "it is nested too deeply", 1, 1) from None
    except ValueError as error:  # NaN, or a number of thousands of digits
        raise _invalid(path, "JSON", str(error), 1, 1) from None
    _refuse_halves(path, text, data)
    return Document(path, text, data, "json", has_duplicates)


def parse_toml(path: Path, text: str) -> Document:
    """Parse a TOML text."""
    import tomllib

    try:
        return Document(path, text, tomllib.loads(text), "toml")
    except RecursionError:
        raise _invalid(path, "TOML", "it is nested too deeply", 1, 1) from None
    except ValueError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error))
        if match is None:
            last = text.count("\n") + 1
            raise _invalid(
                path, "TOML", str(error).removesuffix(" (at end of document)"), last, 1
            ) from None
        message, line, column = match.groups()
        raise _invalid(path, "TOML", message, int(line), int(column)) from None


_TRAILING_COMMA = re.compile(r",(?=\s*([]}]))")


def _invalid_json(path: Path, error: json.JSONDecodeError) -> ConfigError:
    """The parser's error; a trailing comma is reported as Python 3.13 does, on every version."""
    before = error.doc[: error.pos].rstrip()
    at = error.pos if error.doc[error.pos : error.pos + 1] == "," else len(before) - 1
    comma = _TRAILING_COMMA.match(error.doc, max(at, 0))
    if comma is None:
        return _invalid(path, "JSON", error.msg, error.lineno, error.colno)
    end = "array" if comma[1] == "]" else "object"
    place = json.JSONDecodeError("", error.doc, comma.start())
    return _invalid(path, "JSON", f"trailing comma before end of {end}", place.lineno, place.colno)


def _refuse_halves(path: Path, text: str, data: object) -> None:
    """Refuse half a surrogate pair: JSON can spell one, but it could never be encoded."""
    half = re.search(r"\\u[dD][89a-fA-F]", text)
    if half is None:
        return
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        line = text.count("\n", 0, half.start()) + 1
        column = half.start() - text.rfind("\n", 0, half.start())
        raise _invalid(path, "JSON", "half of a surrogate pair", line, column) from None
    except RecursionError:
        raise _invalid(path, "JSON", "it is nested too deeply", 1, 1) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"a number cannot be {name}")


def _invalid(path: Path, kind: str, message: str, line: int, column: int) -> ConfigError:
    reason = message[:1].lower() + message[1:]
    at, problem = f":{line}:{column}", f"is not valid {kind}: {reason}"
    mistakes = (FileMistake(line, "", problem),)
    return ConfigError(f"{shown(path)}{at} {problem}.", None, f"{path}{at}", mistakes)


def nulls(data: object, at: Place = ()) -> list[Mistake]:
    """Find null values: in our files, a key without a value is left out."""
    if data is None:
        return [Mistake(at, "is null; leave it out")]
    if not isinstance(data, dict | list) or len(at) > 4:
        return []
    container = cast("dict[str, object] | list[object]", data)
    parts = container.items() if isinstance(container, dict) else enumerate(container)
    return [mistake for key, value in parts for mistake in nulls(value, (*at, key))]
