"""What a command may leave behind in git directories: nothing that git obeys later.

In a git directory only what work writes may change: objects, refs, index, logs and the like.  All
else is held: settings, hooks, and whatever a later git may read there.  A sandbox that can mount
holds what is there (`held_in`); what was absent cannot be mounted over without making it, so what
a command adds is taken back when it has ended, and a repository that it made is kept as data.
Repositories inside the folder are read-only as a whole.  All of it blocks.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
_BARE = frozenset({"HEAD", "config", "objects", "refs"})
"""A folder with these is a repository to git, whatever it is called."""
_TODO = re.compile(r"^[ \t]*(?:x|exec)\b.*\n?", re.MULTILINE)
_COTERIE = ".coterie"
MOST_FOLDERS = 100_000
"""In a larger tree the rest is not looked through."""
_LARGEST = 1_000_000
_SETTLED = 100_000_000
"""Nanoseconds after which a folder's time of change tells of a later change."""


def held_in(root: Path) -> list[Path]:
    """What a sandbox has to mount read-only in a work folder, so that git obeys no one else."""
    own = _own(root)
    return [*(path for path in _found(root) if path != own), *held_of_own(root)]


def held_of_own(root: Path) -> list[Path]:
    """The part of it that is in the git directory that work in this folder writes to."""
    own = _own(root)
    if own is None:
        return []
    _make_placeholders(own)
    return [own / name for name in _names(own) if not _WRITTEN.fullmatch(name)]


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


@dataclass(frozen=True)
class _Entry:
    """A file, link or folder that is held."""

    data: bytes | None = None
    """What a file holds or where a link leads; None of a folder, and of what is not kept."""
    is_link: bool = False


@dataclass(frozen=True)
class _Seen:
    """A git directory, or a file that names one, before a command."""

    identity: tuple[int, int]
    whole: bool
    """Whether all that is held is known, and not its top alone."""
    held: Mapping[str, _Entry]


@dataclass(frozen=True)
class GitGuard:
    """The git directories of a work folder as they were before a command."""

    root: Path
    seen: Mapping[Path, _Seen]

    @classmethod
    def before(cls, root: Path, *, mounts: bool) -> GitGuard:
        """Note what there is; of what a sandbox mounts read-only, only that it is there."""
        own = _own(root)
        places = {*_found(root), *([own] if own else [])}
        seen = {path: _seen(path, whole=not mounts) for path in places}
        return cls(root, {path: known for path, known in seen.items() if known})

    def put_right(self) -> list[str]:
        """Take back what git would obey later; the paths of what was taken back."""
        own = _own(self.root)
        identities = {known.identity: known for known in self.seen.values()}
        taken: list[Path] = []
        for path in [*_found(self.root), *([own] if own else [])]:
            known = self.seen.get(path)
            identity = _identity(path)
            if identity is None:
                continue
            if known is None or known.identity != identity:
                known = identities.get(identity)  # it was moved
            taken += _restored(path, known) if known else _defused(path)
        return sorted({_shown(path, self.root) for path in taken})


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _seen(path: Path, *, whole: bool) -> _Seen | None:
    identity = _identity(path)
    if identity is None:
        return None
    held = dict(_held(path, whole=whole))
    if path.name == POINTER:
        held.pop("commondir", None)  # git never makes one there: a command that was cut left it
    return _Seen(identity, whole, held)


def _held(path: Path, *, whole: bool) -> Iterator[tuple[str, _Entry]]:
    """What is held in a git directory, by its path from there; "." is the thing itself."""
    if not _is_folder(path):
        yield ".", _entry(path, whole=whole)
        return
    stack = [name for name in _names(path) if not _WRITTEN.fullmatch(name)]
    while stack:
        name = stack.pop()
        inner = path / name
        yield name, _entry(inner, whole=whole)
        if whole and _is_folder(inner):
            stack += [f"{name}/{one}" for one in _names(inner) if one not in ("objects", "lfs")]


def _entry(path: Path, *, whole: bool) -> _Entry:
    link = path.is_symlink()  # no sandbox can mount over one
    return _Entry(_bytes(path) if whole or link else None, link)


def _restored(path: Path, known: _Seen) -> list[Path]:
    """Put back what is held in a git directory, and remove what was added to it."""
    taken = _without_commands(path)
    now = dict(_held(path, whole=known.whole))
    for name in sorted(now.keys() - known.held.keys(), key=len):
        _remove(path / name)
        taken.append(path / name)
    for name, entry in known.held.items():
        if entry.data is not None and now.get(name) != entry:
            _put_back(path / name, entry)
            taken.append(path / name)
    return taken


def _defused(path: Path) -> list[Path]:
    """Keep of a repository that is new what is data."""
    if not _is_folder(path):
        _remove(path)  # it names a git directory elsewhere
        return [path]
    named = path.name == POINTER
    taken = _without_commands(path)
    for name in _names(path):
        inner = path / name
        if name == "config":
            taken += _plain_config(inner)
        elif name == "hooks" and _is_folder(inner):
            taken += [inner / hook for hook in _names(inner) if not hook.endswith(".sample")]
        elif name in _DANGEROUS or (named and not _is_known(name)):
            taken.append(inner)
    for inner in taken:
        if inner.name not in ("config", "git-rebase-todo"):
            _remove(inner)
    return taken


_DANGEROUS = frozenset({"commondir", "config.worktree", "hooks", "modules", "worktrees"})


def _is_known(name: str) -> bool:
    return name in _TEMPLATE or _WRITTEN.fullmatch(name) is not None


def _plain_config(path: Path) -> list[Path]:
    text = "" if path.is_symlink() or not path.is_file() else plain_settings(path)
    if text is None:
        return []
    _remove(path)
    _write(path, text.encode("utf-8", "surrogateescape"))
    return [path]


def _without_commands(git_dir: Path) -> list[Path]:
    """A rebase that was begun goes on without the commands that its list may hold."""
    todo = git_dir / "rebase-merge" / "git-rebase-todo"
    data = None if todo.parent.is_symlink() else _bytes(todo)
    if not data:
        return []
    text = data.decode("utf-8", "surrogateescape")
    plain = _TODO.sub("", text)
    if plain == text:
        return []
    _write(todo, plain.encode("utf-8", "surrogateescape"))
    return [todo]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _bytes(path: Path) -> bytes | None:
    """What a file holds, or where a link leads; None of anything else, and of large files."""
    with suppress(OSError):
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            return os.fsencode(path.readlink())
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= _LARGEST:
            return path.read_bytes()
    return None


def _remove(path: Path) -> None:
    with suppress(OSError):
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            path.unlink()


def _put_back(path: Path, entry: _Entry) -> None:
    data = entry.data or b""
    if not entry.is_link:
        _write(path, data)
        return
    _remove(path)
    with suppress(OSError):
        path.symlink_to(os.fsdecode(data))


def _write(path: Path, data: bytes) -> None:
    if path.is_symlink() or _is_folder(path):
        _remove(path)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


# -- finding them ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Folder:
    changed: int
    """When, as the file system tells; folders inside are not meant."""
    folders: tuple[str, ...]
    git: tuple[str, ...]


class _Tree:
    """A folder with all below it; what did not change is not read again."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Folder] = {}
        self._lock = threading.Lock()

    def find(self) -> list[str]:
        """Every `.git` below, and every folder that is a repository by what is in it."""
        found: list[str] = []
        reached: dict[str, _Folder] = {}
        stack = [self._root]
        with self._lock:
            while stack and len(reached) < MOST_FOLDERS:
                path = stack.pop()
                with suppress(OSError):
                    folder = reached[path] = self._read(path)
                    found += folder.git
                    stack += folder.folders
            self._known = reached
        return found

    def _read(self, path: str) -> _Folder:
        changed = os.lstat(path).st_ctime_ns
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
                elif entry.is_dir(follow_symlinks=False) and entry.name != _COTERIE:
                    folders.append(entry.path)
        if names >= _BARE and path != self._root:
            return _Folder(0, (), (path,))
        settled = time.time_ns() - changed > _SETTLED
        return _Folder(changed if settled else 0, tuple(folders), tuple(git))


_trees: dict[Path, _Tree] = {}


def _found(root: Path) -> list[Path]:
    tree = _trees.setdefault(root, _Tree(str(root)))
    return [Path(path) for path in tree.find()]
