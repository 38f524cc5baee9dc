"""Edits in git directories that others may be writing to, never through a link.

All calls block.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from coterie.workspace.beneath import open_folder_below, replace_file

_LARGEST = 1_000_000
"""Bytes; no file that git obeys is larger."""
_PLAIN = 0o644


class GitEdits:
    """Edits below a work folder and its git directory, which follow no links on the way.

    What cannot be edited stays as it is.
    """

    def __init__(self, root: Path, own: Path | None) -> None:
        self.edited: list[Path] = []
        """The edited paths."""
        self._bases = [root, *([own] if own else [])]

    def remove(self, path: Path) -> None:
        """Remove whatever is at a path."""
        with suppress(OSError), self._place(path) as folder:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)

    def write(self, path: Path, data: bytes, mode: int = _PLAIN) -> None:
        """Write a file, replacing whatever is at its path."""
        if is_folder(path):
            self.remove(path)
        with suppress(OSError), self._place(path, make=True) as folder:
            replace_file(folder, path.name, data, mode=mode)

    def link(self, path: Path, target: str) -> None:
        """Create a link, replacing whatever is at its path."""
        self.remove(path)
        with suppress(OSError), self._place(path, make=True) as folder:
            os.symlink(target, path.name, dir_fd=folder)

    @contextmanager
    def _place(self, path: Path, *, make: bool = False) -> Generator[int]:
        """Open the folder that contains a path, and record the edit."""
        base = next(base for base in self._bases if path.is_relative_to(base))
        with open_folder_below(base, path.relative_to(base).parts[:-1], make=make) as folder:
            yield folder
            self.edited.append(path)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder and not a link to one."""
    return path.is_dir() and not path.is_symlink()


def names_of(folder: Path) -> list[str]:
    """List a folder; empty if there is none."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def bytes_of(path: Path) -> bytes | None:
    """Return a file's contents or a link's target; None for anything else, and for large files."""
    with suppress(OSError):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return os.fsencode(path.readlink())
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= _LARGEST:
            return path.read_bytes()
    return None
