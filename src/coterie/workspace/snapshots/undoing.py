"""Taking changes back, file by file, and leaving alone what somebody else did to the same file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from coterie.errors import GitFailed
from coterie.workspace.snapshots.files import Files
from coterie.workspace.snapshots.shadow import Shadow
from coterie.workspace.snapshots.values import LINK, Blob, Change, Entry

_TEXT = 8000
"""So many bytes say whether a file is text; git looks at as many."""


@dataclass(frozen=True)
class Stays:
    """A file that was left as it is."""

    path: str
    why: str


@dataclass(frozen=True)
class Step:
    """What has to become of one file."""

    path: str
    present: Entry | None
    wanted: Entry | None
    merged: bool
    """Whether something that others changed stays in it."""


@dataclass
class Plan:
    """What has to become of the files of one folder."""

    folder: Path
    steps: list[Step] = field(default_factory=list[Step])
    stays: list[Stays] = field(default_factory=list[Stays])


class _Leave(Exception):
    """The file has to stay as it is."""


def plan(shadow: Shadow, folder: Path, changes: Sequence[Change]) -> Plan:
    """How to take the changes to one folder back; nothing is done yet."""
    made = Plan(folder)
    if not folder.is_dir():
        gone = sorted({change.path for change in changes})
        made.stays = [Stays(path, "its folder is gone") for path in gone]
        return made
    blobs = [blob for change in changes for blob in (change.before, change.after) if blob]
    undo = _Undo(shadow, shadow.contents(blob.id for blob in blobs))
    files = Files(folder)
    for path in sorted({change.path for change in changes}):
        mine = [change for change in changes if change.path == path]
        try:
            present = files.read(path)
            wanted = undo.all(present, mine)
        except _Leave as leave:
            made.stays.append(Stays(path, str(leave)))
        except OSError as error:
            made.stays.append(Stays(path, _reason(error)))
        else:
            if wanted != present:
                made.steps.append(Step(path, present, wanted, wanted != undo.entry(mine[0].before)))
    return made


@dataclass(frozen=True)
class _Undo:
    shadow: Shadow
    contents: Mapping[str, bytes]

    def entry(self, blob: Blob | None) -> Entry | None:
        return None if blob is None else Entry(blob.mode, self.contents[blob.id])

    def all(self, present: Entry | None, changes: Sequence[Change]) -> Entry | None:
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
        self, present: Entry | None, before: Entry | None, after: Entry | None
    ) -> Entry | None:
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
        return Entry(mode, self._merged(present.data, before.data, after.data))

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


def carry_out(made: Plan, known: frozenset[str]) -> Plan:
    """Do what a plan says; what was done, and what had to stay after all.

    `known` are the folders that were there before the changes; others that get empty go too.
    """
    done, files = Plan(made.folder, [], list(made.stays)), Files(made.folder)
    removals = [step for step in made.steps if step.wanted is None]
    for step in removals:
        _carry_out(files, step, done)
    _remove_empty(files, done.steps, known)
    for step in made.steps:
        if step.wanted is not None:
            _carry_out(files, step, done)
    return done


def _carry_out(files: Files, step: Step, done: Plan) -> None:
    try:
        if files.read(step.path) != step.present:
            done.stays.append(Stays(step.path, "somebody is changing it right now"))
            return
        if step.wanted is None:
            files.remove(step.path)
        else:
            files.write(step.path, step.wanted)
    except OSError as error:
        done.stays.append(Stays(step.path, _reason(error)))
    else:
        done.steps.append(step)


def _remove_empty(files: Files, removed: Iterable[Step], known: frozenset[str]) -> None:
    for step in removed:
        for parent in PurePosixPath(step.path).parents:
            if str(parent) in known or str(parent) == "." or not files.remove_empty(str(parent)):
                break


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
