"""Snapshots of the folders that turns change: kept around each turn, shown and taken back later."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import GitFailed, UsageError
from coterie.model import instant
from coterie.workspace.snapshots.capture import CurrentSnapshots, keep
from coterie.workspace.snapshots.changes import Patch, TaskChanges, belongs, by_folder, patch_of
from coterie.workspace.snapshots.repository import (
    ChangeSpan,
    FileChange,
    SnapshotLog,
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
    """When all of it was taken back."""
    problem: str | None = None
    """What kept some or all of its files from being looked after."""


class FolderSnapshots:
    """`ports.Snapshots` for a project, and all that can be made of them.  Blocks.

    Keeping never fails: what goes wrong is told once, and noted for whoever asks for the task's
    changes later.  Looking and taking back raise GitFailed.
    """

    def __init__(self, root: Path, tell: Callable[[str], None] = lambda problem: None) -> None:
        self._root = root.resolve()
        self._shadow = SnapshotRepository(self._root / ".coterie" / "snapshots.git")
        self._tell = tell
        self._told = False
        self._begun: dict[tuple[str, Path], list[ChangeSpan]] = {}
        """By task and folder: the turn that was begun here and is not over."""

    # -- keeping -------------------------------------------------------------------------------

    def before(self, task_id: str, folder: str) -> None:
        """Keep a folder as it is: a turn of the task may change it from now on."""
        at, place = instant.now(), Path(folder).resolve()
        with self._noting(task_id), self._alone() as record:
            spans = record.spans(task_id)
            moments = [SnapshotRecord(kept, at) for kept in keep(record.shadow, place)]
            present = {moment.snapshot.folder: moment for moment in moments}
            for span in spans:
                if span.after is None and span.folder in present:  # it was cut
                    record.end(span, replace(present[span.folder], whole=False))
            number = max((span.number for span in spans), default=0) + 1
            self._begun[task_id, place] = record.begin(task_id, number, moments)

    def after(self, task_id: str, folder: str) -> None:
        """Keep a folder as the turn left it."""
        begun = self._begun.pop((task_id, Path(folder).resolve()), None)
        if begun is not None:
            with self._noting(task_id), self._alone() as record:
                _end(record, begun)

    def settle(self) -> None:
        """Keep what turns left that were begun here and then cut."""
        for task_id, place in list(self._begun):
            self.after(task_id, str(place))

    def end_cut_turns(self, task_id: str) -> None:
        """Let what a task's cut turns changed be all until now; nobody may be running it."""
        if not self.has_kept(task_id):
            return
        with self._alone() as record:
            spans = (span for span in record.spans() if belongs(span, task_id))
            _end(record, (span for span in spans if span.after is None))

    # -- looking -------------------------------------------------------------------------------

    def has_kept(self, task_id: str) -> bool:
        """Whether anything may have been kept for a task; costs next to nothing."""
        return SnapshotLog(self._shadow, self._root).is_known(task_id)

    def changes(self, task_id: str) -> tuple[FileChange, ...]:
        """What the turns of a task changed, turn by turn."""
        if not self.has_kept(task_id):
            return ()
        with self._alone() as record:
            look = TaskChanges.at(record, task_id)
            return look.found(look.history.turns).changes

    def diff(self, task_id: str) -> TaskDiff:
        """What a task changed, as patches."""
        problem = self._problem(task_id)
        if not self.has_kept(task_id):
            return TaskDiff(problem=problem)
        with self._alone() as record:
            look = TaskChanges.at(record, task_id)
            history = look.history
            found = look.found(history.turns)
            patches = [
                self._patch(record, folder, changes)
                for folder, changes in by_folder(found.changes).items()
            ]
        return TaskDiff(
            tuple(patch for patch in patches if patch.files),
            tuple(SkippedFile(self._shown(one.folder, one.path), one.why) for one in found.missed),
            history.reverted_at,
            problem,
        )

    # -- taking back ---------------------------------------------------------------------------

    def revert(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Take back exactly what a task changed; nobody may be running it.

        What others did since stays.  UsageError where it was reverted already, or cannot be.
        """
        if not self.has_kept(task_id):
            problem = self._problem(task_id)
            if problem is not None:
                raise UsageError(f"{task_id} cannot be reverted: nothing was kept, {problem}.")
            return RevertResult()
        with self._alone() as record:
            return Revert(TaskChanges.at(record, task_id), self._shown, dry_run).revert()

    def undo(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Take back the last revert of a task; UsageError where there is none."""
        with self._alone() as record:
            return Revert(TaskChanges.at(record, task_id), self._shown, dry_run).undo()

    # -- parts ---------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Generator[SnapshotLog]:
        with self._shadow.alone() as shadow:
            yield SnapshotLog(shadow, self._root)

    @contextmanager
    def _noting(self, task_id: str) -> Generator[None]:
        try:
            yield
        except (GitFailed, OSError) as error:
            problem = error.said if isinstance(error, GitFailed) else str(error)
            with suppress(OSError):
                note = self._problems(task_id)
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(f"{problem}\n", encoding="utf-8", errors="replace")
            if not self._told:
                self._told = True
                self._tell(problem)

    def _problem(self, task_id: str) -> str | None:
        with suppress(OSError):
            return self._problems(task_id).read_text(encoding="utf-8").strip()
        return None

    def _problems(self, task_id: str) -> Path:
        return self._shadow.folder / "problems" / task_id

    def _patch(self, record: SnapshotLog, folder: Path, changes: Iterable[FileChange]) -> Patch:
        made = patch_of(record.shadow, folder, self._prefix(folder), changes)
        cut = len(made.prefix)
        shown = (replace(one, path=self._shown(folder, one.path[cut:])) for one in made.files)
        return replace(made, files=tuple(shown))

    def _prefix(self, folder: Path) -> str:
        """What a path in a folder of the user's begins with, from the root; else nothing."""
        if folder == self._root or not folder.is_relative_to(self._root):
            return ""
        inside = folder.relative_to(self._root)
        return "" if inside.parts[0] == ".coterie" else f"{inside.as_posix()}/"

    def _shown(self, folder: Path, path: str) -> str:
        place = folder / path
        inside = place.is_relative_to(self._root)
        return str(place.relative_to(self._root) if inside else place)


def _end(record: SnapshotLog, spans: Iterable[ChangeSpan]) -> None:
    """SnapshotLog what has become of spans by now."""
    present = CurrentSnapshots(record.shadow)
    found = [(span, present.of(span)) for span in spans]
    at = instant.now()
    for span, snapshot in found:
        record.end(span, SnapshotRecord(snapshot, at, whole=False))
