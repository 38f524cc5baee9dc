"""listFiles: the files below a folder as git knows them, else by walking it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from coterie.errors import GitFailed
from coterie.model.action import Action
from coterie.tools.excerpt import truncated, visible
from coterie.tools.toolbox import ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_root import COTERIE, GIT, WorkspaceRoot
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


def files_below(root: WorkspaceRoot, folder: int, path: str) -> list[str]:
    """The files below a folder that is open, by their paths from it; blocks."""
    # Git knows nothing of Coterie's own folder, of which a member may see its part.
    listed = [] if COTERIE in path.split("/") else list(_by_git(root, path))
    return sorted(listed or islice(_by_walk(folder), MOST_FILES))


def _by_git(root: WorkspaceRoot, path: str) -> Iterator[str]:
    """What git tracks or would; nothing where there is no repository, or all is ignored."""
    repository = repository_of(root.path)
    if repository is None:
        return
    top = (root.path / path).relative_to(repository.folder.resolve())
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


MOST_LINES = 800


class ListFilesInput(ToolInput):
    """Where to look."""

    path: Utf8Text = Field(".", description="The folder, from the top of the workspace.")


@dataclass(frozen=True)
class ListFiles:
    """Shows a member the files of a folder, and of the folders in it."""

    root: WorkspaceRoot

    name = "listFiles"
    description = (
        "List the files in a folder and below it, without those that git ignores. "
        "Where there are too many, folders are shown with the number of their files."
    )
    inputs = ListFilesInput
    read_only = True

    def action(self, given: Mapping[str, object], cwd: str) -> Action:
        """Looks at one folder."""
        return Action("read", self.name, cwd, paths=(str(given["path"]),), confined=True)

    async def run(self, given: Mapping[str, object]) -> ToolOutcome:
        """The paths, from the folder that was asked for."""
        asked = ListFilesInput.model_validate(given)
        return await anyio.to_thread.run_sync(self._list, asked.path)

    def _list(self, path: str) -> ToolOutcome:
        with self.root.resolve(path) as place:
            folder = place.open_folder()
            try:
                files = files_below(self.root, folder, place.path)
            finally:
                os.close(folder)
        lines = folded(files, MOST_LINES)
        count = f"more than {MOST_FILES:,}" if len(files) >= MOST_FILES else f"{len(files):,}"
        text = truncated(visible("\n".join(lines)))
        return ToolOutcome({"path": place.path, "count": count, "files": text})
