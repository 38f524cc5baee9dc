"""Remove what ended tasks left behind: listed first, and never unmerged work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from coterie.app.project import App
from coterie.errors import CoterieError, GitFailed, UsageError
from coterie.model.record import TaskView
from coterie.model.remote import GitRemote
from coterie.model.task import ENDED
from coterie.workspace.git import Git, repository_of
from coterie.workspace.git_remote import REFS, remote_refs, remove_refs
from coterie.workspace.leftovers import (
    Leftover,
    LeftoverKind,
    SessionLeftovers,
    abandoned_temp_files,
    kept_snapshots,
    remove_path,
    remove_snapshots,
    unused_homes,
)
from coterie.workspace.ticket_worktrees import TicketWorktrees

KINDS: tuple[LeftoverKind, ...] = ("worktree", "branch", "remote", "home", "snapshots", "draft")
_TIMEOUT = 30.0
"""The most seconds that `accept` spends on cleaning up, which can be done later as well."""
_OF_SESSIONS: tuple[LeftoverKind, ...] = ("worktree", "branch", "remote")


@dataclass(frozen=True)
class SentBranches:
    """The branches that sessions have pushed to the remote they travel by."""

    git: Git
    remote: GitRemote

    @classmethod
    async def of(cls, app: App) -> Self | None:
        """Return the sent branches of a project; None if branches do not travel by a remote."""
        git = await anyio.to_thread.run_sync(repository_of, app.root)
        if app.shared is None or git is None:
            return None
        remote = await anyio.to_thread.run_sync(app.shared.find_remote)
        return None if remote is None else cls(git, remote)

    async def refs(self, session: str | None = None) -> Mapping[str, str]:
        """Return the commit of each ref on the remote by name, of one or all sessions."""
        below = REFS if session is None else f"{REFS}/{session}"
        return await anyio.to_thread.run_sync(remote_refs, self.git, self.remote, below)

    async def remove(self, worktrees: TicketWorktrees) -> list[Leftover]:
        """Remove the sent branches of a session that the checked-out branch contains."""
        there = await self.refs(worktrees.session)
        going = await anyio.to_thread.run_sync(_on_remote, worktrees, there)
        refs = {one.name: there[one.name] for one in going if not one.kept}
        await anyio.to_thread.run_sync(remove_refs, self.git, self.remote, refs)
        return [one for one in going if not one.kept]


async def remove_accepted(app: App, task_id: str) -> None:
    """Remove from the remote what is now in the user's branch; `coterie clean` lists the rest."""
    with suppress(CoterieError), anyio.move_on_after(_TIMEOUT):
        sent, worktrees = await SentBranches.of(app), await app.sessions.worktrees_here(task_id)
        if sent is not None and worktrees is not None:
            await sent.remove(worktrees)


@dataclass(frozen=True)
class Cleaning:
    """Lists and removes what the ended tasks of a project left behind."""

    app: App

    async def leftovers(
        self, task_id: str | None = None, kinds: Collection[str] = KINDS
    ) -> list[Leftover]:
        """List the leftovers of one ended task or of all, and which of them must stay."""
        if task_id is None:
            views = await self.app.tasks()
        else:
            views = [(await self.app.show(task_id)).view]
        ended = [view for view in views if view.status in ENDED]
        if task_id is not None and not ended:
            raise UsageError(f"{task_id} has not ended.", f"coterie cancel {task_id}")
        leftovers: list[Leftover] = []
        for view in ended:
            leftovers += await self._of_session(view, kinds)
        if "remote" in kinds:
            leftovers += await self._sent([view.id for view in ended])
        if "home" in kinds and task_id is None:
            leftovers += await self._homes()
        if "draft" in kinds and task_id is None:
            leftovers += await anyio.to_thread.run_sync(
                lambda: list(abandoned_temp_files(self._root))
            )
        if "snapshots" in kinds:
            names = [view.id for view in ended]
            leftovers += await anyio.to_thread.run_sync(_snapshots, self._root, names)
        return leftovers

    async def remove(self, leftovers: Sequence[Leftover]) -> list[Leftover]:
        """Remove all that can go and return what was removed.  What is now in use stays."""
        going = [one for one in leftovers if not one.kept]
        removed, claimant = list[Leftover](), await self.app.claimant()
        tasks = dict.fromkeys(one.task for one in going if one.kind in _OF_SESSIONS)
        for task_id in tasks:
            mine = [one for one in going if one.task == task_id]
            async with self.app.changes.holding(claimant, task_id):
                removed += await self._remove_of_session(task_id, mine)
        unused = {one.name for one in await self._homes() if not one.kept}
        for one in going:  # a task with that team may have started since they were listed
            if one.kind == "draft" or (one.kind == "home" and one.name in unused):
                await anyio.to_thread.run_sync(remove_path, self._root, one)
                removed.append(one)
        if snapshots := [one for one in going if one.kind == "snapshots"]:
            names = [one.task for one in snapshots]
            await anyio.to_thread.run_sync(remove_snapshots, self._root, names)
            removed += snapshots
        return removed

    async def _of_session(self, view: TaskView, kinds: Collection[str]) -> list[Leftover]:
        worktrees = await self.app.sessions.worktrees_here(view.id)
        if worktrees is None:
            return []
        session, leftovers = SessionLeftovers(worktrees), list[Leftover]()
        if "worktree" in kinds:
            leftovers += await anyio.to_thread.run_sync(lambda: list(session.worktree_folders()))
        if "branch" in kinds:
            leftovers += await anyio.to_thread.run_sync(lambda: list(session.branches()))
        return leftovers

    async def _sent(self, tasks: Sequence[str]) -> list[Leftover]:
        """List what these sessions have on the remote, or that it cannot be reached."""
        try:
            sent = await SentBranches.of(self.app)
            there = await sent.refs() if sent is not None else dict[str, str]()
        except GitFailed:
            return [Leftover("remote", "-", "-", kept="it cannot be reached")]
        except UsageError as problem:
            return [Leftover("remote", "-", "-", kept=str(problem))]
        leftovers: list[Leftover] = []
        for task_id in tasks:
            own = {ref: one for ref, one in there.items() if ref.startswith(f"{REFS}/{task_id}/")}
            worktrees = await self.app.sessions.worktrees_here(task_id) if own else None
            if worktrees is not None:
                leftovers += await anyio.to_thread.run_sync(_on_remote, worktrees, own)
        return leftovers

    async def _remove_of_session(
        self, task_id: str, leftovers: Sequence[Leftover]
    ) -> list[Leftover]:
        worktrees = await self.app.sessions.worktrees_here(task_id)
        if worktrees is None:
            return []
        remove = partial(_remove_all, SessionLeftovers(worktrees), leftovers)
        removed = await anyio.to_thread.run_sync(remove)
        if any(one.kind == "remote" for one in leftovers):
            sent = await SentBranches.of(self.app)
            removed += await sent.remove(worktrees) if sent is not None else []
        return removed

    async def _homes(self) -> list[Leftover]:
        in_use: set[str] = set()
        for view in await self.app.tasks():
            if view.status not in ENDED:
                in_use.add((await self.app.sessions.look.state(view.id)).created.team.name)
        return await anyio.to_thread.run_sync(lambda: list(unused_homes(self._root, in_use)))

    @property
    def _root(self) -> Path:
        return self.app.root


def _remove_all(session: SessionLeftovers, leftovers: Sequence[Leftover]) -> list[Leftover]:
    """Remove worktrees before branches: git refuses to delete a branch that is checked out."""
    of_git = [one for kind in ("worktree", "branch") for one in leftovers if one.kind == kind]
    removed = [one for one in of_git if session.remove(one)]
    session.remove_folder()
    return removed


def _on_remote(worktrees: TicketWorktrees, there: Mapping[str, str]) -> list[Leftover]:
    return list(SessionLeftovers(worktrees).remote_refs(there))


def _snapshots(root: Path, tasks: Sequence[str]) -> list[Leftover]:
    return list(kept_snapshots(root, tasks))
