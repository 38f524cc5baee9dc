"""Reverting a task's changes file by file; what somebody else did to the same file stays.

A revert is recorded like a turn, so that it can be undone too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from coterie.errors import GitFailed, UsageError
from coterie.model import instant
from coterie.workspace.snapshots.capture import keep
from coterie.workspace.snapshots.changes import TaskChanges, by_folder
from coterie.workspace.snapshots.files import FolderFiles
from coterie.workspace.snapshots.repository import (
    LINK,
    Blob,
    ChangeSpan,
    Does,
    FileChange,
    FileContent,
    SnapshotRecord,
    SnapshotRepository,
)

_TEXT = 8000
"""So many bytes say whether a file is text; git looks at as many."""


@dataclass(frozen=True)
class SkippedFile:
    """A file that was left as it is."""

    path: str
    why: str


@dataclass(frozen=True)
class RevertStep:
    """What has to become of one file."""

    path: str
    present: FileContent | None
    wanted: FileContent | None
    merged: bool
    """Whether something that others changed stays in it."""


@dataclass
class RevertPlan:
    """What has to become of the files of one folder."""

    folder: Path
    steps: list[RevertStep] = field(default_factory=list[RevertStep])
    stays: list[SkippedFile] = field(default_factory=list[SkippedFile])


class _Leave(Exception):
    """The file has to stay as it is."""


def plan(shadow: SnapshotRepository, folder: Path, changes: Sequence[FileChange]) -> RevertPlan:
    """How to take the changes to one folder back; nothing is done yet."""
    made = RevertPlan(folder)
    if not folder.is_dir():
        gone = sorted({change.path for change in changes})
        made.stays = [SkippedFile(path, "its folder is gone") for path in gone]
        return made
    blobs = [blob for change in changes for blob in (change.before, change.after) if blob]
    undo = _Undo(shadow, shadow.contents(blob.id for blob in blobs))
    files = FolderFiles(folder)
    for path in sorted({change.path for change in changes}):
        mine = [change for change in changes if change.path == path]
        try:
            present = files.read(path)
            wanted = undo.all(present, mine)
        except _Leave as leave:
            made.stays.append(SkippedFile(path, str(leave)))
        except OSError as error:
            made.stays.append(SkippedFile(path, _reason(error)))
        else:
            if wanted != present:
                made.steps.append(
                    RevertStep(path, present, wanted, wanted != undo.entry(mine[0].before))
                )
    return made


@dataclass(frozen=True)
class _Undo:
    shadow: SnapshotRepository
    contents: Mapping[str, bytes]

    def entry(self, blob: Blob | None) -> FileContent | None:
        return None if blob is None else FileContent(blob.mode, self.contents[blob.id])

    def all(self, present: FileContent | None, changes: Sequence[FileChange]) -> FileContent | None:
        """The file without these changes, the newest taken back first."""
        for change in reversed(changes):
            before, after = self.entry(change.before), self.entry(change.after)
            if present == before:
                continue
            if change.also:
                raise _Leave(f"{change.also} worked here at the same time and changed it too")
            present = before if present == after else self._without(present, before, after)
        return present

    def _without(
        self, present: FileContent | None, before: FileContent | None, after: FileContent | None
    ) -> FileContent | None:
        """Somebody changed the file since."""
        if present is None:
            raise _Leave("somebody has removed it since")
        if before is None:
            raise _Leave("it was new, and somebody has changed it since")
        if after is None:
            raise _Leave("it was removed, and somebody has made it anew")
        if LINK in (present.mode, before.mode, after.mode):
            raise _Leave("it is or was a link, and somebody has changed it since")
        mode = before.mode if present.mode == after.mode else present.mode
        return FileContent(mode, self._merged(present.data, before.data, after.data))

    def _merged(self, present: bytes, before: bytes, after: bytes) -> bytes:
        if present == after:
            return before
        if before in (after, present):
            return present
        if any(b"\0" in data[:_TEXT] for data in (present, before, after)):
            raise _Leave("it is no text, and somebody has changed it since")
        with tempfile.TemporaryDirectory() as scratch:
            names = ("present", "after", "before")
            for name, data in zip(names, (present, after, before), strict=True):
                Path(scratch, name).write_bytes(data)
            try:
                told = self.shadow.run("merge-file", "-p", "-q", *names, work=Path(scratch))
            except GitFailed as failed:
                if failed.status is None or failed.status > 127:
                    raise
                raise _Leave("somebody has changed the same lines since") from None
        return told.encode("utf-8", "surrogateescape")


# -- doing it ----------------------------------------------------------------------------------


def carry_out(made: RevertPlan, known: frozenset[str]) -> RevertPlan:
    """Do what a plan says; what was done, and what had to stay after all.

    `known` are the folders that were there before the changes; others that get empty go too.
    """
    done, files = RevertPlan(made.folder, [], list(made.stays)), FolderFiles(made.folder)
    removals = [step for step in made.steps if step.wanted is None]
    for step in removals:
        _carry_out(files, step, done)
    _remove_empty(files, done.steps, known)
    for step in made.steps:
        if step.wanted is not None:
            _carry_out(files, step, done)
    return done


def _carry_out(files: FolderFiles, step: RevertStep, done: RevertPlan) -> None:
    try:
        if files.read(step.path) != step.present:
            done.stays.append(SkippedFile(step.path, "somebody is changing it right now"))
            return
        if step.wanted is None:
            files.remove(step.path)
        else:
            files.write(step.path, step.wanted)
    except OSError as error:
        done.stays.append(SkippedFile(step.path, _reason(error)))
    else:
        done.steps.append(step)


def _remove_empty(files: FolderFiles, removed: Iterable[RevertStep], known: frozenset[str]) -> None:
    for step in removed:
        for parent in PurePosixPath(step.path).parents:
            if str(parent) in known or str(parent) == "." or not files.remove_empty(str(parent)):
                break


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@dataclass(frozen=True)
class RevertResult:
    """What became of each file whose changes were to be taken back."""

    restored: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Restored as well, but what others changed since is still in them."""
    removed: tuple[str, ...] = ()
    kept: tuple[SkippedFile, ...] = ()
    """Left as they are, with the reason."""

    @property
    def did_something(self) -> bool:
        """Whether any file was changed, or would be."""
        return bool(self.restored or self.merged or self.removed)


@dataclass(frozen=True)
class Revert:
    """Takes changes back; the lock is held."""

    look: TaskChanges
    shown: Callable[[Path, str], str]
    """How a file of a folder is called."""
    dry_run: bool = False

    def revert(self) -> RevertResult:
        """Take back what the task changed; what others did since stays."""
        history, task = self.look.history, self.look.task
        if history.reverted_at is not None:
            raise UsageError(f"{task} was reverted already.", f"coterie revert {task} --undo")
        found = self.look.found(history.turns)
        reverted = self._take_back("revert", history.turns, found.changes)
        missed = tuple(
            SkippedFile(self.shown(one.folder, one.path), one.why) for one in found.missed
        )
        return replace(reverted, kept=reverted.kept + missed)

    def undo(self) -> RevertResult:
        """Take back the last revert."""
        reverts, task = self.look.history.reverts, self.look.task
        if not reverts:
            raise UsageError(f"{task} was not reverted.", f"coterie diff {task}")
        return self._take_back("undo", reverts[-1], self.look.found(reverts[-1]).changes)

    def _take_back(
        self, does: Does, spans: Sequence[ChangeSpan], changes: Sequence[FileChange]
    ) -> RevertResult:
        shadow = self.look.record.shadow
        plans = [plan(shadow, folder, its) for folder, its in by_folder(changes).items()]
        if self.dry_run or not any(made.steps for made in plans):
            return self._told(plans)
        first = {span.folder: span.before.snapshot.tree for span in reversed(spans)}
        return self._told(self._on_record(does, plans, first))

    def _on_record(
        self, does: Does, plans: Sequence[RevertPlan], first: Mapping[Path, str]
    ) -> list[RevertPlan]:
        """Carry plans out between two snapshots of each folder that something is done in."""
        record, task = self.look.record, self.look.task
        numbers = [span.number for span in self.look.mine if span.task == task]
        active = [made for made in plans if made.steps]
        begun = [self._moment(made, does) for made in active]
        spans = record.begin(task, max(numbers, default=0) + 1, begun)
        done = [carry_out(made, self._folders(first[made.folder])) for made in active]
        done += (made for made in plans if not made.steps)
        whole = not any(made.stays for made in done)
        for span, made in zip(spans, done, strict=False):
            record.end(span, self._moment(made, does, whole=whole))
        return done

    def _moment(self, made: RevertPlan, does: Does, *, whole: bool = False) -> SnapshotRecord:
        snapshot = keep(self.look.record.shadow, made.folder)[0]
        return SnapshotRecord(snapshot, instant.now(), does=does, whole=whole)

    def _folders(self, tree: str) -> frozenset[str]:
        words = ("ls-tree", "-r", "-d", "-z", "--name-only", tree)
        return frozenset(self.look.record.shadow.run(*words).split("\0"))

    def _told(self, plans: Sequence[RevertPlan]) -> RevertResult:
        def names(wanted: Callable[[RevertStep], bool]) -> tuple[str, ...]:
            steps = ((made.folder, step) for made in plans for step in made.steps)
            return tuple(self.shown(folder, step.path) for folder, step in steps if wanted(step))

        return RevertResult(
            names(lambda step: step.wanted is not None and not step.merged),
            names(lambda step: step.wanted is not None and step.merged),
            names(lambda step: step.wanted is None),
            tuple(
                replace(one, path=self.shown(made.folder, one.path))
                for made in plans
                for one in made.stays
            ),
        )
