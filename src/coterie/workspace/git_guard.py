"""What a command may leave behind in git directories: nothing that git obeys later.

In a git directory only what work writes may change: objects, refs, index, logs and the like.  All
else is held: settings, hooks, and whatever a later git may read there.  A sandbox that can mount
holds what is there (`held_in`); what was absent cannot be mounted over without making it, so what
a command adds is taken back when it has ended, and a repository that it made is kept as data.
Repositories inside the folder are read-only as a whole.  All of it blocks.

One file that git obeys and that is absent is made for as long as a command runs: `commondir`, which
says where settings and hooks are.  It says "here", as its absence does.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from coterie.workspace.git_edits import GitEdits, bytes_of, is_folder, names_of
from coterie.workspace.git_finder import git_directories
from coterie.workspace.git_settings import has_worktree_settings, plain_settings
from coterie.workspace.worktree import POINTER, Worktree

_WRITTEN = re.compile(
    r"objects|refs|reftable|packed-refs|logs|index|sharedindex\..*|shallow|lfs|rr-cache|sequencer"
    r"|rebase-merge|rebase-apply|HEAD|[A-Z_]+_HEAD|AUTO_MERGE|(MERGE|SQUASH|COMMIT|TAG|NOTES)_[A-Z]+"
    r"|NOTES_MERGE_WORKTREE|BISECT_[A-Z_]+|gc\.(pid|log)|.*\.lock"
)
"""What work writes at the top of a git directory."""
_TEMPLATE = frozenset({"branches", "config", "description", "hooks", "info"})
"""What git besides makes in a new repository."""
_PLACEHOLDERS = ("hooks", "info")
"""Folders that every new repository has: made where absent, so that they can be held."""
_COMMON, _HERE = "commondir", b".\n"
_REBASE, _LIST = "rebase-merge", "rebase-merge/git-rebase-todo"
_TODO = re.compile(rb"^[ \t]*(?:x|exec)\b.*\n?", re.MULTILINE)


def held_in(root: Path) -> list[Path]:
    """What a sandbox has to mount read-only in a work folder, so that git obeys no one else."""
    own = _own(root)
    return [*(path for path in git_directories(root) if path != own), *held_of_own(root)]


def held_of_own(root: Path) -> list[Path]:
    """The part of it that is in the git directory that work in this folder writes to."""
    own = _own(root)
    if own is None:
        return []
    _make_placeholders(own)
    return [own / name for name in names_of(own) if not _WRITTEN.fullmatch(name)]


def _make_placeholders(own: Path) -> None:
    with suppress(OSError, ValueError):
        if own.name == POINTER:
            for name in _PLACEHOLDERS:
                (own / name).mkdir(exist_ok=True)
        linked = own.parent.name == "worktrees"
        if has_worktree_settings(own.parent.parent if linked else own):
            (own / "config.worktree").touch(exist_ok=True)


def _own(root: Path) -> Path | None:
    """The git directory that work in this folder writes to."""
    linked = Worktree.around(root)
    if linked is not None:
        return linked.git_dir
    own = root / POINTER
    return own if own.is_dir() and not own.is_symlink() else None


class CommonPlaceholder:
    """A `commondir` that says "here", for as long as somebody needs it."""

    def __init__(self, root: Path) -> None:
        """Make it, where there is none."""
        own = _own(root)
        self._path = own / _COMMON if own is not None and own.name == POINTER else None
        self._lock: int | None = None
        if self._path is None:
            return
        with suppress(OSError):
            with suppress(FileExistsError), self._path.open("xb") as file:
                file.write(_HERE)
            self._lock = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Remove it, unless another command needs it still."""
        if self._path is None or self._lock is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if bytes_of(self._path) == _HERE:
                self._path.unlink()
        except OSError:
            pass
        finally:
            os.close(self._lock)
            self._lock = None


@dataclass(frozen=True)
class HeldEntry:
    """A file, link or folder that is held."""

    data: bytes | None = None
    """What a file holds or where a link leads; None of a folder, and of what is not kept."""
    is_link: bool = False
    mode: int = 0
    """Who may do what with a file."""


@dataclass(frozen=True)
class SeenGit:
    """A git directory, or a file that names one, before a command."""

    identity: tuple[int, int]
    whole: bool
    """Whether all that is held is known, and not its top alone."""
    held: Mapping[str, HeldEntry]
    odd: Mapping[str, str] = field(default_factory=dict[str, str])
    """Links among what work writes, with where they lead: git would write there."""


Held = Literal["all", "own", "none"]
"""Which git directories a sandbox itself holds while a command runs: all that are there, the work
folder's own `.git`, of which nothing at all can be written then, or none."""


@dataclass(frozen=True)
class GitGuard:
    """The git directories of a work folder as they were before a command."""

    root: Path
    seen: Mapping[Path, SeenGit]
    others: frozenset[Path] = frozenset()
    """Those that no command can write to: what changes in them somebody else has changed."""

    @classmethod
    def before(cls, root: Path, held: Held) -> GitGuard:
        """Note what there is; of what a sandbox mounts read-only, only that it is there."""
        own = _own(root)
        places = {*git_directories(root), *([own] if own else [])}
        unwritable = held == "own" and own is not None and own.name == POINTER
        others = frozenset(place for place in places if unwritable and place == own)
        seen = {path: _seen(path, whole=held != "all") for path in places - others}
        return cls(root, {path: known for path, known in seen.items() if known}, others)

    def put_right(self) -> list[str]:
        """Take back what git would obey later; the paths of what was taken back."""
        own = _own(self.root)
        edits = GitEdits(self.root, own)
        identities = {known.identity: known for known in self.seen.values()}
        for path in {*git_directories(self.root), *([own] if own else [])} - self.others:
            known = self.seen.get(path)
            identity = _identity(path)
            if identity is None:
                continue
            if known is None or known.identity != identity:
                known = identities.get(identity)  # it was moved
            if known:
                _restore(path, known, edits)
            else:
                _defuse(path, edits)
        return sorted({_shown(path, self.root) for path in edits.made})


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _seen(path: Path, *, whole: bool) -> SeenGit | None:
    identity = _identity(path)
    if identity is None:
        return None
    held = dict(_held(path, whole=whole))
    if path.name == POINTER:
        held.pop(_COMMON, None)  # git never makes one there: a command that was cut left it
    return SeenGit(identity, whole, held, dict(_odd(path)))


def _held(path: Path, *, whole: bool) -> Iterator[tuple[str, HeldEntry]]:
    """What is held in a git directory, by its path from there; "." is the thing itself."""
    if not is_folder(path):
        yield ".", _entry(path, whole=whole)
        return
    stack = [name for name in names_of(path) if not _WRITTEN.fullmatch(name)]
    while stack:
        name = stack.pop()
        inner = path / name
        if name == _COMMON and bytes_of(inner) == _HERE:
            continue
        yield name, _entry(inner, whole=whole)
        if whole and is_folder(inner):
            stack += [f"{name}/{one}" for one in names_of(inner) if one not in ("objects", "lfs")]


def _entry(path: Path, *, whole: bool) -> HeldEntry:
    link = path.is_symlink()  # no sandbox can mount over one
    data = bytes_of(path) if whole or link else None
    if data is None or link:
        return HeldEntry(data, link)
    return HeldEntry(data, mode=stat.S_IMODE(path.lstat().st_mode))


def _odd(path: Path) -> Iterator[tuple[str, str]]:
    """What is neither a file nor a folder among what work writes, by its path from there."""
    stack = [name for name in names_of(path) if _WRITTEN.fullmatch(name)] if is_folder(path) else []
    while stack:
        name = stack.pop()
        with suppress(OSError):
            mode = (path / name).lstat().st_mode
            if stat.S_ISLNK(mode):
                yield name, os.fsdecode((path / name).readlink())
            elif stat.S_ISDIR(mode) and name != "objects":
                stack += [f"{name}/{one}" for one in names_of(path / name)]
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                yield name, ""


def _restore(path: Path, known: SeenGit, edits: GitEdits) -> None:
    """Put back what is held in a git directory, and remove what was added to it."""
    _tidy_work(path, edits, known.odd)
    now = dict(_held(path, whole=known.whole))
    for name in sorted(now.keys() - known.held.keys(), key=len):
        edits.remove(path / name)
    for name, entry in known.held.items():
        if entry.data is None or now.get(name) == entry:
            continue
        if entry.is_link:
            edits.link(path / name, os.fsdecode(entry.data))
        else:
            edits.write(path / name, entry.data, entry.mode)


def _defuse(path: Path, edits: GitEdits) -> None:
    """Keep of a repository that is new what is data."""
    if not is_folder(path):
        edits.remove(path)  # it names a git directory elsewhere
        return
    _tidy_work(path, edits, {})
    for name in names_of(path):
        inner = path / name
        if name == "config":
            _plain_config(inner, edits)
        elif name == "hooks" and is_folder(inner):
            for hook in names_of(inner):
                if not hook.endswith(".sample"):
                    edits.remove(inner / hook)
        elif name in _DANGEROUS or (path.name == POINTER and not _is_known(name)):
            edits.remove(inner)


_DANGEROUS = frozenset({_COMMON, "config.worktree", "hooks", "modules", "worktrees"})


def _is_known(name: str) -> bool:
    return name in _TEMPLATE or _WRITTEN.fullmatch(name) is not None


def _plain_config(path: Path, edits: GitEdits) -> None:
    text = "" if path.is_symlink() or not path.is_file() else plain_settings(path)
    if text is not None:
        edits.write(path, text.encode("utf-8", "surrogateescape"))


def _tidy_work(git_dir: Path, edits: GitEdits, known: Mapping[str, str]) -> None:
    """Leave among what work writes no link that is new, and no command that a rebase would run."""
    for name, target in list(_odd(git_dir)):
        if known.get(name) != target:
            edits.remove(git_dir / name)
    if not is_folder(git_dir / _REBASE):
        return
    todo = git_dir / _LIST
    data = bytes_of(todo)
    if data is None and todo.exists():  # too long to be one
        edits.remove(git_dir / _REBASE)
    elif data is not None and (plain := _TODO.sub(b"", data)) != data:
        edits.write(todo, plain)
