"""Reverting a task's changes file by file, keeping what others did to the same files.

A revert is recorded like a turn, so it can be undone too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from coterie.errors import GitFailed, UsageError
from coterie.model import instant
from coterie.workspace.snapshots.changes import Blob, FileChange, TaskChanges, group_by_folder
from coterie.workspace.snapshots.files import LINK, FileContent, FolderFiles, take_snapshots
from coterie.workspace.snapshots.repository import (
    ChangeSpan,
    SnapshotRecord,
    SnapshotRepository,
    SpanKind,
)

_TEXT = 8000
"""How many bytes decide whether a file is text; git checks as many."""


@dataclass(frozen=True)
class SkippedFile:
    """A file that was left as it is."""

    path: str
    why: str


@dataclass(frozen=True)
class RevertStep:
    """What to do with one file."""

    path: str
    present: FileContent | None
    wanted: FileContent | None
    merged: bool
    """Whether it keeps changes that others made."""


@dataclass
class RevertPlan:
    """What to do with the files of one folder."""

    folder: Path
    steps: list[RevertStep] = field(default_factory=list[RevertStep])
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])


class _Skip(Exception):
    """The file must stay as it is."""


def make_plan(
    repository: SnapshotRepository, folder: Path, changes: Sequence[FileChange]
) -> RevertPlan:
    """Plan how to revert the changes to one folder, without doing it."""
    plan = RevertPlan(folder)
    if not folder.is_dir():
        gone = sorted({change.path for change in changes})
        plan.skipped = [SkippedFile(path, "its folder is gone") for path in gone]
        return plan
    blobs = [blob for change in changes for blob in (change.before, change.after) if blob]
    undo = _Undo(repository, repository.contents(blob.id for blob in blobs))
    files = FolderFiles(folder)
    for path in sorted({change.path for change in changes}):
        mine = [change for change in changes if change.path == path]
        try:
            present = files.read(path)
            wanted = undo.all(present, mine)
        except _Skip as skip:
            plan.skipped.append(SkippedFile(path, str(skip)))
        except OSError as error:
            plan.skipped.append(SkippedFile(path, error.strerror or str(error)))
        else:
            if wanted != present:
                plan.steps.append(
                    RevertStep(path, present, wanted, wanted != undo.content(mine[0].before))
                )
    return plan


@dataclass(frozen=True)
class _Undo:
    repository: SnapshotRepository
    contents: Mapping[str, bytes]

    def content(self, blob: Blob | None) -> FileContent | None:
        return None if blob is None else FileContent(blob.mode, self.contents[blob.id])

    def all(self, present: FileContent | None, changes: Sequence[FileChange]) -> FileContent | None:
        """Return the file without these changes, reverting the newest first."""
        for change in reversed(changes):
            before, after = self.content(change.before), self.content(change.after)
            if present == before:
                continue
            if change.also:
                raise _Skip(
                    f"{change.also} was running in this folder at the same time and changed it too"
                )
            present = before if present == after else self._without(present, before, after)
        return present

    def _without(
        self, present: FileContent | None, before: FileContent | None, after: FileContent | None
    ) -> FileContent | None:
        """Return the file without one change, if somebody has changed it since."""
        if present is None:
            raise _Skip("somebody has removed it since")
        if before is None:
            raise _Skip("it was new, and somebody has changed it since")
        if after is None:
            raise _Skip("it was removed, and somebody has recreated it since")
        if LINK in (present.mode, before.mode, after.mode):
            raise _Skip("it is or was a link, and somebody has changed it since")
        mode = before.mode if present.mode == after.mode else present.mode
        return FileContent(mode, self._merged(present.data, before.data, after.data))

    def _merged(self, present: bytes, before: bytes, after: bytes) -> bytes:
        if present == after:
            return before
        if before in (after, present):
            return present
        if any(b"\0" in data[:_TEXT] for data in (present, before, after)):
            raise _Skip("it is not text, and somebody has changed it since")
        with tempfile.TemporaryDirectory() as scratch:
            names = ("present", "after", "before")
            for name, data in zip(names, (present, after, before), strict=True):
                Path(scratch, name).write_bytes(data)
            try:
                output = self.repository.run("merge-file", "-p", "-q", *names, work=Path(scratch))
            except GitFailed as failed:
                if failed.status is None or failed.status > 127:
                    raise
                raise _Skip("somebody has changed the same lines since") from None
        return output.encode("utf-8", "surrogateescape")


def apply_plan(plan: RevertPlan, known: frozenset[str]) -> RevertPlan:
    """Carry out a plan; return what was done, and what had to be skipped after all.

    `known` are the folders that existed before the changes; others are removed once empty.
    """
    done, files = RevertPlan(plan.folder, [], list(plan.skipped)), FolderFiles(plan.folder)
    for step in (step for step in plan.steps if step.wanted is None):
        _apply_step(files, step, done)
    for step in done.steps:
        for parent in PurePosixPath(step.path).parents:
            if str(parent) in known or str(parent) == "." or not files.remove_empty(str(parent)):
                break
    for step in (step for step in plan.steps if step.wanted is not None):
        _apply_step(files, step, done)
    return done


def _apply_step(files: FolderFiles, step: RevertStep, done: RevertPlan) -> None:
    try:
        if files.read(step.path) != step.present:
            done.skipped.append(SkippedFile(step.path, "somebody is changing it right now"))
            return
        if step.wanted is None:
            files.remove(step.path)
        else:
            files.write(step.path, step.wanted)
    except OSError as error:
        done.skipped.append(SkippedFile(step.path, error.strerror or str(error)))
    else:
        done.steps.append(step)


@dataclass(frozen=True)
class RevertResult:
    """What happened to each file whose changes were to be reverted."""

    restored: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Restored too, but they still contain what others changed since."""
    removed: tuple[str, ...] = ()
    kept: tuple[SkippedFile, ...] = ()
    """Left as they are, with the reason."""

    @property
    def did_something(self) -> bool:
        """Whether any file was changed, or would be."""
        return bool(self.restored or self.merged or self.removed)


@dataclass(frozen=True)
class Revert:
    """Reverts changes of a task; the repository is locked."""

    task_changes: TaskChanges
    shown: Callable[[Path, str], str]
    """Returns how to show a file of a folder to the user."""
    dry_run: bool = False

    def revert(self) -> RevertResult:
        """Revert what the task changed; later changes by others stay."""
        history, task = self.task_changes.history, self.task_changes.task
        if history.reverted_at is not None:
            raise UsageError(f"{task} was reverted already.", f"coterie revert {task} --undo")
        changed = self.task_changes.of(history.turns)
        result = self._revert_or_undo("revert", history.turns, changed.changes)
        missed = (SkippedFile(self.shown(*file), why) for file, why in changed.missed.items())
        return replace(result, kept=(*result.kept, *missed))

    def undo(self) -> RevertResult:
        """Revert the last revert."""
        reverts, task = self.task_changes.history.reverts, self.task_changes.task
        if not reverts:
            raise UsageError(f"{task} was not reverted.", f"coterie diff {task}")
        changes = self.task_changes.of(reverts[-1]).changes
        return self._revert_or_undo("undo", reverts[-1], changes)

    def _revert_or_undo(
        self, kind: SpanKind, spans: Sequence[ChangeSpan], changes: Sequence[FileChange]
    ) -> RevertResult:
        repository = self.task_changes.repository
        plans = [
            make_plan(repository, folder, its) for folder, its in group_by_folder(changes).items()
        ]
        if not self.dry_run and any(plan.steps for plan in plans):
            first = {span.folder: span.before.snapshot.tree for span in reversed(spans)}
            plans = self._apply_and_record(kind, plans, first)
        return self._result(plans)

    def _apply_and_record(
        self, kind: SpanKind, plans: Sequence[RevertPlan], first: Mapping[Path, str]
    ) -> list[RevertPlan]:
        """Carry out plans, recording snapshots of each affected folder before and after."""
        repository, task = self.task_changes.repository, self.task_changes.task

        def record(plan: RevertPlan, *, whole: bool = False) -> SnapshotRecord:
            snapshot = take_snapshots(repository, plan.folder)[0]
            return SnapshotRecord(snapshot, instant.now(), kind=kind, whole=whole)

        def folders(tree: str) -> frozenset[str]:
            words = ("ls-tree", "-r", "-d", "-z", "--name-only", tree)
            return frozenset(repository.run(*words).split("\0"))

        numbers = [span.number for span in self.task_changes.own_spans if span.task == task]
        active = [plan for plan in plans if plan.steps]
        spans = repository.begin(task, max(numbers, default=0) + 1, map(record, active))
        done = [apply_plan(plan, folders(first[plan.folder])) for plan in active]
        done += (plan for plan in plans if not plan.steps)
        whole = not any(plan.skipped for plan in done)
        for span, plan in zip(spans, done, strict=False):
            repository.end(span, record(plan, whole=whole))
        return done

    def _result(self, plans: Sequence[RevertPlan]) -> RevertResult:
        steps = [
            (self.shown(plan.folder, step.path), step) for plan in plans for step in plan.steps
        ]
        written = [(path, step.merged) for path, step in steps if step.wanted is not None]
        skipped = (
            replace(file, path=self.shown(plan.folder, file.path))
            for plan in plans
            for file in plan.skipped
        )
        return RevertResult(
            restored=tuple(path for path, merged in written if not merged),
            merged=tuple(path for path, merged in written if merged),
            removed=tuple(path for path, step in steps if step.wanted is None),
            kept=tuple(skipped),
        )
