"""Taking a snapshot of a folder: of the files that the user's git would show, but for a few.

Where the folder is in a repository, that says what is ignored; else the `.gitignore` files do.
Never stored: `.git` and `.coterie`, wherever they are; what is in a repository inside the folder,
which has snapshots of its own; files that are very large or cannot be read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coterie.errors import GitFailed
from coterie.model.workspace import UNFINISHED
from coterie.workspace.git import CHECKOUT, Git
from coterie.workspace.snapshots.repository import (
    NO_FILES,
    REPOSITORY,
    ChangeSpan,
    ExcludedFile,
    Snapshot,
    SnapshotRepository,
)
from coterie.workspace.worktree import Worktree, top_of

LARGE = 20_000_000
"""Files over this many bytes are excluded."""
NEVER = frozenset({".git", ".coterie"})

_MANY = 500
"""So many new files go into one pack, which is faster to write and half as large."""
_PACKED = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "core.compression",
    "GIT_CONFIG_VALUE_1": "1",
}
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")


def take_snapshots(repository: SnapshotRepository, folder: Path) -> list[Snapshot]:
    """Snapshots of a folder, then of every repository inside it; the lock is held."""
    try:
        first = _take_one(repository, folder)
    except GitFailed as failed:
        if failed.status is None:
            raise
        # A file may have shrunk while it was read, or an index be no index: once more, anew.
        repository.index(folder).unlink(missing_ok=True)
        first = _take_one(repository, folder)
    inner = [folder / file.path for file in first.excluded if file.why == REPOSITORY]
    return [first, *(taken for place in inner for taken in take_snapshots(repository, place))]


def _take_one(repository: SnapshotRepository, folder: Path) -> Snapshot:
    index = repository.index(folder)
    # Nobody else is here, so this is what a killed git left.
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    known = set(repository.run("ls-files", "-z", work=folder, env=env).split("\0")[:-1])
    files = _Files(os.fspath(folder), known)
    # A file that was stored once is stored on, even if it is ignored by now: else it would look
    # as if it had been deleted.
    for name in sorted(known | _shown(folder, repository.git(folder), env)):
        files.add(name)
    if gone := [name for name in files.gone if name in known]:
        words = ("update-index", "-z", "--force-remove", "--stdin")
        repository.run(*words, work=folder, input=_lines(gone), env=env)
    if files.stored:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        how = _PACKED if len(files.stored) - len(known) > _MANY else {}
        repository.run(*words, work=folder, input=_lines(files.stored), env={**env, **how})
    tree = repository.run("write-tree", work=folder, env=env).strip()
    return Snapshot(folder, tree, tuple(files.excluded))


def _lines(names: Iterable[str]) -> str:
    return "".join(f"{name}\0" for name in names)


def _shown(folder: Path, ours: Git, env: Mapping[str, str]) -> set[str]:
    names = _shown_by_user(folder)
    if names is None:
        excluded = ("--exclude=.coterie", f"--exclude={UNFINISHED}")
        names = _names(ours.run(*_LIST, *excluded, env=env, patience=CHECKOUT))
    return names


def _shown_by_user(folder: Path) -> set[str] | None:
    """What the repository around a folder shows; None where there is none, or it ignores it."""
    top = top_of(folder)
    if top is None:
        return None
    git, inside = Git(top, Worktree.at(top)), folder.relative_to(top).as_posix()
    try:
        if inside == ".":
            return _names(git.run(*_LIST, patience=CHECKOUT))
        if git.run("check-ignore", f"./{inside}", accept=(0, 1)):
            return None
        output = git.run(*_LIST, "--", f":(literal){inside}", patience=CHECKOUT)
    except GitFailed:
        return None
    return {name.removeprefix(f"{inside}/") for name in _names(output)}


def _names(output: str) -> set[str]:
    return set(output.split("\0")) - {""}


class _Files:
    """The files of a folder, sorted by what becomes of them."""

    def __init__(self, folder: str, known: set[str]) -> None:
        self.stored: list[str] = []
        self.gone: list[str] = []
        """Names that stand for nothing that could be stored."""
        self.excluded: list[ExcludedFile] = []
        self._folder = folder
        self._known = known
        self._plain: dict[str, bool] = {"": True}
        """By folder inside: whether it is one, and no link on the way there."""

    def add(self, name: str) -> None:
        path = name.rstrip("/")
        if not NEVER.isdisjoint(path.split("/")):
            return
        parent = path.rpartition("/")[0]
        facts = self._facts(path) if self._is_plain(parent) else None
        if facts is None:
            self.gone.append(path)
        elif stat.S_ISDIR(facts.st_mode):
            self._add_folder(path)
        else:
            self._add_file(path, facts)

    def _add_file(self, path: str, facts: os.stat_result) -> None:
        why = _why_not(f"{self._folder}/{path}", facts)
        if why is None:
            self.stored.append(path)
            return
        self.gone.append(path)
        if why:
            fingerprint = f"{facts.st_size} {facts.st_mtime_ns}"
            self.excluded.append(ExcludedFile(path, why, fingerprint))

    def _add_folder(self, path: str) -> None:
        self.gone.append(path)
        # Files that were stored before it became a repository are stored on.
        was_none = any(name.startswith(f"{path}/") for name in self._known)
        if not was_none and self._facts(f"{path}/.git") is not None:
            self.excluded.append(ExcludedFile(path, REPOSITORY, ""))

    def _is_plain(self, folder: str) -> bool:
        known = self._plain.get(folder)
        if known is None:
            facts = self._facts(folder) if self._is_plain(folder.rpartition("/")[0]) else None
            known = facts is not None and stat.S_ISDIR(facts.st_mode)
            self._plain[folder] = known
        return known

    def _facts(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self._folder}/{path}")
        except OSError:
            return None


def _why_not(path: str, facts: os.stat_result) -> str | None:
    """Why a file is excluded; None if it is not, empty where that is not worth mentioning."""
    if stat.S_ISLNK(facts.st_mode):
        # The one link that git takes for an attack.
        return "git keeps no such link" if path.lower().endswith("/.gitmodules") else None
    if not stat.S_ISREG(facts.st_mode):
        return ""
    if facts.st_size > LARGE:
        return f"over {LARGE // 1_000_000} MB"
    open_to_all = facts.st_mode & stat.S_IROTH
    return None if open_to_all or os.access(path, os.R_OK) else "cannot be read"


@dataclass(frozen=True)
class CurrentSnapshots:
    """Folders as they are now, each read once; the lock is held."""

    repository: SnapshotRepository
    _seen: dict[Path, Snapshot] = field(default_factory=dict[Path, Snapshot])

    def of(self, span: ChangeSpan) -> Snapshot:
        """What the folder of a span that has no end is now."""
        folder = span.folder
        if folder not in self._seen and folder.is_dir():
            for taken in take_snapshots(self.repository, folder):
                self._seen[taken.folder] = taken
        if folder in self._seen:
            return self._seen[folder]
        # Of a folder that is gone nothing is known; of one inside a folder, that it is gone.
        return Snapshot(folder, NO_FILES) if span.part else span.before.snapshot
