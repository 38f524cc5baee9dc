"""What a command may leave behind in git directories: nothing that git would act on later.

Only what normal work writes in a git directory may change: objects, refs, index, logs and the like.
Everything else is protected: settings, hooks, and whatever a later version of git may read there.
A sandbox that can mount makes what exists read-only (`protected_paths`).  What is absent cannot be
mounted over without creating it, so what a command adds is removed when it has ended, and a
repository that it created is kept as data.  Repositories inside the folder are read-only as a
whole.  All calls block.

One absent file that git reads is created while a command runs: `commondir`, which names the
directory with settings and hooks.  It says "here", which is the default without the file.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coterie.workspace.git_edits import GitEdits, bytes_of, is_folder, names_of
from coterie.workspace.git_finder import git_directories, lock_again
from coterie.workspace.git_settings import has_worktree_settings, plain_settings
from coterie.workspace.worktree import POINTER, Worktree

_WORK_FILES = re.compile(
    r"objects|refs|reftable|packed-refs|logs|index|sharedindex\..*|shallow|lfs|rr-cache|sequencer"
    r"|rebase-merge|rebase-apply|HEAD|[A-Z_]+_HEAD|AUTO_MERGE|(MERGE|SQUASH|COMMIT|TAG|NOTES)_[A-Z]+"
    r"|NOTES_MERGE_WORKTREE|BISECT_[A-Z_]+|gc\.(pid|log)|.*\.lock"
)
"""What normal work writes at the top of a git directory."""
_TEMPLATE_FILES = frozenset({"branches", "config", "description", "hooks", "info"})
"""What else git creates in a new repository."""
_PLACEHOLDERS = ("hooks", "info")
"""Folders of every new repository: created if absent, so that they can be protected."""
_COMMONDIR, _HERE = "commondir", b".\n"
_COMMONDIR_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REBASE_FOLDER, _REBASE_TODO = "rebase-merge", "rebase-merge/git-rebase-todo"
_EXEC_COMMAND = re.compile(rb"^[ \t]*(?:x|exec)\b.*\n?", re.MULTILINE)


def protected_paths(root: Path) -> list[Path]:
    """Return what a sandbox has to mount read-only, so that git acts on nothing a command wrote."""
    git_dir = _git_dir(root)
    return [
        *(path for path in git_directories(root).paths if path != git_dir),
        *protected_in_git_dir(root),
    ]


def protected_in_git_dir(root: Path) -> list[Path]:
    """Return those of them in the git directory that work in this folder writes to."""
    git_dir = _git_dir(root)
    if git_dir is None:
        return []
    _make_placeholders(git_dir)
    return [git_dir / name for name in names_of(git_dir) if not _WORK_FILES.fullmatch(name)]


def _make_placeholders(git_dir: Path) -> None:
    with suppress(OSError, ValueError):
        if git_dir.name == POINTER:
            for name in _PLACEHOLDERS:
                (git_dir / name).mkdir(exist_ok=True)
        linked = git_dir.parent.name == "worktrees"
        if has_worktree_settings(git_dir.parent.parent if linked else git_dir):
            (git_dir / "config.worktree").touch(exist_ok=True)


def _git_dir(root: Path) -> Path | None:
    """Return the git directory that work in this folder writes to."""
    linked = Worktree.around(root)
    if linked is not None:
        return linked.git_dir
    git_dir = root / POINTER
    return git_dir if git_dir.is_dir() and not git_dir.is_symlink() else None


class CommondirPlaceholder:
    """A `commondir` that says "here", as long as any command needs it."""

    def __init__(self, root: Path) -> None:
        """Create the file if it does not exist."""
        git_dir = _git_dir(root)
        self._path = (
            git_dir / _COMMONDIR if git_dir is not None and git_dir.name == POINTER else None
        )
        self._lock: int | None = None
        if self._path is None:
            return
        with suppress(OSError):
            with suppress(FileExistsError), self._path.open("xb") as file:
                file.write(_HERE)
            self._lock = os.open(self._path, _COMMONDIR_FLAGS)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self, timeout: float = 0.0) -> None:
        """Remove the file unless another command still needs it when the time is over."""
        if self._path is None or self._lock is None:
            return
        until = time.monotonic() + timeout
        try:
            while not _locked_alone(self._lock) and time.monotonic() < until:
                time.sleep(0.01)
            if _locked_alone(self._lock) and bytes_of(self._path) == _HERE:
                self._path.unlink()
        except OSError:
            pass
        finally:
            os.close(self._lock)
            self._lock = None


def _locked_alone(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@dataclass(frozen=True)
class ProtectedEntry:
    """A protected file, link or folder."""

    data: bytes | None = None
    """A file's contents or a link's target; None for a folder, and for contents not recorded."""
    is_link: bool = False
    mode: int = 0
    """A file's permission bits."""


@dataclass(frozen=True)
class GitDirState:
    """The state of a git directory, or of a file that names one, before a command."""

    identity: tuple[int, int]
    complete: bool
    """Whether everything protected is recorded, not only the top level."""
    entries: Mapping[str, ProtectedEntry]
    special_files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Links among what work writes, and their targets, where git would write; special files too."""


SandboxProtection = Literal["all", "own", "none"]
"""Which git directories the sandbox itself protects while a command runs: all existing ones,
only the work folder's own `.git`, which is then entirely read-only, or none."""


@dataclass(frozen=True)
class GitRestored:
    """What became of the changes in git directories, as paths to show."""

    undone: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """What could not be undone, or not be searched for repositories."""


@dataclass(frozen=True)
class GitGuard:
    """The git directories of a work folder as they were before a command."""

    root: Path
    states: Mapping[Path, GitDirState]
    unwritable: frozenset[Path] = frozenset()
    """Those that no command can write to: changes in them are somebody else's."""
    unreadable: frozenset[Path] = frozenset()
    """What could not be read even before: another user's, or too deep for any path."""

    @classmethod
    def before(cls, root: Path, protection: SandboxProtection) -> GitGuard:
        """Record the state; of what a sandbox mounts read-only, only that it exists."""
        repositories = git_directories(root)
        git_dir = _git_dir(root)
        edits = GitEdits(root, [git_dir] if git_dir else [])
        places = {*repositories.paths, *([git_dir] if git_dir else [])}
        is_read_only = protection == "own" and git_dir is not None and git_dir.name == POINTER
        unwritable = frozenset(place for place in places if is_read_only and place == git_dir)
        states = {
            path: _state_of(path, edits, complete=protection != "all")
            for path in places - unwritable
        }
        known = {path: state for path, state in states.items() if state}
        return cls(root, known, unwritable, frozenset([*repositories.unreadable, *edits.failed]))

    def restore(self) -> GitRestored:
        """Undo what git would act on later."""
        repositories = git_directories(self.root)
        git_dir = _git_dir(self.root)
        # Those that were there, too: a command may have cut the work folder off from its own.
        recorded = {*self.states, *([git_dir] if git_dir else [])}
        edits = GitEdits(self.root, recorded)
        for path in {*repositories.paths, *recorded} - self.unwritable:
            try:
                self._restore(path, edits)
            except Exception:  # noqa: BLE001 - whatever it is, it must not save the other ones
                edits.failed.append(path)
        lock_again(self.root)
        removed = set(edits.edited)
        left = (path for path in edits.failed if removed.isdisjoint((path, *path.parents)))
        failed = {*repositories.unreadable, *left} - self.unreadable
        return GitRestored(self._shown(edits.edited), self._shown(failed))

    def _restore(self, path: Path, edits: GitEdits) -> None:
        known, identity = self.states.get(path), _identity(path)
        if identity is None:
            return
        if known is None or known.identity != identity:  # it may have been moved
            known = next((one for one in self.states.values() if one.identity == identity), None)
        if known:
            _restore_git_dir(path, known, edits)
        else:
            _strip_to_data(path, edits)

    def _shown(self, paths: Iterable[Path]) -> tuple[str, ...]:
        return tuple(sorted({str(_relative(path, self.root)) for path in paths}))


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _state_of(path: Path, edits: GitEdits, *, complete: bool) -> GitDirState | None:
    identity = _identity(path)
    if identity is None:
        return None
    entries = dict(_protected_entries(path, edits, complete=complete))
    if path.name == POINTER:
        entries.pop(_COMMONDIR, None)  # git never creates one there: an interrupted command left it
    return GitDirState(identity, complete, entries, dict(_special_files(path, edits)))


def _protected_entries(
    path: Path, edits: GitEdits, *, complete: bool, known: Container[str] | None = None
) -> Iterator[tuple[str, ProtectedEntry]]:
    """Yield what is protected in a git directory, by relative path; "." is the path itself.

    Folders that were not `known` before are not entered: they are removed as they are.
    """
    if not is_folder(path):
        yield ".", _entry(path, complete=complete)
        return
    stack = [name for name in edits.names_of(path) if not _WORK_FILES.fullmatch(name)]
    while stack:
        name = stack.pop()
        inner = path / name
        if name == _COMMONDIR and bytes_of(inner) == _HERE:
            continue
        yield name, _entry(inner, complete=complete)
        if complete and is_folder(inner) and (known is None or name in known):
            inside = edits.names_of(inner)
            stack += [f"{name}/{one}" for one in inside if one not in ("objects", "lfs")]


def _entry(path: Path, *, complete: bool) -> ProtectedEntry:
    with suppress(OSError):
        mode = path.lstat().st_mode
        link = stat.S_ISLNK(mode)  # no sandbox can mount over one
        data = bytes_of(path) if complete or link else None
        if data is None or link:
            return ProtectedEntry(data, link)
        return ProtectedEntry(data, mode=stat.S_IMODE(mode))
    return ProtectedEntry()


def _special_files(path: Path, edits: GitEdits) -> Iterator[tuple[str, str]]:
    """Yield what is neither a file nor a folder among what work writes, by relative path."""
    names = edits.names_of(path) if is_folder(path) else []
    stack = [name for name in names if _WORK_FILES.fullmatch(name)]
    while stack:
        name = stack.pop()
        with suppress(OSError):
            mode = (path / name).lstat().st_mode
            if stat.S_ISLNK(mode):
                yield name, os.fsdecode((path / name).readlink())
            elif stat.S_ISDIR(mode) and name != "objects":
                stack += [f"{name}/{one}" for one in edits.names_of(path / name)]
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                yield name, ""


def _restore_git_dir(path: Path, known: GitDirState, edits: GitEdits) -> None:
    """Restore what is protected in a git directory, and remove what was added to it."""
    _clean_work_files(path, edits, known.special_files)
    entries = _protected_entries(path, edits, complete=known.complete, known=known.entries)
    now = dict(entries)
    for name in sorted(now.keys() - known.entries.keys(), key=len):
        edits.remove(path / name)
    for name, entry in known.entries.items():
        if entry.data is None or now.get(name) == entry:
            continue
        if entry.is_link:
            edits.link(path / name, os.fsdecode(entry.data))
        else:
            edits.write(path / name, entry.data, entry.mode)


def _strip_to_data(path: Path, edits: GitEdits) -> None:
    """Reduce a new repository to its data."""
    if not is_folder(path):
        edits.remove(path)  # it names a git directory elsewhere
        return
    _clean_work_files(path, edits, {})
    for name in edits.names_of(path):
        inner = path / name
        if name == "config":
            _strip_config(inner, edits)
        elif name == "hooks" and is_folder(inner):
            for hook in edits.names_of(inner):
                if not hook.endswith(".sample"):
                    edits.remove(inner / hook)
        elif name in _DANGEROUS or (path.name == POINTER and not _is_known(name)):
            edits.remove(inner)


_DANGEROUS = frozenset({_COMMONDIR, "config.worktree", "hooks", "modules", "worktrees"})


def _is_known(name: str) -> bool:
    return name in _TEMPLATE_FILES or _WORK_FILES.fullmatch(name) is not None


def _strip_config(path: Path, edits: GitEdits) -> None:
    text = "" if path.is_symlink() or not path.is_file() else plain_settings(path)
    if text is not None:
        edits.write(path, text.encode("utf-8", "surrogateescape"))


def _clean_work_files(git_dir: Path, edits: GitEdits, known: Mapping[str, str]) -> None:
    """Remove new links from what work writes, and commands that a rebase would run."""
    for name, target in list(_special_files(git_dir, edits)):
        if known.get(name) != target:
            edits.remove(git_dir / name)
    if not is_folder(git_dir / _REBASE_FOLDER):
        return
    todo = git_dir / _REBASE_TODO
    data = bytes_of(todo)
    if data is None and todo.exists():  # too long for a todo list
        edits.remove(git_dir / _REBASE_FOLDER)
    elif data is not None and (plain := _EXEC_COMMAND.sub(b"", data)) != data:
        edits.write(todo, plain)
