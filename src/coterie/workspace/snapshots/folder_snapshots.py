"""Snapshots of the folders that turns change: stored around each turn, shown and reverted later."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import GitFailed, NotOurs, UsageError
from coterie.model import instant
from coterie.workspace.beneath import read_file, write_file
from coterie.workspace.snapshots.changes import (
    FileChange,
    Patch,
    TaskChanges,
    belongs,
    by_folder,
    patch_of,
)
from coterie.workspace.snapshots.files import CurrentSnapshots, take_snapshots
from coterie.workspace.snapshots.repository import (
    REFS,
    ChangeSpan,
    SnapshotRecord,
    SnapshotRepository,
)
from coterie.workspace.snapshots.revert import Revert, RevertResult, SkippedFile


@dataclass(frozen=True)
class TaskDiff:
    """What a task changed."""

    patches: tuple[Patch, ...] = ()
    """One per folder."""
    missed: tuple[SkippedFile, ...] = ()
    """What it may have changed besides, each with why that is not known."""
    reverted_at: str | None = None
    """When all of it was reverted."""
    problem: str | None = None
    """Why some or all of its files could not be stored."""


class FolderSnapshots:
    """`ports.Snapshots` for a project, and all that can be made of them.  Blocks.

    Storing never fails: what goes wrong is reported once, and noted for whoever asks for the
    task's changes later.  Showing and reverting raise GitFailed.
    """

    def __init__(self, root: Path, report: Callable[[str], None] = lambda problem: None) -> None:
        self._root = root.resolve()
        self._project = self._root / ".coterie"
        self._repository = SnapshotRepository(self._root, self._project / "snapshots.git")
        self._report = report
        self._reported = False
        self._begun: dict[tuple[str, Path], list[ChangeSpan]] = {}
        """By task and folder: the turn that was begun here and is not over."""

    def before(self, task_id: str, folder: str) -> None:
        """Store a folder as it is: a turn of the task may change it from now on."""
        at, place = instant.now(), Path(folder).resolve()
        if place.is_relative_to(self._root / ".coterie" / "worktrees"):
            return  # what is done to a ticket is committed
        with self._noting_problems(task_id), self._repository.alone() as repository:
            spans = repository.spans(task_id)
            taken = [SnapshotRecord(each, at) for each in take_snapshots(repository, place)]
            current = {record.snapshot.folder: record for record in taken}
            for span in spans:
                if span.after is None and span.folder in current:  # it was interrupted
                    repository.end(span, replace(current[span.folder], whole=False))
            number = max((span.number for span in spans), default=0) + 1
            self._begun[task_id, place] = repository.begin(task_id, number, taken)

    def after(self, task_id: str, folder: str) -> None:
        """Store a folder as the turn left it."""
        begun = self._begun.pop((task_id, Path(folder).resolve()), None)
        if begun is not None:
            with self._noting_problems(task_id), self._repository.alone() as repository:
                _end(repository, begun)

    def settle(self) -> None:
        """Store what turns left that were begun here and then interrupted."""
        for task_id, place in list(self._begun):
            self.after(task_id, str(place))

    def end_cut_turns(self, task_id: str) -> None:
        """End interrupted turns of a task with what is there now; nobody may be running it."""
        if not self.has_kept(task_id):
            return
        with self._repository.alone() as repository:
            spans = (span for span in repository.spans() if belongs(span, task_id))
            _end(repository, (span for span in spans if span.after is None))

    def has_kept(self, task_id: str) -> bool:
        """Whether anything may have been stored for a task or a part of it.  Runs no git."""
        folder = self._repository.folder
        refs = folder / REFS
        packed = (folder / "packed-refs").exists()  # somebody tidied up
        return packed or (refs / task_id).is_dir() or any(refs.glob(f"{task_id}.*"))

    def diff(self, task_id: str) -> TaskDiff:
        """What a task changed, as patches."""
        problem = self._problem(task_id)
        if not self.has_kept(task_id):
            return TaskDiff(problem=problem)
        with self._repository.alone() as repository:
            task_changes = TaskChanges.read(repository, task_id)
            history = task_changes.history
            found = task_changes.of(history.turns)
            patches = [
                self._patch(repository, folder, changes)
                for folder, changes in by_folder(found.changes).items()
            ]
        return TaskDiff(
            tuple(patch for patch in patches if patch.files),
            tuple(SkippedFile(self._shown(*file), why) for file, why in found.missed.items()),
            history.reverted_at,
            problem,
        )

    def revert(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Revert exactly what a task changed; nobody may be running it.

        What others did since stays.  UsageError where it was reverted already, or cannot be.
        """
        if not self.has_kept(task_id):
            problem = self._problem(task_id)
            if problem is not None:
                raise UsageError(f"{task_id} cannot be reverted: nothing was kept, {problem}.")
            return RevertResult()
        with self._repository.alone() as repository:
            return Revert(TaskChanges.read(repository, task_id), self._shown, dry_run).revert()

    def undo(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Undo the last revert of a task; UsageError where there is none."""
        with self._repository.alone() as repository:
            return Revert(TaskChanges.read(repository, task_id), self._shown, dry_run).undo()

    @contextmanager
    def _noting_problems(self, task_id: str) -> Generator[None]:
        try:
            yield
        except (GitFailed, OSError, NotOurs) as error:
            problem = error.said if isinstance(error, GitFailed) else str(error)
            with suppress(OSError, NotOurs):
                note = f"{problem}\n".encode(errors="replace")
                write_file(self._project, self._problems(task_id), note)
            if not self._reported:
                self._reported = True
                self._report(problem)

    def _problem(self, task_id: str) -> str | None:
        with suppress(OSError, NotOurs):
            return (
                read_file(self._project, *self._problems(task_id)).decode(errors="replace").strip()
            )
        return None

    def _problems(self, task_id: str) -> tuple[str, ...]:
        return (self._repository.folder.name, "problems", task_id)

    def _patch(
        self, repository: SnapshotRepository, folder: Path, changes: Iterable[FileChange]
    ) -> Patch:
        prefix = ""
        if folder != self._root and folder.is_relative_to(self._root):
            inside = folder.relative_to(self._root)
            prefix = "" if inside.parts[0] == ".coterie" else f"{inside.as_posix()}/"
        made = patch_of(repository, folder, prefix, changes)
        cut = len(prefix)
        shown = (replace(file, path=self._shown(folder, file.path[cut:])) for file in made.files)
        return replace(made, files=tuple(shown))

    def _shown(self, folder: Path, path: str) -> str:
        place = folder / path
        inside = place.is_relative_to(self._root)
        return str(place.relative_to(self._root) if inside else place)


def _end(repository: SnapshotRepository, spans: Iterable[ChangeSpan]) -> None:
    """End spans with what their folders are now."""
    current = CurrentSnapshots(repository)
    taken = [(span, current.of(span)) for span in spans]
    at = instant.now()
    for span, snapshot in taken:
        repository.end(span, SnapshotRecord(snapshot, at, whole=False))
