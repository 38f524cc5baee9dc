"""Leases: whether an owner is alive, and how its tasks are taken over once it is proven dead.

A Coterie process is alive as long as it holds its lock; that is never judged by a pid or a clock.
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
from time import sleep

import anyio
import anyio.to_thread

from coterie.errors import NotFound, NotOurs, SurvivorsElsewhere, TaskBusy
from coterie.model.journal import ChildLease, Fence, Lease
from coterie.model.machine import OwnerFacts
from coterie.ports import Deadline, LeaseStore, Owners, Reaper
from coterie.process.processes import PidScope
from coterie.workspace.beneath import open_file, open_folder, read_file

_TRIES, _BETWEEN = 200, 0.005
"""How often, and how many seconds apart, to try again to lock a file that others look at."""


class Owner:
    """This process, as the owner of tasks: it holds a lock for as long as it lives."""

    def __init__(self, folder: Path, host: str) -> None:
        """Create and lock our own lock file under `folder`."""
        self.folder = folder
        self.id: str = secrets.token_hex(6)
        self._host = host
        self._held: set[str] = set()
        # Locked under a hidden name, then renamed: a visible file is locked unless its owner is
        # dead.
        hidden = f".{self.id}"
        with open_folder(folder.parent, folder.name, make=True) as at:
            self._fd = open_file(at, folder / hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._fd, json.dumps({"pid": os.getpid(), "host": host}).encode())
            os.rename(hidden, self.id, src_dir_fd=at, dst_dir_fd=at)

    @contextmanager
    def holding(self, task_id: str) -> Generator[None]:
        """Do one thing at a time with a task: its lease belongs to the whole process.

        Raises TaskBusy if this process already works on it.
        """
        if task_id in self._held:
            raise TaskBusy(task_id, os.getpid(), self._host)
        self._held.add(task_id)
        try:
            yield
        finally:
            self._held.remove(task_id)

    def release(self) -> None:
        """Remove and release the lock: this process runs nothing any more."""
        forget(self.folder, self.id)
        os.close(self._fd)


def forget(folder: Path, owner: str) -> None:
    """Remove the file of an owner that is dead, or about to be."""
    with suppress(FileNotFoundError, NotOurs), _opened(folder) as at:
        os.unlink(owner, dir_fd=at)


def _opened(folder: Path) -> AbstractContextManager[int]:
    return open_folder(folder.parent, folder.name)


@contextmanager
def proven_dead(
    folder: Path, owner: str, *, unknown: bool = True, alone: bool = True
) -> Generator[bool]:
    """Whether an owner is dead; while the block runs, nobody else can come to that conclusion.

    `unknown` is the result for an owner that has no file here.  Callers that pass `alone=False`
    may come to the conclusion at the same time.
    """
    try:
        with _opened(folder) as at:
            fd = open_file(at, folder / owner, os.O_RDWR)
    except FileNotFoundError:
        yield unknown
        return
    try:
        yield _locked_alone(fd) if alone else _locked(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _locked_alone(fd: int) -> bool:
    """Lock a file for ourselves unless its owner, or who takes over from it, has locked it.

    Others who only look whether the owner is alive share the lock for a moment: we wait for them.
    """
    for _ in range(_TRIES):
        if _locked(fd, fcntl.LOCK_EX):
            return True
        if not _locked(fd, fcntl.LOCK_SH):
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        sleep(_BETWEEN)
    return False


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def living(folder: Path, owner: str) -> OwnerFacts | None:
    """What is known of a living owner; None for a dead one."""
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
    """`ports.Owners` on one machine: a process is alive as long as it holds its lock."""

    folder: Path
    host: str
    leases: LeaseStore | None = None
    """The leases that may still name dead owners; without them no lock file is removed."""
    deadline: Deadline | None = field(default=None, init=False)
    death_ends_children: bool = field(default=False, init=False)
    _owner: Owner | None = None
    _beginning: anyio.Lock = field(default_factory=anyio.Lock)
    """Makes concurrent calls of `begin` create only one owner."""

    @property
    def _mine(self) -> Owner:
        assert self._owner is not None, "only an owner may run something"
        return self._owner

    @property
    def me(self) -> str:
        """The name of our lock file."""
        return self._mine.id

    async def begin(self) -> str:
        """Take our lock before anything is run, and remove the lock files of dead owners."""
        async with self._beginning:
            if self._owner is None:
                self._owner = await anyio.to_thread.run_sync(Owner, self.folder, self.host)
                if self.leases is not None:
                    needed = frozenset(lease.owner for lease in await self.leases.all())
                    await anyio.to_thread.run_sync(sweep, self.folder, needed | {self._owner.id})
            return self._owner.id

    def holding(self, task_id: str) -> AbstractContextManager[None]:
        """Do one thing at a time with a task."""
        return self._mine.holding(task_id)

    @asynccontextmanager
    async def proof(self, owner: str) -> AsyncGenerator[bool]:
        """Whether an owner's lock is free; if so, we hold it while the block runs."""
        with ExitStack() as held:
            proof = proven_dead(self.folder, owner)
            yield await anyio.to_thread.run_sync(held.enter_context, proof)

    async def living(self, owner: str) -> OwnerFacts | None:
        """What is known of an owner if it is alive."""
        return await anyio.to_thread.run_sync(living, self.folder, owner)

    async def facts(self, owner: str) -> OwnerFacts:
        """What an owner wrote into its lock file."""
        return await anyio.to_thread.run_sync(facts, self.folder, owner)

    async def end(self, *, clean: bool = True) -> None:
        """Release our lock; surviving processes are found by their marks."""
        if self._owner is not None:
            await anyio.to_thread.run_sync(self._owner.release)
            self._owner = None


def check_reachable(child: ChildLease, here: PidScope) -> None:
    """Raise SurvivorsElsewhere for a process that cannot be seen from here.

    One from an earlier boot is dead, and its mark will not be found.
    """
    if child.host != here.host:
        raise SurvivorsElsewhere(child.task_id, child.host)
    if child.boot_id == here.boot_id and child.pid_namespace != here.pid_namespace:
        raise SurvivorsElsewhere(child.task_id, f"{child.host} (another container)")


@dataclass(frozen=True)
class Claimant:
    """Claims tasks for this process, ending what earlier owners left running."""

    owners: Owners
    leases: LeaseStore
    reaper: Reaper
    machine: PidScope

    async def take(self, task_id: str, lease: Lease | None = None) -> Fence:
        """Own the task, with every child of an earlier owner proven dead.

        `lease` is the task's lease if the caller has read it.
        Raises TaskBusy if a living process runs it, or took it first.
        """
        lease = lease or await self.leases.get(task_id)
        if lease is None:
            raise NotFound(f'No task "{task_id}".', "coterie tasks")
        if lease == self.running_lease(Fence(task_id, lease.token)):
            return Fence(task_id, lease.token)
        # Hold the proof until the task is ours: if it is a lock, only one of two processes that
        # find the owner dead gets this far.  Otherwise, and for a parked task, which has no
        # runner, the token decides.
        async with self.owners.proof(lease.owner) as dead:
            if not dead and lease.state != "parked":
                raise await self._busy(lease)
            return await self._claim(lease, dead=dead)

    async def take_parked(self, task_id: str) -> Fence:
        """Take a task without running it: also raises TaskBusy if this process runs it."""
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

    @asynccontextmanager
    async def parking_on_failure(self, fence: Fence) -> AsyncGenerator[None]:
        """Park a task of ours if the block fails or is cancelled: whoever takes it next ends what
        was left running, as we would have."""
        try:
            yield
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.park(fence)
            raise

    async def park(self, fence: Fence) -> bool:
        """Park a task, unless our lease has expired: then whoever proves us dead takes it over."""
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
            # Before claiming: under our token, nobody could tell whose they are.
            check_reachable(child, self.machine)
        token = None
        with anyio.CancelScope(shield=True):  # or it might be ours without our knowing
            token = await self.leases.claim(lease.task_id, self.owners.me, lease.token)
        if token is None:
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        fence = Fence(lease.task_id, token)
        async with self.parking_on_failure(fence):
            await self._end_children(lease.task_id, elsewhere=elsewhere)
            if not await self.leases.confirm(fence):
                raise await self._busy(await self.leases.get(lease.task_id) or lease)
        return fence

    async def _end_children(self, task_id: str, *, elsewhere: bool) -> None:
        """End what is left of earlier runs; `elsewhere`: on other machines nothing is left."""
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
