"""Find what git tracks below a folder by parsing git's index; git itself is not run.

Every version of the format is supported, including split indexes.  The index of each enclosing
repository is read, as each may write there.  An unreadable index might track anything.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_UNREADABLE = b"an index of git that cannot be read"
_COMPRESSED = b"\0\0\0\4"
"""Version 4, which stores each name as a difference from the one before it."""
_SHARED = "sharedindex."
_HASHES = (20, 32)
"""The lengths of an object id: SHA-1, SHA-256."""


@dataclass(frozen=True)
class TrackedFiles:
    """Files that git tracks below a folder."""

    names: tuple[str, ...]
    """Relative to that folder; `.` is the folder itself."""
    digest: str
    """Changes with their names and content."""


def tracked_below(folder: Path) -> TrackedFiles | None:
    """What exists and is tracked by an enclosing repository, as the folder or below it.

    None if there is nothing.
    """
    entries: dict[str, bytes] = {}
    replaced: list[bytes] = []
    for top in folder.parents:
        git_dir = _git_dir(top)
        place = os.fsencode(folder.relative_to(top))
        for name, entry in _tracked(git_dir, place) if git_dir else ():
            inside = "." if name == _UNREADABLE else os.fsdecode(name[len(place) + 1 :]) or "."
            if not name:
                replaced.append(entry)
            elif os.path.lexists(folder / inside):
                entries[inside] = entry
    if not entries:
        return None
    digest = hashlib.sha256(b"".join(replaced))
    for name, entry in sorted(entries.items()):
        digest.update(b"\0%b\0%b" % (os.fsencode(name), entry))
    return TrackedFiles(tuple(sorted(entries)), digest.hexdigest())


def _git_dir(folder: Path) -> Path | None:
    marker = folder / ".git"
    try:
        if stat.S_ISDIR(marker.stat().st_mode):
            return marker
        # In a worktree or a submodule, `.git` is a file that names the git directory.
        content = _read(marker)[:4096].decode(errors="surrogateescape")
    except (OSError, ValueError):
        return None
    return folder / content.removeprefix("gitdir:").strip()


def _tracked(git_dir: Path, below: bytes) -> Iterator[tuple[bytes, bytes]]:
    try:
        index = _read(git_dir / "index")
        # A split index names its shared part; outdated shared parts stay in the folder.
        there = (path for path in git_dir.iterdir() if path.name.startswith(_SHARED))
        shared = [path for path in there if index.find(_hash_in(path.name)) >= 0]
        yield from _named(index, below, is_split=bool(shared))
        for path in shared:
            yield from _named(_read(path), below)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError):
        yield _UNREADABLE, b""


def _hash_in(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_SHARED))


def _read(path: Path) -> bytes | mmap.mmap:
    """A regular file's content.  Non-blocking: opening a pipe without a writer would hang."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if status.st_size else b""
    finally:
        os.close(descriptor)


def _named(
    data: bytes | mmap.mmap, below: bytes, *, is_split: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """The entries for `below` or inside it, in any case: some file systems ignore case."""
    last = re.escape(below.rsplit(b"/", 1)[-1])
    # Quick check: search the raw data, unless names are compressed or the index is split.
    if data[4:8] != _COMPRESSED and not is_split and not re.search(b"(?i)%b" % last, data):
        return
    wanted = below.lower()
    for hash_size in _HASHES:
        matches: list[tuple[bytes, bytes]] = []
        try:
            for name, entry in _entries(data, hash_size):
                # An entry without a name replaces one in the shared part: which one is unknown.
                if not name or (name.lower() + b"/").startswith(wanted + b"/"):
                    matches.append((name, entry))
                # Entries are sorted, except in a split index.
                if not is_split and name > wanted + b"0":
                    break
        except (IndexError, ValueError):
            continue
        yield from matches
        return
    yield _UNREADABLE, b""


def _entries(data: bytes | mmap.mmap, hash_size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each entry's name, and its mode and object id.  Raises if the data does not fit.

    See gitformat-index(5).
    """
    version, count = _number(data, 4), _number(data, 8)
    if data[:4] != b"DIRC" or not 2 <= version <= 4:
        raise ValueError("no index that is known")
    at, name = 12, b""
    for _ in range(count):
        flags_at = at + 40 + hash_size
        entry = data[at + 24 : at + 28] + data[at + 40 : flags_at]
        flags = data[flags_at] << 8 | data[flags_at + 1]
        begin = flags_at + (4 if version >= 3 and flags & 0x4000 else 2)
        keep = b""
        if version == 4:
            strip, begin = _varint(data, begin)
            keep = name[: len(name) - strip]
        end = data.find(b"\0", begin)
        name = keep + data[begin:end]
        # A wrong guess of the id length shows up here.
        if end < 0 or flags & 0xFFF != min(len(name), 0xFFF):
            raise ValueError("a name of another length")
        # Up to version 3 an entry is padded to a multiple of eight bytes.
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        yield name, entry


def _number(data: bytes | mmap.mmap, at: int) -> int:
    part = data[at : at + 4]
    if len(part) < 4:
        raise ValueError("it ends too early")
    return int.from_bytes(part, "big")


def _varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """Decode a variable-length number; returns it and the offset after it."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
