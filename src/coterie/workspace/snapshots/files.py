"""The files of a folder: taking snapshots of them, and reading and changing them one by one.

A snapshot covers the files that the user's git would list, with a few exceptions.  If the folder is
in a repository, that decides what is ignored; otherwise the `.gitignore` files do.  Never stored:
`.git` and `.coterie` at any depth, except for digests of what git obeys; the contents of a
repository inside the folder, which has its own snapshots; files that are very large or unreadable.

Files are never read or written through a link, and always written atomically.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from coterie.errors import GitFailed
from coterie.model.workspace import UNFINISHED, unfinished_name
from coterie.workspace.beneath import open_folder_below
from coterie.workspace.git import CHECKOUT_TIMEOUT, Git
from coterie.workspace.git_control_files import CONTROL_FILE_WARNING, control_file_digests
from coterie.workspace.snapshots.repository import (
    NO_FILES,
    REPOSITORY,
    ChangeSpan,
    ExcludedFile,
    Snapshot,
    SnapshotRepository,
)
from coterie.workspace.worktree import top_of

LARGE = 20_000_000
"""Files over this many bytes are excluded."""
NEVER = frozenset({".git", ".coterie"})

_MANY = 500
"""With more new files than this, git writes one pack, which is faster and half the size."""
_PACKED = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "core.compression",
    "GIT_CONFIG_VALUE_1": "1",
}
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")


def take_snapshots(repository: SnapshotRepository, folder: Path) -> list[Snapshot]:
    """Take snapshots of a folder and of every repository inside it; the lock is held."""
    taken: list[Snapshot] = []
    pending = [folder]
    while pending:
        place = pending.pop()
        taken.append(_take_or_retry(repository, place))
        inner = (file.path for file in taken[-1].excluded if file.why == REPOSITORY)
        pending += reversed([place / path for path in inner])
    return taken


def _take_or_retry(repository: SnapshotRepository, folder: Path) -> Snapshot:
    try:
        return _take_one(repository, folder)
    except GitFailed as failed:
        if failed.status is None:
            raise
        # A file may have shrunk while it was read, or the index is corrupt: start over once.
        repository.index(folder).unlink(missing_ok=True)
        return _take_one(repository, folder)


def _take_one(repository: SnapshotRepository, folder: Path) -> Snapshot:
    index = repository.index(folder)
    # We hold the lock, so this was left by a killed git.
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    env = {"GIT_INDEX_FILE": str(index)}
    known = set(repository.run("ls-files", "-z", work=folder, env=env).split("\0")[:-1])
    files = _Files(os.fspath(folder), known)
    # Files that were stored once stay stored, even if ignored by now: otherwise they would
    # seem to have been deleted.
    shown = _shown_by_user(folder)
    if shown is None:
        excluded = ("--exclude=.coterie", f"--exclude={UNFINISHED}")
        git = repository.git(folder)
        shown = _names(git.run(*_LIST, *excluded, env=env, timeout=CHECKOUT_TIMEOUT))
    for name in sorted(known | shown):
        files.add(name)
    if gone := [name for name in files.gone if name in known]:
        words = ("update-index", "-z", "--force-remove", "--stdin")
        repository.run(*words, work=folder, input=_lines(gone), env=env)
    if files.stored:
        words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        how = _PACKED if len(files.stored) - len(known) > _MANY else {}
        repository.run(*words, work=folder, input=_lines(files.stored), env={**env, **how})
    tree = repository.run("write-tree", work=folder, env=env).strip()
    control_files = [
        ExcludedFile(path, CONTROL_FILE_WARNING, digest)
        for path, digest in control_file_digests(folder).items()
    ]
    return Snapshot(folder, tree, (*files.excluded, *control_files))


def _lines(names: Iterable[str]) -> str:
    return "".join(f"{name}\0" for name in names)


def _shown_by_user(folder: Path) -> set[str] | None:
    """Return what the surrounding repository lists; None without one, or if that ignores it."""
    top = top_of(folder)
    if top is None:
        return None
    git, inside = Git(top), folder.relative_to(top).as_posix()
    try:
        if inside == ".":
            return _names(git.run(*_LIST, timeout=CHECKOUT_TIMEOUT))
        if git.run("check-ignore", f"./{inside}", accept=(0, 1)):
            return None
        output = git.run(*_LIST, "--", f":(literal){inside}", timeout=CHECKOUT_TIMEOUT)
    except GitFailed:
        return None
    return {name.removeprefix(f"{inside}/") for name in _names(output)}


def _names(output: str) -> set[str]:
    return set(output.split("\0")) - {""}


def ignored_folders(
    repository: SnapshotRepository, folder: Path, inside: Iterable[str]
) -> tuple[str, ...]:
    """Return which of the folders inside one are ignored by git with all that they may ever hold,
    leaving out those inside another result; the lock is held."""
    names = [name for name in inside if NEVER.isdisjoint(name.split("/"))]
    top = top_of(folder)
    git = Git(top) if top else repository.git(folder)
    prefix = f"{folder.relative_to(top).as_posix()}/" if top and folder != top else ""
    paths = _lines(f"./{prefix}{name}/" for name in names)
    try:
        output = git.run("check-ignore", "-z", "--stdin", input=paths, accept=(0, 1))
    except GitFailed:
        return ()
    ignored: list[str] = []
    for name in sorted(one.removeprefix(f"./{prefix}").rstrip("/") for one in _names(output)):
        if not any(name.startswith(f"{other}/") for other in ignored):
            ignored.append(name)
    return tuple(ignored)


class _Files:
    """The files of a folder, sorted by what to do with them."""

    def __init__(self, folder: str, known: set[str]) -> None:
        self.stored: list[str] = []
        self.gone: list[str] = []
        """Names with nothing to store."""
        self.excluded: list[ExcludedFile] = []
        self._folder = folder
        self._known = known
        self._plain: dict[str, bool] = {"": True}
        """By folder inside: whether it is a real one, reached without a link."""

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
        # Files that were stored before it became a repository stay stored.
        was_none = any(name.startswith(f"{path}/") for name in self._known)
        if not was_none and self._facts(f"{path}/.git") is not None:
            self.excluded.append(ExcludedFile(path, REPOSITORY, ""))

    def _is_plain(self, folder: str) -> bool:
        unknown, known = list[str](), self._plain.get(folder)
        while known is None:
            unknown.append(folder)
            folder = folder.rpartition("/")[0]
            known = self._plain.get(folder)
        for inner in reversed(unknown):
            facts = self._facts(inner) if known else None
            known = self._plain[inner] = facts is not None and stat.S_ISDIR(facts.st_mode)
        return known

    def _facts(self, path: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self._folder}/{path}")
        except OSError:
            return None


def _why_not(path: str, facts: os.stat_result) -> str | None:
    """Return why a file is excluded; None if it is not, empty if that is not worth mentioning."""
    if stat.S_ISLNK(facts.st_mode):
        # Git rejects this link as an attack.
        return "git cannot store this link" if path.lower().endswith("/.gitmodules") else None
    if not stat.S_ISREG(facts.st_mode):
        return ""
    if facts.st_size > LARGE:
        return f"over {LARGE // 1_000_000} MB"
    open_to_all = facts.st_mode & stat.S_IROTH
    return None if open_to_all or os.access(path, os.R_OK) else "cannot be read"


@dataclass(frozen=True)
class CurrentSnapshots:
    """Folders as they are now, each read only once; the lock is held."""

    repository: SnapshotRepository
    _seen: dict[Path, Snapshot] = field(default_factory=dict[Path, Snapshot])

    def of(self, span: ChangeSpan) -> Snapshot:
        """Return the current state of the folder of a span without an end."""
        folder = span.folder
        if folder not in self._seen and folder.is_dir():
            for taken in take_snapshots(self.repository, folder):
                self._seen[taken.folder] = taken
        if folder in self._seen:
            return self._seen[folder]
        # A missing folder counts as unchanged; a missing repository inside a folder, as deleted.
        return Snapshot(folder, NO_FILES) if span.part else span.before.snapshot


LINK, EXECUTABLE, PLAIN = "120000", "100755", "100644"
"""File modes, as git writes them."""

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Nothing is there, or a link or a file is in the way."""


@dataclass(frozen=True)
class FileContent:
    """A file as it is: its mode, and its content or the target of a link."""

    mode: str
    data: bytes


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder, by paths as git writes them.  An OSError says why a call failed."""

    folder: Path

    def read(self, path: str) -> FileContent | None:
        """Return what is at a path; None for nothing, or for a folder."""
        try:
            with self._place(path) as (parent, name):
                return _read(parent, name)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise

    def write(self, path: str, entry: FileContent) -> None:
        """Write a file or link, creating the folders it needs; keep existing permissions."""
        with self._place(path, make=True) as (parent, name):
            fresh = unfinished_name()
            try:
                if entry.mode == LINK:
                    os.symlink(entry.data, fresh, dir_fd=parent)
                else:
                    _write(parent, name, fresh, entry)
                os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=parent)
                raise

    def remove(self, path: str) -> None:
        with self._place(path) as (parent, name):
            os.unlink(name, dir_fd=parent)

    def remove_empty(self, path: str) -> bool:
        """Remove a folder; return False if it is not empty."""
        try:
            with self._place(path) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
        return True

    @contextmanager
    def _place(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """Open the folder that contains a path; yield it with the last part of the name."""
        *parents, name = path.split("/")
        if not {"", ".", "..", *NEVER}.isdisjoint((*parents, name)):
            raise OSError(errno.EPERM, "paths through .git, .coterie or .. are never changed")
        with open_folder_below(self.folder, parents, make=make) as folder:
            yield folder, name


def _read(parent: int, name: str) -> FileContent | None:
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode):
        return None
    if stat.S_ISLNK(facts.st_mode):
        return FileContent(LINK, os.fsencode(os.readlink(name, dir_fd=parent)))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if facts.st_size > LARGE:
        raise OSError(errno.EFBIG, f"it is over {LARGE // 1_000_000} MB")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        mode = EXECUTABLE if facts.st_mode & stat.S_IXUSR else PLAIN
        return FileContent(mode, file.read())


def _write(parent: int, name: str, fresh: str, entry: FileContent) -> None:
    runs = entry.mode == EXECUTABLE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, 0o777 if runs else 0o666, dir_fd=parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(entry.data)
        with suppress(FileNotFoundError):
            old = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISREG(old):
                os.fchmod(descriptor, _permissions(stat.S_IMODE(old), runs=runs))


def _permissions(old: int, *, runs: bool) -> int:
    """Return the old permissions, adjusted for whether the file is executable."""
    if not runs:
        return old & ~0o111
    return old if old & stat.S_IXUSR else old | (old & 0o444) >> 2
