"""listFiles: the files below a folder as git knows them, else by walking it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import Field

from coterie.errors import GitFailed
from coterie.tools.excerpt import truncated, visible
from coterie.tools.toolbox import Tool, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_root import COTERIE, GIT, WorkspaceRoot
from coterie.workspace.git import Git, repository_of

MOST_FILES = 50_000
GIT_TIMEOUT = 20.0
_CACHES = ".hg .mypy_cache .pytest_cache .ruff_cache .svn .tox .venv __pycache__ node_modules"
IGNORED = frozenset({COTERIE, GIT, *_CACHES.split()})
"""Folders that hold nothing a person wrote."""


def files_below(root: WorkspaceRoot, folder: int, path: str) -> list[str]:
    """The files below an open folder, by their paths from it; blocks."""
    # Git ignores Coterie's own folder, of which a member may see its part.
    listed = [] if COTERIE in path.split("/") else list(_by_git(root, path))
    return sorted(listed or islice(_by_walk(folder), MOST_FILES))


def _by_git(root: WorkspaceRoot, path: str) -> Iterator[str]:
    """What git tracks or would track; nothing without a repository, or where all is ignored."""
    repository = repository_of(root.path)
    if repository is None:
        return
    top = (root.path / path).relative_to(repository.folder.resolve())
    prefix = "" if top == Path() else f"{top}/"
    for name in islice(_listed_by_git(repository, str(top)), MOST_FILES):
        if os.path.lexists(repository.folder / name):  # tracked, and deleted meanwhile
            yield name.removeprefix(prefix)


def _listed_by_git(repository: Git, folder: str) -> Iterator[str]:
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    try:
        told = repository.run(*words, "--", f":(literal){folder}", patience=GIT_TIMEOUT)
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


MOST_LINES = 800


class ListFilesInput(ToolInput):
    """List the files in a folder and below it, without those that git ignores. Where there are too
    many, folders are shown with the number of their files."""

    path: Utf8Text = Field(".", description="The folder, from the top of the workspace.")


@dataclass(frozen=True)
class ListFiles(Tool[ListFilesInput]):
    """Shows a member the files of a folder, and of the folders in it."""

    root: WorkspaceRoot

    name = "listFiles"
    inputs = ListFilesInput

    def _run(self, asked: ListFilesInput) -> ToolOutcome:
        with self.root.resolve(asked.path) as place:
            folder = place.open_folder()
            try:
                files = files_below(self.root, folder, place.path)
            finally:
                os.close(folder)
        lines = folded(files, MOST_LINES)
        count = f"more than {MOST_FILES:,}" if len(files) >= MOST_FILES else f"{len(files):,}"
        text = truncated(visible("\n".join(lines)))
        return ToolOutcome({"path": place.path, "count": count, "files": text})
