"""Where a folder's git repository is, as git finds it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from coterie.tools.permission.paths import is_below


def plain_repository(folder: str) -> bool:
    """Whether git would not treat a folder of ordinary files as a repository.

    Such a repository can be made of plain files, and its settings name programs that git runs.
    """
    for each in _with_parents(folder):
        if _is_git_folder(each):
            return False
        if _holds_repository(each):
            return True
    return True


def repository_of(folder: str) -> str:
    """Return the top folder of the repository that git would find from a folder, or that folder."""
    return next(filter(_holds_repository, _with_parents(folder)), folder)


def in_repository(folder: str) -> bool:
    """Whether git would find a repository from a folder."""
    return any(map(_holds_repository, _with_parents(folder)))


def _with_parents(folder: str) -> Iterator[str]:
    yield folder
    while folder != "/":
        folder = folder.rpartition("/")[0] or "/"
        yield folder


def _holds_repository(folder: str) -> bool:
    """Whether git goes no further up: a `.git` that is not a repository it passes over."""
    inside = f"{folder}/.git"
    if os.path.isdir(inside):  # noqa: PTH112 - Path minds a long name
        return _is_git_folder(inside)
    return os.path.lexists(inside)


def _is_git_folder(folder: str) -> bool:
    return all(os.path.lexists(f"{folder}/{name}") for name in ("HEAD", "objects", "refs"))


def repository_above(folder: str, root: str) -> bool:
    """Whether the repository of a folder lies above the work folder, and so is not part of it."""
    return not is_below(repository_of(folder), root)
