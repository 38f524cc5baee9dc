"""The user's own tree, which no worker is to touch: watched while they work in theirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coterie.errors import GitFailed
from coterie.workspace.git import repository_of
from coterie.workspace.ticket_ground import fingerprint


@dataclass(frozen=True)
class Seen:
    """The project's tree at an instant."""

    head: str | None
    entries: frozenset[str]
    """What differs from the last commit, each with facts that change when it does."""


class Outside:
    """Tells what changed in the project itself while a worker had its turn.

    It may have been the user: nothing is ever put back.  With several at work nobody can tell
    which of them it was, so what was told of one is not told of the next.
    """

    def __init__(self, root: Path, *, watches: bool) -> None:
        self._root = root
        self._watches = watches
        """Not in a shared folder, where everybody works in the project itself."""
        self._told: frozenset[str] = frozenset()

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
        changed = after.entries - before.entries
        if after.head == before.head:  # else somebody committed, which takes files off the list
            paths = {_path(entry) for entry in after.entries}
            changed |= {one for one in before.entries - after.entries if _path(one) not in paths}
        new = changed - self._told
        self._told |= changed
        return sorted({_path(entry) for entry in new})


def _seen(root: Path) -> Seen:
    git = repository_of(root)
    return Seen(git.head() if git else None, fingerprint(root))


def _path(entry: str) -> str:
    """The file that an entry is about, between its status and the facts."""
    return entry[3:].rpartition(" ")[0]
