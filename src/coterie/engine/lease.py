"""Leases: whether an owner lives, and how a task is taken over once it is proven dead.

Whether a Coterie process lives is asked of a lock it holds for life, never of a pid or a clock.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.errors import NotFound, NotOurs, SurvivorsElsewhere, TaskBusy
from coterie.model.journal import ChildLease, Fence, Lease
from coterie.model.machine import OwnerFacts
from coterie.ports import Deadline, LeaseStore, Owners, Reaper
from coterie.process.processes import Machine
from coterie.workspace.beneath import open_file, opened_folder, read_file


class Owner:
    """This process, as the owner of tasks: a lock that it holds for life."""

    def __init__(self, folder: Path, host: str) -> None:
        """Take a lock file of our own under `folder`."""
        self.folder = folder
        self.id: str = secrets.token_hex(6)
        self._host = host
        self._held: set[str] = set()
        # Locked under a name nobody looks at, then renamed: a file that can be seen is locked,
        # unless its owner is dead.
        hidden = f".{self.id}"
        with opened_folder(folder.parent, folder.name, make=True) as at:
            self._fd = open_file(at, folder / hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._fd, json.dumps({"pid": os.getpid(), "host": host}).encode())
            os.rename(hidden, self.id, src_dir_fd=at, dst_dir_fd=at)

    @contextmanager
    def holding(self, task_id: str) -> Generator[None]:
        """Do one thing at a time with a task: its lease is the whole process's.

        Raises TaskBusy where this process is at it already.
        """
        if task_id in self._held:
            raise TaskBusy(task_id, os.getpid(), self._host)
        self._held.add(task_id)
        try:
            yield
        finally:
            self._held.remove(task_id)

    def release(self) -> None:
        """Say that this process runs nothing any more."""
        forget(self.folder, self.id)
        os.close(self._fd)


def forget(folder: Path, owner: str) -> None:
    """Remove the file of an owner that is dead, or about to be."""
    with suppress(FileNotFoundError, NotOurs), _opened(folder) as at:
        os.unlink(owner, dir_fd=at)


def _opened(folder: Path) -> AbstractContextManager[int]:
    return opened_folder(folder.parent, folder.name)


@contextmanager
def proven_dead(
    folder: Path, owner: str, *, unknown: bool = True, alone: bool = True
) -> Generator[bool]:
    """Whether an owner is dead; while the block runs, nobody else can come to that conclusion.

    `unknown` is what is said of one that has no file here.  Those that need not be `alone` may
    come to it at the same time.
    """
    try:
        with _opened(folder) as at:
            fd = open_file(at, folder / owner, os.O_RDWR)
    except FileNotFoundError:
        yield unknown
        return
    try:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def living(folder: Path, owner: str) -> OwnerFacts | None:
    """What is known of an owner that lives; None of a dead one."""
    with proven_dead(folder, owner, alone=False) as dead:
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


@dataclass
class FlockOwners:
    """`ports.Owners` of one machine: a process lives as long as it holds its lock."""

    folder: Path
    host: str
    leases: LeaseStore | None = None
    """They tell which of the dead are still named; without them nothing is swept up."""
    deadline: Deadline | None = field(default=None, init=False)
    death_ends_children: bool = field(default=False, init=False)
    _owner: Owner | None = None
    _beginning: anyio.Lock = field(default_factory=anyio.Lock)
    """Two that begin at once are one owner."""

    @property
    def _mine(self) -> Owner:
        assert self._owner is not None, "only an owner may run something"
        return self._owner

    @property
    def me(self) -> str:
        """The name of our lock file."""
        return self._mine.id

    async def begin(self) -> str:
        """Take our lock when something is first run, and sweep up after those who lost theirs."""
        async with self._beginning:
            if self._owner is None:
                self._owner = await anyio.to_thread.run_sync(Owner, self.folder, self.host)
                if self.leases is not None:
                    needed = frozenset(lease.owner for lease in await self.leases.all())
                    await anyio.to_thread.run_sync(sweep, self.folder, needed | {self._owner.id})
            return self._owner.id

    def holding(self, task_id: str) -> AbstractContextManager[None]:
        """One thing at a time with a task."""
        return self._mine.holding(task_id)

    @asynccontextmanager
    async def proof(self, owner: str) -> AsyncGenerator[bool]:
        """Whether its lock is free; it is ours while the block runs."""
        with ExitStack() as held:
            proof = proven_dead(self.folder, owner)
            yield await anyio.to_thread.run_sync(held.enter_context, proof)

    async def living(self, owner: str) -> OwnerFacts | None:
        """What is known of an owner that lives."""
        return await anyio.to_thread.run_sync(living, self.folder, owner)

    async def facts(self, owner: str) -> OwnerFacts:
        """What it wrote into its lock file."""
        return await anyio.to_thread.run_sync(facts, self.folder, owner)

    async def end(self, *, clean: bool = True) -> None:
        """Let go of our lock; what is left is found by its mark."""
        if self._owner is not None:
            await anyio.to_thread.run_sync(self._owner.release)
            self._owner = None


def check_reachable(child: ChildLease, here: Machine) -> None:
    """Raise SurvivorsElsewhere of a process that cannot be seen from here.

    One of an earlier boot is dead, and its mark is found nowhere.
    """
    if child.host != here.host:
        raise SurvivorsElsewhere(child.task_id, child.host)
    if child.boot_id == here.boot_id and child.pid_namespace != here.pid_namespace:
        raise SurvivorsElsewhere(child.task_id, f"{child.host} (another container)")


@dataclass(frozen=True)
class Claimant:
    """Who wants a task, and by what means it may get it."""

    owners: Owners
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
        # The proof is held until the task is ours: where it is a lock, of two processes that find
        # its owner dead only one gets this far.  Else, and of a parked task, which has no runner,
        # the token decides.
        async with self.owners.proof(lease.owner) as dead:
            if not dead and lease.state != "parked":
                raise await self._busy(lease)
            return await self._claim(lease, dead=dead)

    async def take_parked(self, task_id: str) -> Fence:
        """The same for a task that is not to be run: one that this process runs is busy, too."""
        lease = await self.leases.get(task_id)
        if lease is not None and lease == self.running_lease(Fence(task_id, lease.token)):
            raise await self._busy(lease)
        return await self.take(task_id, lease)

    @asynccontextmanager
    async def held(self, task_id: str) -> AsyncGenerator[Fence]:
        """Own a task until the block ends, so that nobody runs it; raises as `take` does."""
        with self.owners.holding(task_id):
            fence = await self.take(task_id)
            try:
                yield fence
            finally:
                with anyio.CancelScope(shield=True):
                    await self.park(fence)

    async def park(self, fence: Fence) -> bool:
        """Let go of a task; not so where our lease is over: who proves us dead goes on with it."""
        deadline = self.owners.deadline
        if deadline is not None and deadline.passed():
            return False
        await self.leases.park(fence)
        return True

    def running_lease(self, fence: Fence) -> Lease:
        """The lease of a task that this process runs."""
        return Lease(fence.task_id, self.owners.me, fence.token, "running")

    async def _claim(self, lease: Lease, *, dead: bool) -> Fence:
        elsewhere = dead and self.owners.death_ends_children
        for child in () if elsewhere else await self.leases.children(lease.task_id):
            check_reachable(child, self.machine)  # before: with our token they could be anybody's
        token = await self.leases.claim(lease.task_id, self.owners.me, lease.token)
        if token is None:
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        fence = Fence(lease.task_id, token)
        await self._end_children(lease.task_id, elsewhere=elsewhere)
        if not await self.leases.confirm(fence):
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        return fence

    async def _end_children(self, task_id: str, *, elsewhere: bool) -> None:
        """End what is left of earlier runs; `elsewhere`: that is known to be done but for here."""
        children = await self.leases.children(task_id)
        for child in children:
            if not elsewhere:
                check_reachable(child, self.machine)
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

    async def _busy(self, lease: Lease) -> TaskBusy:
        known = await self.owners.facts(lease.owner)
        return TaskBusy(lease.task_id, known.pid, known.host)
