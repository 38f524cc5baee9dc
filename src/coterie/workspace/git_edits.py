"""Edits in git directories that others may be writing to, never through a link.

All calls block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from coterie.workspace.beneath import open_folder_below, read_regular, remove_tree, replace_file

_LARGEST = 1_000_000
"""Bytes; no file that git obeys is larger."""
_PLAIN = 0o644


class GitEdits:
    """Edits below a work folder and git directories elsewhere, which follow no links on the way.

    A command may have locked folders: they are unlocked, as far as they are ours.
    """

    def __init__(self, root: Path, git_dirs: Iterable[Path]) -> None:
        self.edited: list[Path] = []
        """The edited paths."""
        self.failed: list[Path] = []
        """What could not be edited or listed."""
        self._bases = [root, *git_dirs]

    def remove(self, path: Path) -> None:
        """Remove whatever is at a path."""

        def remove(folder: int) -> None:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode):
                remove_tree(path.name, dir_fd=folder)
            else:
                os.unlink(path.name, dir_fd=folder)

        self._edit(path, remove)

    def write(self, path: Path, data: bytes, mode: int = _PLAIN) -> None:
        """Write a file, replacing whatever is at its path."""
        if is_folder(path):
            self.remove(path)
        self._edit(path, lambda folder: replace_file(folder, path.name, data, mode=mode), make=True)

    def link(self, path: Path, target: str) -> None:
        """Create a link, replacing whatever is at its path."""
        self.remove(path)
        self._edit(path, lambda folder: os.symlink(target, path.name, dir_fd=folder), make=True)

    def names_of(self, folder: Path) -> list[str]:
        """List a folder, unlocked if need be; empty if there is none."""
        try:
            if is_locked(folder.lstat()):
                unlock(self._base_of(folder), folder)
            return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            self.failed.append(folder)
            return []

    def _base_of(self, path: Path) -> Path:
        return next(base for base in self._bases if path.is_relative_to(base))

    def _edit(self, path: Path, change: Callable[[int], None], *, make: bool = False) -> None:
        """Make a change in the folder that contains a path, and record how it went."""
        base = self._base_of(path)
        above = path.relative_to(base).parts[:-1]
        try:
            with open_folder_below(base, above, make=make, unlock=True) as folder:
                change(folder)
        except FileNotFoundError:
            return  # git finds nothing there either
        except OSError:
            self.failed.append(path)
        else:
            self.edited.append(path)


_LISTABLE = stat.S_IRUSR | stat.S_IXUSR


def is_locked(facts: os.stat_result) -> bool:
    """Whether this is a folder that its owner cannot list or enter."""
    return stat.S_ISDIR(facts.st_mode) and facts.st_mode & _LISTABLE != _LISTABLE


def unlock(base: Path, folder: Path) -> None:
    """Give us access to a folder below `base`; raises PermissionError unless it is ours."""
    with open_folder_below(base, folder.relative_to(base).parts, unlock=True):
        pass


def is_folder(path: Path) -> bool:
    """Whether a path is a folder and not a link to one."""
    with suppress(OSError):
        return stat.S_ISDIR(path.lstat().st_mode)
    return False


def names_of(folder: Path) -> list[str]:
    """List a folder; empty if there is none."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def bytes_of(path: Path) -> bytes | None:
    """Return a file's contents or a link's target; None for anything else, and for large files."""
    with suppress(OSError):
        if path.is_symlink():
            return os.fsencode(path.readlink())
        return read_regular(path, _LARGEST)
    return None
