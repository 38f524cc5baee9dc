"""The exchange of a session's branches and files between machines."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

import anyio
import anyio.to_thread

from coterie.errors import GitFailed, NotOurs, NotSent, UsageError
from coterie.model.machine import SentRef
from coterie.model.record import ErrorRecord
from coterie.model.remote import REMOTE_AWAY, pauses
from coterie.ports import Sharing
from coterie.workspace.beneath import is_draft, read_file, walk, write_file
from coterie.workspace.bundle import bundle, import_commit
from coterie.workspace.git import KEPT
from coterie.workspace.git_remote import fetch, push_new, sent_ref
from coterie.workspace.session_files import CHECKS, LARGEST
from coterie.workspace.session_files import FILE_NAME as KEY
from coterie.workspace.ticket_worktrees import TicketWorktrees

BASE = "base"
"""The name for the commit that a session began at; no ticket has this name."""


class SharedBranches:
    """The branches of a session, sent and taken in through the store or a remote repository."""

    def __init__(
        self,
        sharing: Sharing,
        worktrees: TicketWorktrees,
        timeout: float = 0.0,
        tell: Callable[[ErrorRecord], None] = lambda _: None,
    ) -> None:
        """`timeout` is for how many seconds to retry a repository that cannot be reached; `tell`
        is called with the error each time."""
        self._sharing = sharing
        self._worktrees = worktrees
        self._timeout = timeout
        self._tell = tell

    async def send(self, name: str) -> None:
        """Send the local state of a branch."""
        worktrees = self._worktrees
        ref = worktrees.ref_of(name)
        commit = await anyio.to_thread.run_sync(worktrees.git.commit, ref)
        if commit is None:
            raise GitFailed("bundle", str(worktrees.folder), f"no branch {ref}")
        await self._send(name, ref, commit)

    async def send_if_there(self, name: str) -> None:
        """The same for a branch that may not exist yet, or was taken back."""
        ref = self._worktrees.ref_of(name)
        if await anyio.to_thread.run_sync(self._worktrees.git.commit, ref) is not None:
            await self.send(name)

    async def send_base(self) -> None:
        """Send the commit that the session began at: another clone may lack it."""
        git, base = self._worktrees.git, self._worktrees.base
        ref = f"{KEPT}/{self._worktrees.session}"
        await anyio.to_thread.run_sync(git.run, "update-ref", ref, base)
        await self._send(BASE, ref, base)

    async def _send(self, name: str, ref: str, commit: str) -> None:
        sharing, git = self._sharing, self._worktrees.git
        remote = await sharing.remote()
        if remote is None:
            data = await anyio.to_thread.run_sync(bundle, git, ref)
            digest = None if data is None else await sharing.put(data)
            sent = SentRef(name, commit, digest)
        else:
            there = sent_ref(self._worktrees.session, name, sharing.token, commit)
            try:
                await self._until_reached("push", partial(push_new, git, remote, there, commit))
            except (GitFailed, UsageError) as problem:
                raise NotSent(sharing.machine, ref, str(problem)) from None
            sent = SentRef(name, commit, remote_ref=there)
        await sharing.set_ref(sent)

    async def _until_reached(self, command: str, call: Callable[[], None]) -> None:
        """Call a function that runs this git command on the remote, with retries.

        Raises GitFailed if the remote cannot be reached for too long.
        """
        problem: GitFailed | None = None
        with anyio.move_on_after(self._timeout or None):
            for pause in pauses():
                try:
                    return await anyio.to_thread.run_sync(call)
                except GitFailed as failed:
                    problem = failed
                if not self._timeout:
                    break
                way, session = f"Retrying in {pause:.0f} s.", self._worktrees.session
                self._tell(ErrorRecord(REMOTE_AWAY, str(problem), way, task=session))
                await anyio.sleep(pause)
        folder = str(self._worktrees.git.folder)
        raise problem or GitFailed(command, folder, "the remote did not answer in time")

    async def take_in(self, name: str, *, files: bool) -> None:
        """Bring a branch to its last sent state, in its worktree too if `files`."""
        for ref in await self._get(ref for ref in await self._sharing.refs() if ref.name == name):
            await self._bring(ref, files=files)

    async def take_in_all(self, *, to_look: bool = False) -> bool:
        """Bring every branch to its last sent state; return whether there are any.

        With `to_look`, branches that are open in a worktree are left alone.
        """
        refs = await self._get(await self._sharing.refs())
        for ref in refs:
            if not (to_look and await anyio.to_thread.run_sync(self._worktrees.is_open, ref.name)):
                await self._bring(ref, files=False)
        return bool(refs)

    async def _bring(self, ref: SentRef, *, files: bool) -> None:
        if ref.name != BASE:
            advance_to = partial(self._worktrees.advance_to, ref.name, ref.commit, files=files)
            await anyio.to_thread.run_sync(advance_to)

    async def _get(self, refs: Iterable[SentRef]) -> Sequence[SentRef]:
        """Fetch the commits of all refs that are missing here; return the refs."""
        sharing, git, all_refs = self._sharing, self._worktrees.git, list(refs)
        by_remote: dict[str, str] = {}
        for ref in all_refs:
            if await anyio.to_thread.run_sync(git.commit, ref.commit) is not None:
                continue
            if ref.remote_ref is not None:
                by_remote[ref.remote_ref] = ref.commit
                continue
            data = None if ref.digest is None else await sharing.get(ref.digest)
            await anyio.to_thread.run_sync(import_commit, git, ref.commit, data)
        if by_remote:
            await self._fetch(by_remote)
        return all_refs

    async def _fetch(self, sent: Mapping[str, str]) -> None:
        remote = await self._sharing.remote()
        if remote is None:
            problem = f"{next(iter(sent))} is in the remote repository for branches, and none is"
            way = "coterie config set travel git:REMOTE --user"
            raise UsageError(f"{problem} configured on this machine.", way)
        await self._until_reached("fetch", partial(fetch, self._worktrees.git, remote, sent))


class SharedFiles:
    """The files of a session, sent and taken in: artifacts, logs of checks, a pipeline's state."""

    def __init__(self, sharing: Sharing, root: Path, session: str) -> None:
        self._sharing = sharing
        self._base = root / ".coterie"
        self._session = session
        self._sent: dict[str, tuple[int, int]] = {}
        """The modification time and size of each file when it was last sent, by path."""

    async def send(self) -> None:
        """Send what is new or has changed since it was last sent."""
        for path, stamp in (await anyio.to_thread.run_sync(self._list_files)).items():
            if self._sent.get(path) == stamp:
                continue
            data = await anyio.to_thread.run_sync(self._read, path)
            if data is not None:
                await self._sharing.set_file(path, await self._sharing.put(data))
            self._sent[path] = stamp

    async def take_in(self) -> None:
        """Bring every file to its last sent state; files that were never sent stay."""
        for path, digest in (await self._sharing.files()).items():
            known = await anyio.to_thread.run_sync(self._read, path)
            if known is not None and hashlib.sha256(known).hexdigest() == digest:
                continue
            data = await self._sharing.get(digest)
            if data is not None:
                place = ("sessions", self._session, *PurePosixPath(path).parts)
                await anyio.to_thread.run_sync(write_file, self._base, place, data)

    def _list_files(self) -> dict[str, tuple[int, int]]:
        """List all files but the key and what checks and drafts leave, which come and go."""
        folder = self._base / "sessions" / self._session
        stamps: dict[str, tuple[int, int]] = {}
        for name, entry in walk(folder, lambda name: name != CHECKS):
            if is_draft(entry.name):
                continue
            with suppress(FileNotFoundError):
                known = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(known.st_mode) and known.st_size <= LARGEST:
                    stamps[name] = known.st_mtime_ns, known.st_size
        stamps.pop(KEY, None)
        return dict(sorted(stamps.items()))

    def _read(self, path: str) -> bytes | None:
        try:
            return read_file(self._base, "sessions", self._session, *PurePosixPath(path).parts)
        except (OSError, NotOurs):
            return None
