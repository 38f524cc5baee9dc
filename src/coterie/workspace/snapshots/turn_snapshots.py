"""Snapshots around turns: taken before anything may change files, and again if anything did.

Most turns change nothing, so a folder gets a new snapshot only if it has changed since the last
one, as shown by the names, sizes and times of its files.  A turn under way is a small file; it
becomes a span in the repository once it has changed something.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import psutil

from coterie.errors import GitFailed, NotOurs
from coterie.model import instant
from coterie.workspace.beneath import (
    names_in,
    open_folder,
    regular_file,
    replace_file,
    walk,
    write_file,
)
from coterie.workspace.git_control_files import control_files
from coterie.workspace.snapshots.files import CurrentSnapshots, ignored_folders, take_snapshots
from coterie.workspace.snapshots.repository import (
    COUNT,
    OPEN,
    REFS,
    STATE,
    Snapshot,
    SnapshotRecord,
    SnapshotRepository,
)

_GIT = ".git"
_LEFT_OUT = frozenset({_GIT, ".coterie"})
_CHECK_IGNORE_ABOVE = 5_000
"""In a folder with more files than this, ask git once which subfolders it ignores."""
_MAX_FILES = 100_000
"""A folder outside git with more files than this (a disk, a home) gets no snapshots."""
_GRANULARITY = 20_000_000
"""Nanoseconds within which a file may change again and keep its timestamp."""


class FolderScan(NamedTuple):
    """What a scan of a folder found, without reading any file."""

    digest: str
    newest: int
    """When anything in it last changed, in nanoseconds."""
    folders: tuple[str, ...]
    files: int


class LastSnapshots(NamedTuple):
    """The last snapshots of a folder and of the repositories in it, with the scan made then."""

    look: str
    settled: bool
    """Whether a later change would show: nothing changed while they were taken."""
    skipped: tuple[str, ...]
    """Folders in it that git ignores, so that scans can skip them."""
    snapshots: tuple[Any, ...]
    """Each as returned by `Snapshot.stored`."""


@dataclass
class _OpenTurns:
    """A task's unfinished turns in one folder, treated as one."""

    last: LastSnapshots
    count: int = 1


class TurnSnapshots:
    """`ports.Snapshots` for a project.  Blocks.

    It never fails: problems are reported once, and noted for later requests for the task's changes.
    """

    def __init__(self, root: Path, report: Callable[[str], None] = lambda problem: None) -> None:
        self._root = root.resolve()
        self._project = self._root / ".coterie"
        self._repository = SnapshotRepository(self._root, self._project / "snapshots.git")
        self._report = report
        self._reported = False
        self._begun: dict[tuple[str, Path], _OpenTurns] = {}
        self._folder: int | None = None
        """Descriptor of the state folder while `open` keeps it open."""

    def open(self) -> None:
        """Keep the state folder open until `settle`, so that turns need not open it each time."""
        with (
            suppress(OSError, NotOurs),
            open_folder(self._repository.folder, STATE) as folder,
        ):
            self._folder = os.dup(folder)

    def before(self, task_id: str, folder: str) -> None:
        """Store a folder as it is: a turn of the task may change it from now on."""
        place = Path(folder).resolve()
        if place.is_relative_to(self._root / ".coterie" / "worktrees"):
            return  # changes of a ticket are committed
        if begun := self._begun.get((task_id, place)):
            begun.count += 1
            return
        with self._recording_problems(task_id):
            last = self._last(place)
            if last is None:
                _check_size(place)
            if last and not (last.settled and scan_folder(place, last.skipped).digest == last.look):
                last = None
            if last is None or self._was_interrupted(task_id, place, last):
                with self._repository.exclusive() as repository:
                    last = self._end_spans(repository, place, {task_id})
            if last is None:
                return
            self._write(_open_name(task_id, place), {**self._turn_data(task_id), **last._asdict()})
            self._begun[task_id, place] = _OpenTurns(last)

    def after(self, task_id: str, folder: str) -> None:
        """Store a folder as the turn left it, if it changed anything."""
        place = Path(folder).resolve()
        begun = self._begun.get((task_id, place))
        if begun is None:
            return
        begun.count -= 1
        if begun.count == 0:
            self._end(task_id, place)

    def settle(self) -> None:
        """Store what interrupted turns left, if they began here."""
        for task_id, place in list(self._begun):
            self._end(task_id, place)
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def has_kept(self, task_id: str) -> bool:
        """Whether anything may have been stored for a task or a part of it.  Runs no git."""
        folder = self._repository.folder
        refs = folder / REFS
        if (folder / "packed-refs").exists():  # somebody has packed the refs
            return True
        # Those of subtasks and tickets, in addition to its own.
        parts = (f"{OPEN}{quote(f'{task_id}{mark}', safe='')}" for mark in (".", "/"))
        begun = (_open_prefix(task_id), *parts)
        kept = (refs / task_id).is_dir() or any(refs.glob(f"{task_id}.*"))
        return kept or any(name.startswith(begun) for name in names_in(folder, STATE))

    def _end(self, task_id: str, place: Path) -> None:
        last = self._begun.pop((task_id, place)).last
        with self._recording_problems(task_id):
            if last.settled and scan_folder(place, last.skipped).digest == last.look:
                self._remove(_open_name(task_id, place))
                return
            with self._repository.exclusive() as repository:
                self._end_spans(repository, place, {task_id})

    def _end_spans(
        self, repository: SnapshotRepository, place: Path, tasks: Set[str]
    ) -> LastSnapshots | None:
        """End the spans that tasks began in a folder with its current state; None if it is gone."""
        last, taken = self._take(repository, place) if place.is_dir() else (None, [])
        current = CurrentSnapshots(repository, {one.folder: one for one in taken})
        at = instant.now()
        ended = [
            span
            for span in repository.spans()
            if span.after is None and span.task in tasks and span.folder.is_relative_to(place)
        ]
        for span in ended:
            repository.end(span, SnapshotRecord(current.of(span), at, whole=False))
            self._note_kept(span.task)
        for file in {span.file for span in ended} - {""}:
            repository.forget(file)
        return last

    def _note_kept(self, task_id: str) -> None:
        """Record outside the repository that it holds something for a task."""
        noted = self._project.joinpath(*kept_file(task_id)).exists()
        if not noted and (self._repository.folder / REFS / task_id).is_dir():
            write_file(self._project, kept_file(task_id), b"")

    def _take(
        self, repository: SnapshotRepository, place: Path
    ) -> tuple[LastSnapshots, list[Snapshot]]:
        """Take snapshots of a folder, and record what a scan of it finds."""
        earlier, begun = self._last(place), time.time_ns()
        taken = take_snapshots(repository, place)
        skipped = earlier.skipped if earlier else ()
        scan = scan_folder(place, skipped)
        if scan.files > _CHECK_IGNORE_ABOVE:
            skipped = (*skipped, *ignored_folders(repository, place, scan.folders))
            scan = scan_folder(place, skipped)
        stored = tuple(one.stored(self._root) for one in taken)
        last = LastSnapshots(scan.digest, scan.newest + _GRANULARITY < begun, skipped, stored)
        self._write(_last_name(place), last._asdict())
        return last, taken

    def _was_interrupted(self, task_id: str, place: Path, last: LastSnapshots) -> bool:
        """Whether an interrupted turn of the task has changed something here."""
        cut = self._read(_open_name(task_id, place))
        return cut is not None and cut.get("look") != last.look

    def _turn_data(self, task_id: str) -> dict[str, object]:
        """Return when and by which process a turn was begun.

        It takes no sequence number of its own, but that of the last record before it.
        """
        with self._state() as state:
            try:
                with regular_file(_opened(f"../{COUNT}", state)) as file:
                    last = int(file.read())
            except (OSError, ValueError):
                last = 0
        process = {"pid": os.getpid(), "started": psutil.Process().create_time()}
        return {"task": task_id, "at": instant.now(), "sequence": last, **process}

    def _last(self, place: Path) -> LastSnapshots | None:
        entry = self._read(_last_name(place))
        with suppress(TypeError, KeyError):
            if entry is not None:
                skipped, snapshots = tuple(entry["skipped"]), tuple(entry["snapshots"])
                return LastSnapshots(entry["look"], entry["settled"], skipped, snapshots)
        return None

    @contextmanager
    def _state(self) -> Generator[int]:
        """Open the state folder, creating it if needed."""
        if self._folder is not None:
            yield self._folder
            return
        with open_folder(self._project, self._repository.folder.name, STATE, make=True) as state:
            yield state

    def _read(self, name: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError, RecursionError), self._state() as state:
            with regular_file(_opened(name, state)) as file:
                data: object = json.load(file)
            return cast("dict[str, Any]", data) if isinstance(data, dict) else None
        return None

    def _write(self, name: str, kept: dict[str, Any]) -> None:
        with self._state() as state:
            replace_file(state, name, json.dumps(kept).encode())

    def _remove(self, name: str) -> None:
        with self._state() as state, suppress(FileNotFoundError):
            os.unlink(name, dir_fd=state)

    @contextmanager
    def _recording_problems(self, task_id: str) -> Generator[None]:
        try:
            yield
        except (GitFailed, OSError, NotOurs) as error:
            problem = error.output if isinstance(error, GitFailed) else str(error)
            with suppress(OSError, NotOurs):
                note = f"{problem}\n".encode(errors="replace")
                write_file(self._project, self._problems(task_id), note)
            if not self._reported:
                self._reported = True
                self._report(problem)

    def _problems(self, task_id: str) -> tuple[str, ...]:
        return (self._repository.folder.name, "problems", quote(task_id, safe=""))


def kept_file(task_id: str) -> tuple[str, str]:
    """Return the file that notes that a task has something stored, and what became of it since."""
    return ("kept", quote(task_id, safe=""))


def _opened(name: str, folder: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


def _hashed(place: Path) -> str:
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:24]


def _last_name(place: Path) -> str:
    return f"last-{_hashed(place)}"


def _open_prefix(task_id: str) -> str:
    return f"{OPEN}{quote(task_id, safe='')}-"


def _open_name(task_id: str, place: Path) -> str:
    return f"{_open_prefix(task_id)}{_hashed(place)}"


def scan_folder(place: Path, skipped: tuple[str, ...] = ()) -> FolderScan:
    """Scan all files of a folder, and those that decide which of them git ignores."""
    digest, files = hashlib.blake2b(digest_size=16), 0
    newest = place.stat().st_mtime_ns
    folders: list[str] = []
    for name, facts in _entries(place, frozenset(skipped)):
        figures = "/"
        if facts is not None:
            newest = max(newest, facts.st_mtime_ns, facts.st_ctime_ns)
        if facts is None or stat.S_ISDIR(facts.st_mode):
            folders.append(name)
        else:
            files, figures = files + 1, _stat_key(facts)
        digest.update(os.fsencode(f"{name}\0{figures}\0"))
    inner = [place / name for name in folders if Path(name).name == _GIT]
    has_git = inner or any(os.path.lexists(one / _GIT) for one in (place, *place.parents))
    tops = [place, *(git.parent for git in inner)] if has_git else []
    for rule in (*_rules(place), *(file for top in tops for file in control_files(top))):
        with suppress(OSError):
            digest.update(os.fsencode(f"{rule}\0{_stat_key(rule.stat())}\0"))
    return FolderScan(digest.hexdigest(), newest, tuple(folders), files)


def _check_size(place: Path) -> None:
    """Raise OSError if there are too many files to snapshot around a turn."""
    if any((folder / ".git").exists() for folder in (place, *place.parents)):
        return  # ignored files are not stored, and no repository tracks so many
    entries = _entries(place, frozenset())
    if next(islice(entries, _MAX_FILES, None), None) is not None:
        raise OSError(
            f"{place} contains more than {_MAX_FILES:,} files: its changes cannot be recorded"
        )


def _stat_key(facts: os.stat_result) -> str:
    times = f"{facts.st_mtime_ns} {facts.st_ctime_ns}"
    return f"{facts.st_mode} {facts.st_ino} {facts.st_size} {times}"


def _entries(place: Path, skipped: frozenset[str]) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield every file and folder below a place, in order; None for one that is not examined."""

    def is_examined(name: str) -> bool:
        return name not in skipped and name.rpartition("/")[2] not in _LEFT_OUT

    for name, entry in walk(place, is_examined):
        if entry.name in _LEFT_OUT or name in skipped:
            yield name, None
            continue
        with suppress(OSError):
            yield name, entry.stat(follow_symlinks=False)


def _rules(place: Path) -> Iterator[Path]:
    """Yield the files outside a folder by which git decides what in it is ignored or tracked."""
    for folder in (place, *place.parents):
        if folder != place:
            yield folder / ".gitignore"
        git = folder / ".git"
        if git.exists():
            yield from (git / "index", git / "info" / "exclude") if git.is_dir() else (git,)
            return
