"""The branches of a session on their way between machines."""

from __future__ import annotations

import anyio.to_thread

from coterie.errors import GitFailed
from coterie.model.machine import SentRef
from coterie.ports import Sharing
from coterie.workspace.bundle import bundle, take_in
from coterie.workspace.git import KEPT
from coterie.workspace.ticket_worktrees import TicketWorktrees
from coterie.workspace.worktree import HEADS

BASE = "base"
"""What the commit is called that a session began at; no ticket is called so."""


class SharedBranches:
    """The branches of a session, sent and taken in."""

    def __init__(self, sharing: Sharing, worktrees: TicketWorktrees) -> None:
        self._sharing = sharing
        self._worktrees = worktrees

    async def send(self, name: str) -> None:
        """Send a branch as it is here."""
        worktrees = self._worktrees
        ref = f"{HEADS}coterie/{worktrees.session}/{name}"
        commit = await anyio.to_thread.run_sync(worktrees.git.commit, ref)
        if commit is None:
            raise GitFailed("bundle", str(worktrees.folder), f"no branch {ref}")
        await self._send(name, ref, commit)

    async def send_base(self) -> None:
        """Send the commit that the session began at: another clone may lack it."""
        git, base = self._worktrees.git, self._worktrees.base
        ref = f"{KEPT}/{self._worktrees.session}"
        await anyio.to_thread.run_sync(git.run, "update-ref", ref, base)
        await self._send(BASE, ref, base)

    async def _send(self, name: str, ref: str, commit: str) -> None:
        data = await anyio.to_thread.run_sync(bundle, self._worktrees.git, ref)
        digest = None if data is None else await self._sharing.put(data)
        await self._sharing.set_ref(SentRef(name, commit, digest))

    async def take_in(self, name: str, *, files: bool) -> None:
        """Have a branch here as it was last sent, in its worktree too if `files`."""
        for ref in await self._sharing.refs():
            if ref.name == name:
                await self._take_in(ref, files=files)

    async def take_in_all(self) -> bool:
        """Have every branch here as it was last sent; whether there are any."""
        refs = await self._sharing.refs()
        for ref in refs:
            await self._take_in(ref, files=False)
        return bool(refs)

    async def _take_in(self, ref: SentRef, *, files: bool) -> None:
        worktrees, in_thread = self._worktrees, anyio.to_thread.run_sync
        data = None
        if ref.digest is not None and await in_thread(worktrees.git.commit, ref.commit) is None:
            data = await self._sharing.get(ref.digest)
        await in_thread(take_in, worktrees.git, ref.commit, data)
        if ref.name == BASE:
            return
        await in_thread(lambda: worktrees.bring_to(ref.name, ref.commit, files=files))
