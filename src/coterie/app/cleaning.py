"""Removing what ended tasks have left behind: listed first, and nothing that is unmerged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.app.project import App
from coterie.errors import UsageError
from coterie.model.record import TaskView
from coterie.model.task import ENDED
from coterie.workspace.leftovers import (
    Leftover,
    LeftoverKind,
    SessionLeftovers,
    drafts,
    kept_snapshots,
    remove_path,
    remove_snapshots,
    unused_homes,
)

KINDS: tuple[LeftoverKind, ...] = ("worktree", "branch", "home", "snapshots", "draft")


@dataclass(frozen=True)
class Cleaning:
    """What the ended tasks of a project have left."""

    app: App

    async def leftovers(
        self, task_id: str | None = None, kinds: Collection[str] = KINDS
    ) -> list[Leftover]:
        """What there is, and what of it must stay; of one task or of all that have ended."""
        if task_id is None:
            views = await self.app.tasks()
        else:
            views = [(await self.app.show(task_id)).view]
        ended = [view for view in views if view.status in ENDED]
        if task_id is not None and not ended:
            raise UsageError(f"{task_id} has not ended.", f"coterie cancel {task_id}")
        found: list[Leftover] = []
        for view in ended:
            found += await self._of_session(view, kinds)
        if "home" in kinds and task_id is None:
            found += await self._homes()
        if "draft" in kinds and task_id is None:
            found += await anyio.to_thread.run_sync(lambda: list(drafts(self._root)))
        if "snapshots" in kinds:
            names = [view.id for view in ended]
            found += await anyio.to_thread.run_sync(_snapshots, self._root, names)
        return found

    async def remove(self, found: Sequence[Leftover]) -> list[Leftover]:
        """Remove all that can go; returns what was removed.  What is in use by now stays."""
        going = [one for one in found if not one.kept]
        removed, claimant = list[Leftover](), await self.app.claimant()
        tasks = dict.fromkeys(one.task for one in going if one.kind in ("worktree", "branch"))
        for task_id in tasks:
            mine = [one for one in going if one.task == task_id]
            async with self.app.changes.held(claimant, task_id):
                removed += await self._remove_of_session(task_id, mine)
        unused = {one.name for one in await self._homes() if not one.kept}
        for one in going:  # somebody may have started a task with that team since they were listed
            if one.kind == "draft" or (one.kind == "home" and one.name in unused):
                await anyio.to_thread.run_sync(remove_path, self._root, one)
                removed.append(one)
        if snapshots := [one for one in going if one.kind == "snapshots"]:
            names = [one.task for one in snapshots]
            await anyio.to_thread.run_sync(remove_snapshots, self._root, names)
            removed += snapshots
        return removed

    async def _of_session(self, view: TaskView, kinds: Collection[str]) -> list[Leftover]:
        worktrees = await self.app.sessions.worktrees(view.id)
        if worktrees is None:
            return []
        session, found = SessionLeftovers(worktrees), list[Leftover]()
        if "worktree" in kinds:
            found += await anyio.to_thread.run_sync(lambda: list(session.worktree_folders()))
        if "branch" in kinds:
            found += await anyio.to_thread.run_sync(lambda: list(session.branches()))
        return found

    async def _remove_of_session(self, task_id: str, found: Sequence[Leftover]) -> list[Leftover]:
        worktrees = await self.app.sessions.worktrees(task_id)
        if worktrees is None:
            return []
        remove = partial(_remove_all, SessionLeftovers(worktrees), found)
        return await anyio.to_thread.run_sync(remove)

    async def _homes(self) -> list[Leftover]:
        in_use: set[str] = set()
        for view in await self.app.tasks():
            if view.status not in ENDED:
                in_use.add((await self.app.sessions.look.state(view.id)).created.team.name)
        return await anyio.to_thread.run_sync(lambda: list(unused_homes(self._root, in_use)))

    @property
    def _root(self) -> Path:
        return self.app.root


def _remove_all(session: SessionLeftovers, found: Sequence[Leftover]) -> list[Leftover]:
    """Worktrees before branches: git refuses to drop a branch that is checked out."""
    of_git = [one for kind in ("worktree", "branch") for one in found if one.kind == kind]
    removed = [one for one in of_git if session.remove(one)]
    session.remove_folder()
    return removed


def _snapshots(root: Path, tasks: Sequence[str]) -> list[Leftover]:
    return list(kept_snapshots(root, tasks))
