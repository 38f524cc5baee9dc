"""What snapshots are about: states of folders, the spans between two of them, and changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Does = Literal["turn", "revert", "undo"]
"""Who changed files in a span: an agent in its turn, or Coterie that took such changes back."""

LINK, EXECUTABLE, PLAIN = "120000", "100755", "100644"
"""The modes of what is kept, in git's words."""
REPOSITORY = "a repository of its own"
"""Why a folder is left out; it has snapshots of its own, unless it is new."""


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that is there but is not kept."""

    path: str
    why: str
    mark: str
    """Differs when it does."""


@dataclass(frozen=True)
class Snapshot:
    """The files of a folder at one instant."""

    folder: Path
    tree: str
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Moment:
    """A snapshot as it is kept for a task."""

    snapshot: Snapshot
    at: str
    """For people; a clock may be set back, so it decides nothing."""
    place: int = 0
    """Its place in the order of all that was ever kept."""
    does: Does = "turn"
    whole: bool = True
    """Of a revert: whether nothing of the task was left in place."""
    pid: int = 0
    started: float = 0.0
    """Which process kept it: its id, and since when it runs."""


@dataclass(frozen=True)
class Span:
    """A folder from just before something could change it to just after."""

    task: str
    number: int
    """Counts what a task did, from 1; spans of one number belong together."""
    part: int
    """Tells the folders of one number apart."""
    before: Moment
    after: Moment | None = None
    """None while it lasts, and where it was cut."""

    @property
    def folder(self) -> Path:
        """Where it was."""
        return self.before.snapshot.folder

    @property
    def does(self) -> Does:
        """Who changed files in it."""
        return self.before.does


@dataclass(frozen=True)
class Blob:
    """A file's mode and content, by the content's name."""

    mode: str
    id: str


@dataclass(frozen=True)
class Change:
    """What a span did to one file; None: it was not there."""

    folder: Path
    path: str
    before: Blob | None
    after: Blob | None
    also: str = ""
    """Another task that worked in the same folder at the same time and changed the file too."""


@dataclass(frozen=True)
class Missed:
    """A file that a task may have changed, of which too little is kept to show or undo it."""

    folder: Path
    path: str
    why: str


@dataclass(frozen=True)
class Entry:
    """A file as it is: its mode, and its content or where it links to."""

    mode: str
    data: bytes
