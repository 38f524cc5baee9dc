"""Workspace files: paths that cannot leave the workspace, and texts as they are on disk.

A path is resolved name by name, each opened relative to the folder that is already open and never
through a link; a link is read and resolved in the same way.  The file itself is opened in the last
of these folders, so no check can be outdated by then.  All of it blocks.
"""

from __future__ import annotations

import codecs
import difflib
import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from coterie.tools import scan

COTERIE, GIT = ".coterie", ".git"
NEVER_EDITED = frozenset({COTERIE, GIT})
MAX_LINKS = 40
"""As many as the kernel follows."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PROBLEMS = {
    errno.ELOOP: "became a link while it was being opened: try again",
    errno.ENOTDIR: "is not a folder",
    errno.ENXIO: "is a device or a pipe, not a file",
}


class ToolError(Exception):
    """A tool refuses what it was asked to do; the message says why, and what to do instead."""


class MissingFolder(ToolError):
    """A folder in the path does not exist and was not to be created."""


@dataclass(frozen=True)
class PathEntry:
    """A name in an open folder of the workspace; the file itself may not exist."""

    folder: int
    name: str
    path: str
    """Its path from the top of the workspace, with links resolved."""

    def open_file(self) -> BinaryIO:
        """Open the file for reading; raises ToolError unless it is a regular file."""
        try:
            # Does not block on a pipe that nobody writes to.
            fd = self._open(os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise ToolError(f"There is no file {self.path}.{self._near()}") from None
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return os.fdopen(fd, "rb")
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise ToolError(f"{self.path} is a folder: use listFiles to see what is in it.")
        raise ToolError(f"{self.path} {_PROBLEMS[errno.ENXIO]}.")

    def open_folder(self) -> int:
        """Open the folder; the caller closes the descriptor."""
        try:
            return self._open(_FOLDER)
        except FileNotFoundError:
            raise ToolError(f"There is no folder {self.path}.{self._near()}") from None

    def exists(self) -> bool:
        """Whether it exists now, if only as a link."""
        return self._mode() is not None

    def is_folder(self) -> bool:
        mode = self._mode()
        if mode is None:
            raise ToolError(f"There is no {self.path}.{self._near()}")
        return stat.S_ISDIR(mode)

    def _mode(self) -> int | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def _open(self, flags: int) -> int:
        try:
            return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.folder)
        except OSError as error:
            if error.errno in _PROBLEMS:
                raise ToolError(f"{self.path} {_PROBLEMS[error.errno]}.") from error
            raise

    def _near(self) -> str:
        with os.scandir(self.folder) as entries:
            near = difflib.get_close_matches(self.name, [entry.name for entry in entries], 3)
        above = self.path[: -len(self.name)]
        return f" Similar: {', '.join(above + name for name in near)}." if near else ""


@dataclass
class _Descent:
    """The open folders, from the top down, and their names."""

    folders: list[int]
    make: bool
    names: list[str] = field(default_factory=list[str])

    def link(self, name: str) -> str | None:
        """The target of a link; None if it is no link or does not exist."""
        try:
            return os.readlink(name, dir_fd=self.folders[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def down(self, name: str) -> None:
        if self.make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.folders[-1])
        self.folders.append(os.open(name, _FOLDER, dir_fd=self.folders[-1]))
        self.names.append(name)

    def up(self) -> bool:
        if not self.names:
            return False
        os.close(self.folders.pop())
        self.names.pop()
        return True

    def path(self, name: str) -> str:
        return "/".join([*self.names, *([] if name == "." else [name])]) or "."


@dataclass(frozen=True)
class WorkspaceRoot:
    """The top folder of one member's workspace, which its file tools cannot leave."""

    path: Path
    """With links resolved."""
    alias: Path
    """As given, which may be through a link."""
    readable_private: tuple[str, ...] = ()
    """The paths below `.coterie` that may be read."""

    @classmethod
    def at(cls, folder: Path, readable_private: Sequence[Path] = ()) -> WorkspaceRoot:
        """The workspace in this folder; of `.coterie` only `readable_private` may be read."""
        root = folder.resolve(strict=True)
        real = [path.resolve() for path in readable_private]
        inside = [path.relative_to(root) for path in real if path.is_relative_to(root)]
        return cls(root, folder.absolute(), tuple(str(path) for path in inside))

    @contextmanager
    def resolve(
        self, path: str, *, writing: bool = False, make: bool = False
    ) -> Generator[PathEntry]:
        """Resolve a path; raises ToolError if it leads outside or to what tools must not touch.

        With `make`, missing folders on the way are created.
        """
        walk = _Descent([os.open(self.path, _FOLDER)], make)
        try:
            name = self._follow(walk, path, writing=writing)
            place = PathEntry(walk.folders[-1], name, walk.path(name))
            if not (writing or self.may_read(place.path)):
                raise ToolError(f"{place.path} belongs to Coterie and is off limits to tools.")
            yield place
        finally:
            for folder in walk.folders:
                os.close(folder)

    def may_read(self, path: str) -> bool:
        if COTERIE not in path.casefold().split("/"):
            return True
        return any(path == one or path.startswith(f"{one}/") for one in self.readable_private)

    def _follow(self, walk: _Descent, path: str, *, writing: bool) -> str:
        """Open the folders up to the last name, which is returned."""
        remaining, links = deque(self._parts(path, path)), 0
        while remaining:
            part = remaining.popleft()
            if writing and part.casefold() in NEVER_EDITED:
                raise ToolError(f"{path} is in {part}, which must not be edited.")
            if part == "..":
                if not walk.up():
                    raise self._outside(path)
            elif (target := walk.link(part)) is not None:
                links += 1
                if links > MAX_LINKS:
                    raise ToolError(f"{path} leads through too many links.")
                remaining.extendleft(reversed(self._through(walk, target, path)))
            elif remaining:
                self._down(walk, part, path)
            else:
                return part
        return "."

    def _through(self, walk: _Descent, target: str, path: str) -> list[str]:
        """Return the names that a link adds; an absolute one starts over from the top."""
        if not target.startswith("/"):
            return _split(target)
        parts = self._parts(target, path)
        while walk.up():
            pass
        return parts

    def _down(self, walk: _Descent, part: str, path: str) -> None:
        if len(walk.names) >= scan.DEEPEST:
            raise ToolError(f"{path} is nested too deeply.")
        try:
            walk.down(part)
        except FileNotFoundError:
            raise MissingFolder(f"There is no folder {walk.path(part)} (for {path}).") from None
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise ToolError(f"{walk.path(part)} is not a folder (for {path}).") from None
            raise

    def _parts(self, path: str, asked: str) -> list[str]:
        if not path or "\0" in path:
            raise ToolError("A path cannot be empty or contain a NUL.")
        if not path.startswith("/"):
            return _split(path)
        for top in (self.path, self.alias):
            if Path(path).is_relative_to(top):
                return _split(str(Path(path).relative_to(top)))
        raise self._outside(asked)

    def _outside(self, path: str) -> ToolError:
        return ToolError(
            f"{path} leads outside the workspace, {self.path}. "
            "Paths are relative to it and must stay inside."
        )


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


MAX_WHOLE_FILE_BYTES = 16 * 1024 * 1024
"""A larger file is only read in parts, and never edited."""
SNIFFED = 8192
"""A NUL in this many first bytes makes a file binary."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose BOM it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class TextFile:
    """The text of a file with its line endings, encoding and byte order mark."""

    text: str
    """Bytes that are not UTF-8 appear as lone surrogates and are written back unchanged."""
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def read(cls, data: bytes) -> TextFile | None:
        """Decode a file; None if it is binary."""
        for bom, encoding in _BOMS:
            if data.startswith(bom):
                try:
                    return cls(data[len(bom) :].decode(encoding), encoding, bom)
                except UnicodeDecodeError:
                    break
        if b"\0" in data[:SNIFFED]:
            return None
        return cls(data.decode("utf-8", "surrogateescape"))

    @property
    def newline(self) -> str:
        """The line ending that most of its lines have."""
        windows = self.text.count("\r\n")
        return "\r\n" if windows > self.text.count("\n") - windows else "\n"

    @property
    def fully_decoded(self) -> bool:
        """Whether every byte of it is part of a character."""
        return self.text.isascii() or not any("\udc80" <= one <= "\udcff" for one in self.text)

    def encode(self, text: str) -> bytes:
        """Encode another text in the same encoding."""
        return self.bom + text.encode(self.encoding, "surrogateescape")

    def with_its_newlines(self, text: str) -> str:
        """Convert a text from elsewhere to the line endings of this file."""
        return text.replace("\r\n", "\n").replace("\n", self.newline)


def digest(data: bytes) -> str:
    """Return a digest that tells whether a file is still the one that was read."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass
class FileVersions:
    """The versions of files that a member has read, so that it never edits one it does not know."""

    digests: dict[str, str] = field(default_factory=dict[str, str])
    lock: Lock = field(default_factory=Lock)
    """Held while a file is changed, so that two calls at once do not lose each other's work."""

    def record(self, path: str, digest: str) -> None:
        """Record that the member has read this version; also restores the state after a restart."""
        self.digests[path] = digest

    def is_stale(self, path: str, digest: str) -> bool:
        """Whether the file has changed since it was read; one never read is not stale."""
        return self.digests.get(path, digest) != digest
