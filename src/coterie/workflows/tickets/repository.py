"""The session's git from within an event loop: its merge queue, and a watch on the user's tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.errors import GitFailed
from coterie.model import step_name
from coterie.model.check import CheckOutcome
from coterie.ports import Context
from coterie.workspace.git import repository_of
from coterie.workspace.ticket_worktrees import TicketWorktrees, fingerprint


async def run_checks(
    context: Context, name: str, commands: Sequence[str], folder: Path, tree: str
) -> tuple[CheckOutcome, ...]:
    """Run commands in a folder that holds this tree; `name` is the step that they are part of."""
    outcomes = [
        await context.check(step_name.check(name, number), command, folder)
        for number, command in enumerate(commands, 1)
    ]
    return tuple(replace(outcome, tree=tree) for outcome in outcomes)


@dataclass(frozen=True)
class MergeResult:
    """What came of merging a ticket."""

    conflicts: tuple[str, ...] = ()
    checks: tuple[CheckOutcome, ...] = ()

    @property
    def failed(self) -> tuple[CheckOutcome, ...]:
        """The checks that did not pass on the merged tree."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def is_merged(self) -> bool:
        """Whether the work is on the branch now."""
        return not self.conflicts and not self.failed


class MergeQueue:
    """Merges approved work, one ticket at a time, in the order in which they come."""

    def __init__(self, context: Context, worktrees: TicketWorktrees | None) -> None:
        self._context = context
        self._worktrees = worktrees
        self._lock = anyio.Lock(fast_acquire=True)

    async def merge(
        self, name: str, ticket: str, title: str, checks: Sequence[str], checked: str
    ) -> MergeResult:
        """Merge, check the merged tree, move the branch.

        A merged tree that equals `checked`, the one that was checked before, is not checked again.
        """
        worktrees, in_thread = self._worktrees, anyio.to_thread.run_sync
        async with self._lock:
            if worktrees is None:  # in the project's own folder work is merged as it is written
                folder, name = self._context.root, f"{name}/merge/"
                return MergeResult(checks=await run_checks(self._context, name, checks, folder, ""))
            if await in_thread(worktrees.landed, ticket) is not None:
                return MergeResult()  # a run before this one was killed after merging it
            # Merged anew in every run: the branch may have moved since the last one.
            merge = await in_thread(worktrees.merge, ticket, title)
            if merge.conflicts:
                return MergeResult(merge.conflicts)
            name = f"{name}/merge/{merge.tree[:12]}"
            result = MergeResult()
            if checks and merge.tree != checked:
                folder = await in_thread(worktrees.check_out, merge.commit)
                outcomes = await run_checks(self._context, name, checks, folder, merge.tree)
                result = MergeResult(checks=outcomes)

            async def land() -> object:
                await in_thread(worktrees.land, merge.commit)
                return merge.commit

            if result.is_merged:
                # The branch moves once it is on record that the work was approved.
                await self._context.step(f"{name}/land", [ticket], land)
            return result


@dataclass(frozen=True)
class ProjectState:
    """The user's own tree at an instant."""

    head: str | None
    files: Mapping[str, str]
    """By file that differs from the last commit: what changes when the file does."""


class ProjectWatch:
    """Finds what changed in the user's own tree, which no worker is to touch, during a turn.

    It may have been the user: nothing is ever put back.  With several workers nobody can tell
    which of them it was, so a change is reported for one of them only.
    """

    def __init__(self, root: Path, *, enabled: bool) -> None:
        self._root = root
        self._enabled = enabled
        self._reported: set[tuple[str, str]] = set()

    async def state(self) -> ProjectState | None:
        """The tree as it is now; None where that cannot be told."""
        if not self._enabled:
            return None
        try:
            return await anyio.to_thread.run_sync(_state, self._root)
        except GitFailed:
            return None

    async def changed_since(self, before: ProjectState | None) -> tuple[str, ...]:
        """The files that differ from how they were."""
        after = await self.state() if before is not None else None
        if before is None or after is None:
            return ()
        changed = after.files.items() - before.files.items()
        if after.head == before.head:  # else somebody committed, which takes files off the list
            changed |= {(path, "") for path in before.files.keys() - after.files.keys()}
        new = changed - self._reported
        self._reported |= changed
        return tuple(sorted(path for path, _ in new))


def _state(root: Path) -> ProjectState:
    git = repository_of(root)
    return ProjectState(git.head() if git else None, fingerprint(root))
