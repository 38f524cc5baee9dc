"""The directory that git takes for the shared one of a repository: ours, with links to its data.

Git reads its configuration, hooks and what else it obeys from there (GIT_COMMON_DIR).  In ours is
a configuration that we wrote; objects, refs and logs are the repository's own, so what git writes
is where the user's git finds it.  HEAD and index stay in the worktree's git directory.  Blocks.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coterie.workspace.git_settings import settings_for
from coterie.workspace.worktree import Worktree

_SHARED = ("objects", "refs", "packed-refs", "logs", "worktrees", "shallow", "reftable", "lfs")
_READ = ("HEAD", "info")
_MADE = ("logs", "worktrees")
"""Folders that git makes as it needs them, which it cannot through a link."""
_OWN = ("HEAD", "index", "logs", "logs/HEAD")
"""What git writes in a worktree's own git directory, following links."""
_CONFIGURED_BY = ("config", "config.worktree")
_EMPTY = "empty"

_guard = threading.Lock()
_roots: dict[int, tuple[Path, int]] = {}
"""By process: where its directories are, and a lock on that for as long as it lives."""
_PREFIX = "coterie-git-"
_made: dict[tuple[int, Path, GivenSettings | None], tuple[Path, object]] = {}
"""Those that are made, each with what its configuration was made from."""


@dataclass(frozen=True)
class GivenSettings:
    """A configuration and attributes for a repository of our own, whatever its folder says."""

    config: str
    attributes: str


def git_directory(place: Worktree, given: GivenSettings | None = None) -> tuple[Path, int]:
    """The directory to name as the shared one of this repository, and a lock that git is to hold:
    it is there as long as that is.

    Raises ValueError where the repository cannot be used as it is.
    """
    refuse_links(place.git_dir, _OWN)
    refuse_links(place.common, _SHARED)
    key = (os.getpid(), place.git_dir, given)
    sources = (place.common / _CONFIGURED_BY[0], place.git_dir / _CONFIGURED_BY[1])
    made_from = None if given else tuple(_state(path) for path in sources)
    with _guard:
        root, lock = _root()
        folder, before = _made.get(key, (root, None))
        if folder == root or not folder.is_dir():
            folder, before = _make(root, place.common, given), None
        if given is None and before != made_from:
            _write(folder / "config", settings_for(place.common, place.git_dir))
        _made[key] = (folder, made_from)
    return folder, lock


def empty_folder(directory: Path) -> Path:
    """A folder without files, for what needs no work tree."""
    return directory / _EMPTY


def prepare_for_writing(place: Worktree, ref: str) -> None:
    """Make what git needs to write a ref, and see that it is not written elsewhere.

    Raises ValueError.
    """
    for name in _MADE:
        (place.common / name).mkdir(exist_ok=True)
    names = ref.split("/")
    steps = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    refuse_links(place.common, [*steps, *(f"logs/{step}" for step in steps)])


def refuse_links(folder: Path, names: Sequence[str]) -> None:
    """Raise ValueError where one of these is a link: git would write where that leads."""
    for name in names:
        path = f"{folder}/{name}"
        if os.path.islink(path):  # noqa: PTH114 - before every git, so it counts
            raise ValueError(f"{path} is a link; put in its place what it leads to")


def _make(root: Path, common: Path, given: GivenSettings | None) -> Path:
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / _EMPTY).mkdir()
    for name in (*_SHARED, *_READ):
        if given is None or name != "info":
            (folder / name).symlink_to(common / name)
    if given is not None:
        (folder / "info").mkdir()
        _write(folder / "info" / "attributes", given.attributes)
        _write(folder / "config", given.config)
    return folder


def _root() -> tuple[Path, int]:
    process = os.getpid()
    root, lock = _roots.get(process, (None, -1))
    if root is not None and root.is_dir():
        return root, lock
    _remove_abandoned()
    root, lock = _new_root()
    _roots[process] = (root, lock)
    atexit.register(_remove, process, root)
    return root, lock


def _new_root() -> tuple[Path, int]:
    """A new folder and its lock; until it has that, another process may take it for abandoned."""
    while True:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if root.is_dir():
            return root, lock
        os.close(lock)


def _remove(process: int, root: Path) -> None:
    if process == os.getpid():  # and not a fork of it
        shutil.rmtree(root, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove what processes left that were killed: nobody holds a lock on it."""
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(root, ignore_errors=True)
            finally:
                os.close(lock)


def _state(path: Path) -> tuple[int, int, int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(text.encode("utf-8", "surrogateescape"))
    fresh.replace(path)
