"""Finding every git directory in a folder: by its name, `.git`, or by its contents.

All calls block.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from coterie.workspace.beneath import open_folder_below
from coterie.workspace.git_edits import is_locked, unlock
from coterie.workspace.worktree import POINTER

_COTERIE = ".coterie"
_CTIME_RELIABLE_AFTER = 100_000_000
"""Nanoseconds after which a folder's ctime reliably reveals a later change."""


class GitDirectories(NamedTuple):
    """What was found below a folder."""

    paths: list[Path]
    unreadable: list[Path]
    """Folders that may contain more: another user's, or nested too deeply for any path."""


def git_directories(root: Path) -> GitDirectories:
    """Find every `.git` below a folder, and every folder whose contents make it a repository.

    Folders of ours that we may not read are made readable, until `lock_again`: a command may have
    locked them.
    """
    paths, unreadable = ([Path(path) for path in listed] for listed in _tree_of(root).find())
    return GitDirectories(paths, unreadable)


def lock_again(root: Path) -> None:
    """Give folders that were made readable the permissions back that they had."""
    _tree_of(root).lock_again()


def _is_repository(names: set[str]) -> bool:
    """Whether git takes a folder with these entries for a repository, whatever its name."""
    return "HEAD" in names and ("commondir" in names or names >= {"objects", "refs"})


@dataclass(frozen=True)
class _Folder:
    changed: int
    """Its ctime, 0 if it cannot be relied on; changes inside subfolders do not affect it."""
    folders: tuple[str, ...]
    git: tuple[str, ...]


class _Tree:
    """A folder and everything below it; unchanged folders are not read again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Folder] = {}
        self._unlocked: dict[str, int] = {}
        """Folders that were made readable, and the permissions that they had."""
        self._lock = threading.Lock()

    def find(self) -> tuple[list[str], list[str]]:
        repositories: list[str] = []
        unreadable: list[str] = []
        reached: dict[str, _Folder] = {}
        stack = [self._root]
        with self._lock:
            # No limit: otherwise a command could hide a repository by creating many folders.
            while stack:
                path = stack.pop()
                try:
                    folder = reached[path] = self._read(path)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError:
                    unreadable.append(path)
                    continue
                repositories += folder.git
                stack += folder.folders
            self._known = reached
        return repositories, unreadable

    def lock_again(self) -> None:
        with self._lock:
            while self._unlocked:
                path, mode = self._unlocked.popitem()  # inner folders before those around them
                names = Path(path).relative_to(self._root).parts
                with suppress(OSError), open_folder_below(Path(self._root), names) as folder:
                    os.fchmod(folder, mode)

    def _read(self, path: str) -> _Folder:
        facts = os.lstat(path)
        if is_locked(facts):
            unlock(Path(self._root), Path(path))
            self._unlocked[path] = stat.S_IMODE(facts.st_mode)
            facts = os.lstat(path)
        changed = facts.st_ctime_ns
        known = self._known.get(path)
        if known is not None and known.changed == changed:
            return known
        folders: list[str] = []
        git: list[str] = []
        names: set[str] = set()
        with os.scandir(path) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.name == POINTER:
                    git.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        if path == self._root:
            # Ours, and hidden from commands; a folder of that name elsewhere gets no exception.
            folders = [folder for folder in folders if folder != f"{path}/{_COTERIE}"]
        elif _is_repository(names):
            return _Folder(0, tuple(folders), (*git, path))
        settled = time.time_ns() - changed > _CTIME_RELIABLE_AFTER
        return _Folder(changed if settled else 0, tuple(folders), tuple(git))


_trees: dict[Path, _Tree] = {}


def _tree_of(root: Path) -> _Tree:
    return _trees.setdefault(root, _Tree(str(root)))
