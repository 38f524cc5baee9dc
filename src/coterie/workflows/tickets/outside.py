"""The user's own tree, which no worker is to touch: watched while they work in theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coterie.errors import GitFailed
from coterie.workspace.git import repository_of
from coterie.workspace.ticket_worktrees import fingerprint


@dataclass(frozen=True)
class Seen:
    """The project's tree at an instant."""

    head: str | None
    files: Mapping[str, str]
    """By file that differs from the last commit: what changes when the file does."""


class Outside:
    """Tells what changed in the project itself while a worker had its turn.

    It may have been the user: nothing is ever put back.  With several at work nobody can tell
    which of them it was, so what was told of one is not told of the next.
    """

    def __init__(self, root: Path, *, watches: bool) -> None:
        self._root = root
        self._watches = watches
        """Not in a shared folder, where everybody works in the project itself."""
        self._told: set[tuple[str, str]] = set()

    async def look(self) -> Seen | None:
        """How the project is now; None where that cannot be told."""
        if not self._watches:
            return None
        try:
            return await anyio.to_thread.run_sync(_seen, self._root)
        except GitFailed:
            return None

    async def changed_since(self, before: Seen | None) -> list[str]:
        """The files that differ from how they were."""
        after = await self.look() if before is not None else None
        if before is None or after is None:
            return []
        changed = after.files.items() - before.files.items()
        if after.head == before.head:  # else somebody committed, which takes files off the list
            changed |= {(path, "") for path in before.files.keys() - after.files.keys()}
        new = changed - self._told
        self._told |= changed
        return sorted(path for path, _ in new)


def _seen(root: Path) -> Seen:
    git = repository_of(root)
    return Seen(git.head() if git else None, fingerprint(root))
