"""Changing files of git directories that others may be writing to: never through a link.

All of it blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from coterie.workspace.beneath import replace_file

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST = 1_000_000
"""Bytes; nothing that git obeys is longer."""
_PLAIN = 0o644


class GitEdits:
    """Edits below a work folder and its git directory, each reached from there without a link.

    What cannot be edited stays as it is.
    """

    def __init__(self, root: Path, own: Path | None) -> None:
        self.made: list[Path] = []
        """What was edited."""
        self._bases = [root, *([own] if own else [])]

    def remove(self, path: Path) -> None:
        """Have nothing there."""
        with suppress(OSError), self._place(path) as folder:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)

    def write(self, path: Path, data: bytes, mode: int = _PLAIN) -> None:
        """Have a file there that holds this."""
        if is_folder(path):
            self.remove(path)
        with suppress(OSError), self._place(path, make=True) as folder:
            replace_file(folder, path.name, data, mode=mode)

    def link(self, path: Path, target: str) -> None:
        """Have a link there that leads to this."""
        self.remove(path)
        with suppress(OSError), self._place(path, make=True) as folder:
            os.symlink(target, path.name, dir_fd=folder)

    @contextmanager
    def _place(self, path: Path, *, make: bool = False) -> Generator[int]:
        """A handle of the folder that something is in."""
        base = next(base for base in self._bases if path.is_relative_to(base))
        here = os.open(base, _FOLDER)
        try:
            for name in path.relative_to(base).parts[:-1]:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                inner = os.open(name, _FOLDER, dir_fd=here)
                os.close(here)
                here = inner
            yield here
            self.made.append(path)
        finally:
            os.close(here)


def is_folder(path: Path) -> bool:
    """Whether it is one, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def names_of(folder: Path) -> list[str]:
    """What is in a folder; nothing where there is none."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def bytes_of(path: Path) -> bytes | None:
    """What a file holds, or where a link leads; None of anything else, and of large files."""
    with suppress(OSError):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return os.fsencode(path.readlink())
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= _LARGEST:
            return path.read_bytes()
    return None
