"""The directory that git uses as a repository's shared one: ours, with links to the real data.

Git reads its configuration, hooks and everything else it obeys from there (GIT_COMMON_DIR).  Ours
holds a configuration that Coterie wrote; objects, refs and logs are the repository's own, so the
user's git finds what git writes.  HEAD and index stay in the worktree's git directory.  All calls
block.
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
_READ_ONLY = ("HEAD", "info")
_CREATED_ON_DEMAND = ("logs", "worktrees")
"""Folders that git creates on demand, which it cannot do through a link."""
_WORKTREE_FILES = ("HEAD", "index", "logs", "logs/HEAD")
"""What git writes in a worktree's own git directory, following links."""
_CONFIG_FILES = ("config", "config.worktree")
_EMPTY = "empty"

_mutex = threading.Lock()
_roots: dict[int, tuple[Path, int]] = {}
"""By process id: the folder of its directories, and a lock on it for the process's lifetime."""
_PREFIX = "coterie-git-"
_directories: dict[tuple[int, Path, FixedSettings | None], tuple[Path, object]] = {}
"""The directories created so far, each with the state of the files its configuration came from."""


@dataclass(frozen=True)
class FixedSettings:
    """A configuration and attributes for a repository of ours, whatever its folder says."""

    config: str
    attributes: str


def git_directory(place: Worktree, settings: FixedSettings | None = None) -> tuple[Path, int]:
    """Return the directory to use as this repository's shared one, and a lock for git to inherit.

    The directory exists as long as the lock is held.  Raises ValueError if the repository cannot be
    used as it is.
    """
    refuse_links(place.git_dir, _WORKTREE_FILES)
    refuse_links(place.common, _SHARED)
    key = (os.getpid(), place.git_dir, settings)
    sources = (place.common / _CONFIG_FILES[0], place.git_dir / _CONFIG_FILES[1])
    made_from = None if settings else tuple(_state(path) for path in sources)
    with _mutex:
        root, lock = _root()
        folder, before = _directories.get(key, (root, None))
        if folder == root or not folder.is_dir():
            folder, before = _create(root, place.common, settings), None
        if settings is None and before != made_from:
            _write(folder / "config", settings_for(place.common, place.git_dir))
        _directories[key] = (folder, made_from)
    return folder, lock


def empty_folder(directory: Path) -> Path:
    """An empty folder, for commands that need no work tree."""
    return directory / _EMPTY


def prepare_for_writing(place: Worktree, ref: str) -> None:
    """Create what git needs to write a ref, and make sure that it is not written elsewhere.

    Raises ValueError if a link would lead git there.
    """
    for name in _CREATED_ON_DEMAND:
        (place.common / name).mkdir(exist_ok=True)
    names = ref.split("/")
    steps = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    refuse_links(place.common, [*steps, *(f"logs/{step}" for step in steps)])


def refuse_links(folder: Path, names: Sequence[str]) -> None:
    """Raise ValueError if any of these is a link: git would write to its target."""
    for name in names:
        path = f"{folder}/{name}"
        if os.path.islink(path):  # noqa: PTH114 - before every git, so it counts
            raise ValueError(f"{path} is a link; replace it with its target")


def _create(root: Path, common: Path, settings: FixedSettings | None) -> Path:
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / _EMPTY).mkdir()
    for name in (*_SHARED, *_READ_ONLY):
        if settings is None or name != "info":
            (folder / name).symlink_to(common / name)
    if settings is not None:
        (folder / "info").mkdir()
        _write(folder / "info" / "attributes", settings.attributes)
        _write(folder / "config", settings.config)
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
    """Create a folder and lock it; before that another process may remove it as abandoned."""
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
    if process == os.getpid():  # not in a fork of it
        shutil.rmtree(root, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove what killed processes left behind: folders that nobody holds a lock on."""
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
