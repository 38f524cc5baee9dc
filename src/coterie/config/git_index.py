"""What git tracks below a folder, read from its index as data: git itself is not run.

All versions of the format are read, split indexes too, and those of every repository around the
folder, as each of them may write there.  An index that cannot be read might track anything.
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
_HASHES = (20, 32)
"""The length of an object's id: SHA-1, SHA-256."""


@dataclass(frozen=True)
class TrackedFiles:
    """Files that git tracks below a folder."""

    names: tuple[str, ...]
    """As seen from that folder; `.` is the folder itself."""
    digest: str
    """Changes with their names and content."""


def tracked_below(folder: Path) -> TrackedFiles | None:
    """What any repository around a folder tracks as, or below, it and is there; None: nothing."""
    found: dict[str, bytes] = {}
    replaced: list[bytes] = []
    for top in folder.parents:
        git_dir = _git_dir(top)
        place = os.fsencode(folder.relative_to(top))
        for name, entry in _tracked(git_dir, place) if git_dir else ():
            inside = "." if name == _UNREADABLE else os.fsdecode(name[len(place) + 1 :]) or "."
            if not name:
                replaced.append(entry)
            elif os.path.lexists(folder / inside):
                found[inside] = entry
    if not found:
        return None
    digest = hashlib.sha256(b"".join(replaced))
    for name, entry in sorted(found.items()):
        digest.update(b"\0%b\0%b" % (os.fsencode(name), entry))
    return TrackedFiles(tuple(sorted(found)), digest.hexdigest())


def _git_dir(folder: Path) -> Path | None:
    marker = folder / ".git"
    try:
        if stat.S_ISDIR(marker.stat().st_mode):
            return marker
        # A worktree or a submodule: a file that says where its folder is.
        said = _read(marker)[:4096].decode(errors="surrogateescape")
    except (OSError, ValueError):
        return None
    return folder / said.removeprefix("gitdir:").strip()


def _tracked(git_dir: Path, below: bytes) -> Iterator[tuple[bytes, bytes]]:
    try:
        index = _read(git_dir / "index")
        yield from _named(index, below)
        for name in (path.name for path in git_dir.iterdir()):
            prefix, _, shared = name.partition(".")
            # The one that a split index names; others are left to expire.
            if prefix == "sharedindex" and index.find(bytes.fromhex(shared)) >= 0:
                yield from _named(_read(git_dir / name), below)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError):
        yield _UNREADABLE, b""


def _read(path: Path) -> bytes | mmap.mmap:
    """A regular file's content.  Non-blocking: a pipe that nobody writes to cannot hold us up."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no regular file")
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if found.st_size else b""
    finally:
        os.close(descriptor)


def _named(data: bytes | mmap.mmap, below: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries that are `below`, or in it, whatever their case: some disks do not tell."""
    last = re.escape(below.rsplit(b"/", 1)[-1])
    # Searched as a whole, which is quick, unless names are compressed or it is split.
    whole = data[4:8] != b"\0\0\0\4" and data.find(b"link") < 0
    if whole and not re.search(b"(?i)%b" % last, data):
        return
    for hash_size in _HASHES:
        try:
            entries = list(_entries(data, hash_size))
        except (IndexError, ValueError):
            continue
        wanted = below.lower()
        for name, entry in entries:
            # Without a name, it takes the place of one in the shared part: nobody knows which.
            if not name or (name.lower() + b"/").startswith(wanted + b"/"):
                yield name, entry
        return
    yield _UNREADABLE, b""


def _entries(data: bytes | mmap.mmap, hash_size: int) -> Iterator[tuple[bytes, bytes]]:
    """Each entry's name, and its mode and object.  Raises where that is not what the data holds.

    See gitformat-index(5).
    """
    version, count = _number(data, 4), _number(data, 8)
    if data[:4] != b"DIRC" or not 2 <= version <= 4:
        raise ValueError("no index that is known")
    at, name = 12, b""
    for _ in range(count):
        flags_at = at + 40 + hash_size
        entry = data[at + 24 : at + 28] + data[at + 40 : flags_at]
        extended = version >= 3 and data[flags_at] & 0x40
        begin = flags_at + (4 if extended else 2)
        keep = b""
        if version == 4:
            strip, begin = _varint(data, begin)
            if strip > len(name):
                raise ValueError("no such prefix")
            keep = name[: len(name) - strip]
        end = data.find(b"\0", begin)
        if end < 0:
            raise ValueError("a name without an end")
        name = keep + data[begin:end]
        # Up to version 3 an entry is padded to a multiple of eight bytes.
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)
        yield name, entry
    _check_rest(data, at, hash_size)


def _check_rest(data: bytes | mmap.mmap, at: int, hash_size: int) -> None:
    """After the entries there are extensions, each with its length, and a checksum."""
    while at < len(data) - hash_size:
        at += 8 + _number(data, at + 4)
    if at != len(data) - hash_size:
        raise ValueError("it ends elsewhere")


def _number(data: bytes | mmap.mmap, at: int) -> int:
    part = data[at : at + 4]
    if len(part) < 4:
        raise ValueError("it ends too early")
    return int.from_bytes(part, "big")


def _varint(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
