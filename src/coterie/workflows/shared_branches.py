"""The branches and the files of a session on their way between machines."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path, PurePosixPath

import anyio.to_thread

from coterie.errors import GitFailed, NotOurs
from coterie.model.machine import SentRef
from coterie.ports import Sharing
from coterie.workspace.beneath import read_file, write_file
from coterie.workspace.bundle import bundle, take_in
from coterie.workspace.git import KEPT
from coterie.workspace.session_files import FILE_NAME as KEY
from coterie.workspace.session_files import LARGEST
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

    async def send_if_there(self, name: str) -> None:
        """The same for a branch that may not have begun, or was taken back."""
        ref = f"{HEADS}coterie/{self._worktrees.session}/{name}"
        if await anyio.to_thread.run_sync(self._worktrees.git.commit, ref) is not None:
            await self.send(name)

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

    async def take_in_all(self, *, to_look: bool = False) -> bool:
        """Have every branch here as it was last sent; whether there are any.

        `to_look`: nobody's worktree is moved with it.
        """
        refs = await self._sharing.refs()
        for ref in refs:
            await self._take_in(ref, files=False, to_look=to_look)
        return bool(refs)

    async def _take_in(self, ref: SentRef, *, files: bool, to_look: bool = False) -> None:
        worktrees, in_thread = self._worktrees, anyio.to_thread.run_sync
        data = None
        if ref.digest is not None and await in_thread(worktrees.git.commit, ref.commit) is None:
            data = await self._sharing.get(ref.digest)
        await in_thread(take_in, worktrees.git, ref.commit, data)
        if ref.name == BASE or (to_look and await in_thread(worktrees.is_open, ref.name)):
            return
        await in_thread(lambda: worktrees.bring_to(ref.name, ref.commit, files=files))


class SharedFiles:
    """The files of a session, sent and taken in: artifacts, logs of checks, a pipeline's state."""

    def __init__(self, sharing: Sharing, root: Path, session: str) -> None:
        self._sharing = sharing
        self._base = root / ".coterie"
        self._session = session
        self._sent: dict[str, tuple[int, int]] = {}
        """By path: when what was sent was last changed, and its size."""

    async def send(self) -> None:
        """Send what is new or changed since it was last sent."""
        for path, stamp in (await anyio.to_thread.run_sync(self._found)).items():
            if self._sent.get(path) == stamp:
                continue
            data = await anyio.to_thread.run_sync(self._read, path)
            if data is not None:
                await self._sharing.set_file(path, await self._sharing.put(data))
            self._sent[path] = stamp

    async def take_in(self) -> None:
        """Have every file as it was last sent; what was not sent stays."""
        for path, digest in (await self._sharing.files()).items():
            known = await anyio.to_thread.run_sync(self._read, path)
            if known is not None and hashlib.sha256(known).hexdigest() == digest:
                continue
            data = await self._sharing.get(digest)
            if data is not None:
                place = ("sessions", self._session, *PurePosixPath(path).parts)
                await anyio.to_thread.run_sync(write_file, self._base, place, data)

    def _found(self) -> dict[str, tuple[int, int]]:
        folder = self._base / "sessions" / self._session
        stats = {str(path.relative_to(folder)): path.lstat() for path in sorted(folder.rglob("*"))}
        return {
            name: (found.st_mtime_ns, found.st_size)
            for name, found in stats.items()
            if stat.S_ISREG(found.st_mode) and name != KEY and found.st_size <= LARGEST
        }

    def _read(self, path: str) -> bytes | None:
        try:
            return read_file(self._base, "sessions", self._session, *PurePosixPath(path).parts)
        except (OSError, NotOurs):
            return None
