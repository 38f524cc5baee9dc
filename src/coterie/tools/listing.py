"""The files of a folder that a person would count: as git knows them, else by a walk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from coterie.errors import GitFailed
from coterie.tools.ground import COTERIE, GIT, Ground
from coterie.workspace.git import Git, repository_of

MOST_FILES = 50_000
PATIENCE = 20.0
IGNORED = frozenset(
    {
        COTERIE,
        GIT,
        ".hg",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
    }
)
"""Folders that hold nothing a person wrote."""


def files_below(ground: Ground, folder: int, path: str) -> list[str]:
    """The files below a folder that is open, by their paths from it; blocks."""
    # Git knows nothing of Coterie's own folder, of which a member may see its part.
    listed = [] if COTERIE in path.split("/") else list(_by_git(ground, path))
    return sorted(listed or islice(_by_walk(folder), MOST_FILES))


def _by_git(ground: Ground, path: str) -> Iterator[str]:
    """What git tracks or would; nothing where there is no repository, or all is ignored."""
    repository = repository_of(ground.root)
    if repository is None:
        return
    top = (ground.root / path).relative_to(repository.folder.resolve())
    prefix = "" if top == Path() else f"{top}/"
    for name in islice(_told(repository, str(top)), MOST_FILES):
        if os.path.lexists(repository.folder / name):  # tracked, and deleted meanwhile
            yield name.removeprefix(prefix)


def _told(repository: Git, folder: str) -> Iterator[str]:
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        told = repository.run(*words, "--", f":(literal){folder}", patience=PATIENCE)
    except GitFailed:
        return  # not installed, or not to be trusted: then we look ourselves
    yield from (name for name in told.split("\0") if name)


def _by_walk(folder: int) -> Iterator[str]:
    for place, folders, names, _ in os.fwalk(".", dir_fd=folder):
        folders[:] = [name for name in folders if name not in IGNORED]
        yield from (str(Path(place, name)) for name in names)


def folded(files: list[str], most: int) -> list[str]:
    """The files, or where there are too many the folders they are in, as deep as there is room."""
    depth = max((name.count("/") for name in files), default=0)
    lines = Counter(files)
    while len(lines) > most and depth > 0:
        depth -= 1
        lines = Counter(_at_depth(name, depth) for name in files)
    return sorted(
        f"{name} ({count:,} files)" if name.endswith("/") else name for name, count in lines.items()
    )


def _at_depth(name: str, depth: int) -> str:
    parts = name.split("/")
    return name if len(parts) <= depth + 1 else "/".join(parts[: depth + 1]) + "/"
