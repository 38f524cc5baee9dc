"""Leases: whether an owner lives, and how a task is taken over once it is proven dead.

Whether a Coterie process lives is asked of a lock it holds for life, never of a pid or a clock.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from coterie.errors import NotFound, NotOurs, SurvivorsElsewhere, TaskBusy
from coterie.model.journal import ChildLease, Fence, Lease
from coterie.ports import LeaseStore, Reaper
from coterie.process.processes import Machine
from coterie.workspace.beneath import open_file, opened_folder, read_file


@dataclass(frozen=True)
class OwnerFacts:
    """What an owner wrote about itself: good for a message, never for a decision."""

    pid: int | None = None
    host: str | None = None


class Owner:
    """This process, as the owner of tasks."""

    def __init__(self, folder: Path, host: str) -> None:
        """Take a lock file of our own under `folder`."""
        self.folder = folder
        self.id: str = secrets.token_hex(6)
        # Locked under a name nobody looks at, then renamed: a file that can be seen is locked,
        # unless its owner is dead.
        hidden = f".{self.id}"
        with opened_folder(folder.parent, folder.name, make=True) as at:
            self._fd = open_file(at, folder / hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._fd, json.dumps({"pid": os.getpid(), "host": host}).encode())
            os.rename(hidden, self.id, src_dir_fd=at, dst_dir_fd=at)

    def release(self) -> None:
        """Say that this process runs nothing any more."""
        with suppress(FileNotFoundError, NotOurs), _opened(self.folder) as at:
            os.unlink(self.id, dir_fd=at)
        os.close(self._fd)


def _opened(folder: Path) -> AbstractContextManager[int]:
    return opened_folder(folder.parent, folder.name)


@contextmanager
def proven_dead(folder: Path, owner: str) -> Generator[bool]:
    """Whether an owner is dead; while the block runs, nobody else can come to that conclusion."""
    try:
        with _opened(folder) as at:
            fd = open_file(at, folder / owner, os.O_RDWR)
    except FileNotFoundError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def living(folder: Path, owner: str) -> OwnerFacts | None:
    """What is known of an owner that lives; None of a dead one."""
    with proven_dead(folder, owner) as dead:
        return None if dead else facts(folder, owner)


def facts(folder: Path, owner: str) -> OwnerFacts:
    """What is known of an owner."""
    try:
        data = json.loads(read_file(folder.parent, folder.name, owner))
        return OwnerFacts(pid=data.get("pid"), host=data.get("host"))
    except (OSError, ValueError):
        return OwnerFacts()


def sweep(folder: Path, needed: frozenset[str]) -> None:
    """Remove the files of dead owners that no lease names."""
    with suppress(FileNotFoundError), _opened(folder) as at:
        for name in os.listdir(at):  # noqa: PTH208  a handle has no path
            if name in needed or name.startswith("."):
                continue
            with proven_dead(folder, name) as dead, suppress(FileNotFoundError):
                if dead:
                    os.unlink(name, dir_fd=at)


@dataclass(frozen=True)
class Claimant:
    """Who wants a task, and by what means it may get it."""

    owner: Owner
    leases: LeaseStore
    reaper: Reaper
    machine: Machine

    async def take(self, task_id: str, lease: Lease | None = None) -> Fence:
        """Own the task, with every child of an earlier owner proven dead.

        `lease` is the task's lease if the caller has read it.
        Raises TaskBusy where a living process runs it, or took it first.
        """
        lease = lease or await self.leases.get(task_id)
        if lease is None:
            raise NotFound(f'No task "{task_id}".', "coterie tasks")
        if lease == self.running_lease(Fence(task_id, lease.token)):
            return Fence(task_id, lease.token)
        # The dead owner's lock is held until the task is ours, so that of two processes that
        # find it dead only one gets this far.  A parked task has no runner: the token decides.
        with ExitStack() as held:
            proof = proven_dead(self.owner.folder, lease.owner)
            dead = await anyio.to_thread.run_sync(held.enter_context, proof)
            if not dead and lease.state != "parked":
                raise await self._busy(lease)
            return await self._claim(lease)

    def running_lease(self, fence: Fence) -> Lease:
        """The lease of a task that this process runs."""
        return Lease(fence.task_id, self.owner.id, fence.token, "running")

    async def _claim(self, lease: Lease) -> Fence:
        token = await self.leases.claim(lease.task_id, self.owner.id, lease.token)
        if token is None:
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        fence = Fence(lease.task_id, token)
        await self._end_children(lease.task_id)
        if not await self.leases.confirm(fence):
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        return fence

    async def _end_children(self, task_id: str) -> None:
        children = await self.leases.children(task_id)
        for child in children:
            self._check_reachable(child)
        left: Sequence[int] = await self.reaper.end(children) if children else ()
        if left:
            raise TaskBusy(
                task_id,
                left[0],
                None,
                f"Processes of its last run could not be ended: {', '.join(map(str, left))}.",
            )
        for child in children:
            self.leases.drop_child(child.mark)

    def _check_reachable(self, child: ChildLease) -> None:
        here = self.machine
        if child.host != here.host:
            raise SurvivorsElsewhere(child.task_id, child.host)
        if child.boot_id == here.boot_id and child.pid_namespace != here.pid_namespace:
            raise SurvivorsElsewhere(child.task_id, f"{child.host} (another container)")
        # One of an earlier boot is dead, and its mark is found nowhere.

    async def _busy(self, lease: Lease) -> TaskBusy:
        known = await anyio.to_thread.run_sync(facts, self.owner.folder, lease.owner)
        return TaskBusy(lease.task_id, known.pid, known.host)
