"""What a task changed, from the snapshots around its turns: showing and reverting it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coterie.errors import NotOurs, UsageError
from coterie.model.workspace import shown
from coterie.workspace.beneath import read_file, write_file
from coterie.workspace.snapshots.changes import (
    FileChange,
    Patch,
    TaskChanges,
    group_by_folder,
    is_part_of,
    patch_of,
)
from coterie.workspace.snapshots.repository import ChangeSpan, SnapshotRepository
from coterie.workspace.snapshots.revert import Revert, RevertResult, SkippedFile
from coterie.workspace.snapshots.turn_snapshots import TurnSnapshots, kept_file


@dataclass(frozen=True)
class TaskDiff:
    """What a task changed."""

    patches: tuple[Patch, ...] = ()
    """One per folder."""
    missed: tuple[SkippedFile, ...] = ()
    """What else it may have changed, each with why that is unknown."""
    reverted_at: str | None = None
    """When all of it was reverted."""
    problem: str | None = None
    """Why some or all of its files could not be stored."""
    accepted: str | None = None
    """The commit that took it into the user's branch."""


class FolderSnapshots(TurnSnapshots):
    """All operations on a project's snapshots.  Showing and reverting raise GitFailed."""

    def end_cut_turns(self, task_id: str) -> None:
        """End a task's interrupted turns with the current files; the task must not be running."""
        if not self.has_kept(task_id):
            return
        with self._repository.exclusive() as repository:
            spans = [span for span in repository.spans() if is_part_of(span, task_id)]
            for place in {span.folder for span in spans if span.after is None}:
                self._end_spans(repository, place, {span.task for span in spans})

    def spans(self, task_id: str) -> list[ChangeSpan]:
        """Return what is stored for a task and its parts."""
        with self._repository.exclusive() as repository:
            return [span for span in repository.spans() if is_part_of(span, task_id)]

    def remove(self, tasks: Iterable[str], why: str) -> None:
        """Delete what is stored for tasks; later requests for their changes are told why."""
        with self._repository.exclusive() as repository:
            for task_id in tasks:
                for name in {span.task for span in repository.spans() if is_part_of(span, task_id)}:
                    write_file(self._project, kept_file(name), f"{why}\n".encode())
                    repository.drop_task(name)
            repository.prune()

    def diff(self, task_id: str) -> TaskDiff:
        """Return what a task changed, as patches."""
        problem = self._problem(task_id)
        if not self.has_kept(task_id):
            return TaskDiff(problem=problem)
        with self._repository.exclusive() as repository:
            task_changes = TaskChanges.read(repository, task_id)
            history = task_changes.history
            changed = task_changes.of(history.turns)
            patches = [
                self._patch(repository, folder, changes)
                for folder, changes in group_by_folder(changed.changes).items()
            ]
        return TaskDiff(
            tuple(patch for patch in patches if patch.files),
            tuple(SkippedFile(self._shown(*file), why) for file, why in changed.missed.items()),
            history.reverted_at,
            problem,
        )

    def revert(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Revert exactly what a task changed; the task must not be running.

        Later changes by others stay.  UsageError if it was reverted already, or cannot be.
        """
        if not self.has_kept(task_id):
            problem = self._problem(task_id)
            if problem is not None:
                raise UsageError(
                    f"{task_id} cannot be reverted: no snapshots were stored, because {problem}."
                )
            return RevertResult()
        with self._repository.exclusive() as repository:
            return Revert(TaskChanges.read(repository, task_id), self._shown, dry_run).revert()

    def undo(self, task_id: str, *, dry_run: bool = False) -> RevertResult:
        """Undo the last revert of a task; UsageError if there is none."""
        with self._repository.exclusive() as repository:
            return Revert(TaskChanges.read(repository, task_id), self._shown, dry_run).undo()

    def _problem(self, task_id: str) -> str | None:
        with suppress(OSError, NotOurs):
            return self._note(*self._problems(task_id))
        with suppress(OSError, NotOurs):
            cleaned = self._note(*kept_file(task_id))
            if cleaned:
                return cleaned
            if not self.has_kept(task_id):
                return f"{shown(self._repository.folder)} no longer has any snapshots of it"
        return None

    def _note(self, *names: str) -> str:
        return read_file(self._project, *names).decode(errors="replace").strip()

    def _patch(
        self, repository: SnapshotRepository, folder: Path, changes: Iterable[FileChange]
    ) -> Patch:
        prefix = ""
        if folder != self._root and folder.is_relative_to(self._root):
            inside = folder.relative_to(self._root)
            prefix = "" if inside.parts[0] == ".coterie" else f"{inside.as_posix()}/"
        patch = patch_of(repository, folder, prefix, changes)
        cut = len(prefix)
        shown = (replace(file, path=self._shown(folder, file.path[cut:])) for file in patch.files)
        return replace(patch, files=tuple(shown))

    def _shown(self, folder: Path, path: str) -> str:
        place = folder / path
        inside = place.is_relative_to(self._root)
        return str(place.relative_to(self._root) if inside else place)
