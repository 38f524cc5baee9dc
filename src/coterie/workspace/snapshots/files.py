"""Reading and changing files inside one folder, never through a link and never half a file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.model.workspace import unfinished_name
from coterie.workspace.snapshots.capture import LARGE, NEVER

LINK, EXECUTABLE, PLAIN = "120000", "100755", "100644"
"""The modes of files, in git's words."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Nothing is there, or the way there leads through a link or a file."""


@dataclass(frozen=True)
class FileContent:
    """A file as it is: its mode, and its content or where it links to."""

    mode: str
    data: bytes


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder; paths are as git writes them.  Any OSError says why it cannot be."""

    folder: Path

    def read(self, path: str) -> FileContent | None:
        """What is at a path; None if there is nothing, or a folder."""
        try:
            with self._place(path) as (parent, name):
                return _read(parent, name)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def write(self, path: str, entry: FileContent) -> None:
        """Put a file or link in place, with the folders it needs; its permissions are kept."""
        with self._place(path, make=True) as (parent, name):
            fresh = unfinished_name()
            try:
                if entry.mode == LINK:
                    os.symlink(entry.data, fresh, dir_fd=parent)
                else:
                    _write(parent, name, fresh, entry)
                os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=parent)
                raise

    def remove(self, path: str) -> None:
        """Remove a file or link."""
        with self._place(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_empty(self, path: str) -> bool:
        """Remove a folder; False if something is in it."""
        try:
            with self._place(path) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
        return True

    @contextmanager
    def _place(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The folder that a path is in, opened, and the last part of its name."""
        *parents, name = path.split("/")
        if not {"", ".", "..", *NEVER}.isdisjoint((*parents, name)):
            raise OSError(errno.EPERM, "not a name that is ever changed")
        here = os.open(self.folder, _FOLDER)
        try:
            for part in parents:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                inner = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = inner
            yield here, name
        finally:
            os.close(here)


def _read(parent: int, name: str) -> FileContent | None:
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode):
        return None
    if stat.S_ISLNK(facts.st_mode):
        return FileContent(LINK, os.fsencode(os.readlink(name, dir_fd=parent)))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if facts.st_size > LARGE:
        raise OSError(errno.EFBIG, f"it is over {LARGE // 1_000_000} MB")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        mode = EXECUTABLE if facts.st_mode & stat.S_IXUSR else PLAIN
        return FileContent(mode, file.read())


def _write(parent: int, name: str, fresh: str, entry: FileContent) -> None:
    runs = entry.mode == EXECUTABLE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(fresh, flags, 0o777 if runs else 0o666, dir_fd=parent)
    with os.fdopen(made, "wb") as file:
        file.write(entry.data)
        with suppress(FileNotFoundError):
            old = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISREG(old):
                os.fchmod(made, _permissions(stat.S_IMODE(old), runs=runs))


def _permissions(old: int, *, runs: bool) -> int:
    """Permissions as they were, but for who may run it."""
    if not runs:
        return old & ~0o111
    return old if old & stat.S_IXUSR else old | (old & 0o444) >> 2
