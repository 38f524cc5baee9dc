"""The session's git from within an event loop: its merge queue, and a watch on the user's tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from coterie.errors import GitFailed
from coterie.model import step_name
from coterie.model.check import CheckOutcome
from coterie.ports import Context
from coterie.workspace.git import repository_of
from coterie.workspace.ticket_worktrees import Merge, SharedFolder, TicketFolders, fingerprint

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


async def in_thread(
    folders: TicketFolders, call: Callable[[*Arguments], T], *arguments: *Arguments
) -> T:
    """Call a method of the folders: in a thread, unless it never waits for git."""
    if isinstance(folders, SharedFolder):
        return call(*arguments)
    return await anyio.to_thread.run_sync(call, *arguments)


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

    def __init__(self, context: Context, folders: TicketFolders) -> None:
        self._context = context
        self._folders = folders
        self._lock = anyio.Lock(fast_acquire=True)

    async def merge(
        self, name: str, ticket: str, title: str, checks: Sequence[str], checked: str
    ) -> MergeResult:
        """Merge, check the merged tree, move the branch.

        A merged tree that equals `checked`, the one that was checked before, is not checked again.
        """
        folders = self._folders
        async with self._lock:
            if await in_thread(folders, folders.landed, ticket) is not None:
                return MergeResult()  # a run before this one was killed after merging it
            # Merged anew in every run: the branch may have moved since the last one.
            merge = await in_thread(folders, folders.merge, ticket, title)
            if merge.conflicts:
                return MergeResult(merge.conflicts)
            name = f"{name}/merge/{merge.tree[:12]}"
            result = MergeResult()
            if checks and (merge.tree != checked or not checked):
                folder = await in_thread(folders, folders.check_out, merge.commit)
                outcomes = await run_checks(self._context, name, checks, folder, merge.tree)
                result = MergeResult(checks=outcomes)
            if result.is_merged:
                await self._move_branch(f"{name}/land", ticket, merge)
            return result

    async def _move_branch(self, name: str, ticket: str, merge: Merge) -> None:
        """Move the branch, once it is on record that the work was approved."""

        async def land() -> object:
            await in_thread(self._folders, self._folders.land, ticket, merge.commit)
            return merge.commit

        if merge.commit:
            await self._context.step(name, [ticket], land)


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

    def __init__(self, root: Path, folders: TicketFolders) -> None:
        self._root = root
        self._enabled = not isinstance(folders, SharedFolder)
        """Not in a shared folder, where everybody works in the project itself."""
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
