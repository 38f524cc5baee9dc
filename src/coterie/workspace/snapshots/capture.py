"""Which files of a folder are kept: those that the user's git would show, but for a few.

Where the folder is in a repository, that says what is ignored; else the `.gitignore` files do.
Never kept: `.git` and `.coterie`, wherever they are; what is in a repository inside the folder,
which has snapshots of its own; files that are very large or cannot be read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
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
"""Files over this many bytes are left out."""
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


@dataclass
class Listing:
    """The files of a folder, sorted by what becomes of them."""

    kept: list[str] = field(default_factory=list[str])
    gone: list[str] = field(default_factory=list[str])
    """Names that stand for nothing that could be kept."""
    left_out: list[ExcludedFile] = field(default_factory=list[ExcludedFile])


def listed(folder: Path, ours: Git, known: Iterable[str], env: dict[str, str]) -> Listing:
    """Look at the files of a folder; `known` are the names that were kept last.

    A file that was kept once is kept on, even if it is ignored by now: else it would look as if
    it had been deleted.
    """
    names = _shown_by_user(folder)
    if names is None:
        apart = ("--exclude=.coterie", f"--exclude={UNFINISHED}")
        told = ours.run(*_LIST, *apart, env=env, patience=CHECKOUT)
        names = _names(told)
    found, kept_before = Listing(), set(known)
    sorter = _Sorter(os.fspath(folder), found, kept_before)
    for name in sorted(kept_before | names):
        sorter.sort(name)
    return found


def _shown_by_user(folder: Path) -> set[str] | None:
    """What the repository around a folder says; None where there is none, or it cannot tell."""
    top = top_of(folder)
    if top is None:
        return None
    git, inside = Git(top, Worktree.at(top)), folder.relative_to(top).as_posix()
    try:
        if inside == ".":
            return _names(git.run(*_LIST, patience=CHECKOUT))
        if _ignored(git, inside):
            return None
        told = git.run(*_LIST, "--", f":(literal){inside}", patience=CHECKOUT)
    except GitFailed:
        return None
    return {name.removeprefix(f"{inside}/") for name in _names(told)}


def _ignored(git: Git, inside: str) -> bool:
    try:
        git.run("check-ignore", "--quiet", f"./{inside}")
    except GitFailed as failed:
        if failed.status == 1:
            return False
        raise
    return True


def _names(told: str) -> set[str]:
    return set(told.split("\0")) - {""}


class _Sorter:
    def __init__(self, folder: str, found: Listing, known: set[str]) -> None:
        self._folder = folder
        self._found = found
        self._known = known
        self._plain: dict[str, bool] = {"": True}
        """By folder inside: whether it is one, and no link on the way there."""

    def sort(self, name: str) -> None:
        path = name.rstrip("/")
        if not NEVER.isdisjoint(path.split("/")):
            return
        parent = path.rpartition("/")[0]
        facts = self._facts(path) if self._is_plain(parent) else None
        if facts is None:
            self._found.gone.append(path)
        elif stat.S_ISDIR(facts.st_mode):
            self._folder_in_place(path)
        else:
            self._file(path, facts)

    def _file(self, path: str, facts: os.stat_result) -> None:
        why = _why_not(f"{self._folder}/{path}", facts)
        if why is None:
            self._found.kept.append(path)
            return
        self._found.gone.append(path)
        if why:
            mark = f"{facts.st_size} {facts.st_mtime_ns}"
            self._found.left_out.append(ExcludedFile(path, why, mark))

    def _folder_in_place(self, path: str) -> None:
        self._found.gone.append(path)
        # Files that were kept when it was none yet are kept on.
        was_none = any(name.startswith(f"{path}/") for name in self._known)
        if not was_none and self._facts(f"{path}/.git") is not None:
            self._found.left_out.append(ExcludedFile(path, REPOSITORY, ""))

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
    """Why a file is left out; None if it is not, empty where that is not worth a word."""
    if stat.S_ISLNK(facts.st_mode):
        # The one link that git takes for an attack.
        return "git keeps no such link" if path.lower().endswith("/.gitmodules") else None
    if not stat.S_ISREG(facts.st_mode):
        return ""
    if facts.st_size > LARGE:
        return f"over {LARGE // 1_000_000} MB"
    open_to_all = facts.st_mode & stat.S_IROTH
    return None if open_to_all or os.access(path, os.R_OK) else "cannot be read"


def keep(shadow: SnapshotRepository, folder: Path) -> list[Snapshot]:
    """The files of a folder, then those of every repository inside it; the lock is held."""
    try:
        first = _keep_one(shadow, folder)
    except GitFailed as failed:
        if failed.status is None:
            raise
        # A file may have shrunk while it was read, or an index be no index: once more, anew.
        shadow.index(folder).unlink(missing_ok=True)
        first = _keep_one(shadow, folder)
    inner = [folder / one.path for one in first.left_out if one.why == REPOSITORY]
    return [first, *(kept for place in inner for kept in keep(shadow, place))]


def _keep_one(shadow: SnapshotRepository, folder: Path) -> Snapshot:
    index = shadow.index(folder)
    # Nobody else is here, so this is what a killed git left.
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    known = shadow.run("ls-files", "-z", work=folder, env=env).split("\0")[:-1]
    found = listed(folder, shadow.git(folder), known, env)
    held = set(known)
    gone = [name for name in found.gone if name in held]
    if gone:
        words = ("update-index", "-z", "--force-remove", "--stdin")
        shadow.run(*words, work=folder, input=_lines(gone), env=env)
    if found.kept:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        how = _PACKED if len(found.kept) - len(held) > _MANY else {}
        shadow.run(*words, work=folder, input=_lines(found.kept), env={**env, **how})
    tree = shadow.run("write-tree", work=folder, env=env).strip()
    return Snapshot(folder, tree, tuple(found.left_out))


def _lines(names: Iterable[str]) -> str:
    return "".join(f"{name}\0" for name in names)


@dataclass(frozen=True)
class CurrentSnapshots:
    """Folders as they are now, each looked at once; the lock is held."""

    shadow: SnapshotRepository
    _seen: dict[Path, Snapshot] = field(default_factory=dict[Path, Snapshot])

    def of(self, span: ChangeSpan) -> Snapshot:
        """What a span that has no end has come to."""
        folder = span.folder
        if folder not in self._seen and folder.is_dir():
            for kept in keep(self.shadow, folder):
                self._seen[kept.folder] = kept
        if folder in self._seen:
            return self._seen[folder]
        # Of a folder that is gone nothing is known; of one inside a folder, that it is gone.
        return Snapshot(folder, NO_FILES) if span.part else span.before.snapshot
