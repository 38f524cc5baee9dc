"""The user's own tree while members work in worktrees: nobody else is to touch it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.errors import GitFailed
from coterie.workspace.ticket_worktrees import TicketWorktrees, fingerprint


class ProjectState(NamedTuple):
    """The user's own tree at an instant."""

    head: str | None
    files: Mapping[str, str]
    """By file that differs from the last commit: what changes when the file does."""


class ProjectWatch:
    """Finds what changed in the user's own tree, which no worker is to touch, during a turn.

    It may have been the user: nothing is ever put back.  With several workers nobody can tell
    which of them it was, so a change is reported for one of them only.
    """

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def state(self, worktrees: TicketWorktrees, _ticket: str) -> ProjectState | None:
        """The tree as it is now; None where that cannot be told.  Blocks."""
        try:
            return ProjectState(worktrees.git.head(), fingerprint(worktrees.root))
        except GitFailed:
            return None

    def changes(self, before: ProjectState | None, after: ProjectState | None) -> tuple[str, ...]:
        """The files that differ from how they were, as far as nobody was told yet."""
        if before is None or after is None:
            return ()
        changed = after.files.items() - before.files.items()
        if after.head == before.head:  # else somebody committed, which takes files off the list
            changed |= {(path, "") for path in before.files.keys() - after.files.keys()}
        new = changed - self._reported
        self._reported |= changed
        return tuple(sorted(path for path, _ in new))
