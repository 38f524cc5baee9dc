"""What tasks changed, as the API returns it."""

from __future__ import annotations

from typing import Self

from coterie.app.changes import TaskDiff, diff_fields
from coterie.web.schema import ShownText


class FileShown(ShownText):
    """How many lines of a file differ; null if the file is not text."""

    path: str
    added: int | None
    removed: int | None


class PatchShown(ShownText):
    """The changes in one folder."""

    folder: str
    files: list[FileShown]
    patch: str
    """In git's format."""


class SkippedShown(ShownText):
    """A file that was left unchanged or is not shown."""

    path: str
    why: str


class DiffShown(ShownText):
    """What a task changed."""

    task: str
    patches: list[PatchShown]
    missed: list[SkippedShown]
    reverted_at: str | None
    accepted: str | None
    """The commit that took it into the user's branch, even if it was reverted since."""
    problem: str | None
    """Why some or all of its files could not be stored."""

    @classmethod
    def of(cls, task: str, diff: TaskDiff) -> Self:
        """Convert a task's diff."""
        return cls.model_validate(diff_fields(task, diff))
