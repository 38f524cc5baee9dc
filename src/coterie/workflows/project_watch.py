"""Watches the user's own tree while members work in worktrees: nobody else should touch it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.errors import GitFailed
from coterie.workspace.ticket_worktrees import TicketWorktrees, fingerprint


class ProjectState(NamedTuple):
    """The state of the user's own tree at one moment."""

    head: str | None
    files: Mapping[str, str]
    """A fingerprint of each file that differs from the last commit."""


class ProjectWatch:
    """Finds what changed during a turn in the user's own tree, which no worker should touch.

    It may have been the user, so nothing is ever put back.  With several workers there is no way to
    tell which of them it was, so a change is reported for only one of them.
    """

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def state(self, worktrees: TicketWorktrees, _ticket: str) -> ProjectState | None:
        """Return the current state of the tree; None if git fails.  Blocks."""
        try:
            return ProjectState(worktrees.git.head(), fingerprint(worktrees.root))
        except GitFailed:
            return None

    def changes(self, before: ProjectState | None, after: ProjectState | None) -> tuple[str, ...]:
        """Return the files that changed between two states and have not been reported yet."""
        if before is None or after is None:
            return ()
        changed = after.files.items() - before.files.items()
        if after.head == before.head:  # otherwise a commit took files off the list
            changed |= {(path, "") for path in before.files.keys() - after.files.keys()}
        new = changed - self._reported
        self._reported |= changed
        return tuple(sorted(path for path, _ in new))
