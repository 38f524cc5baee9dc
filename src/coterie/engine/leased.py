"""Owners on several machines: alive as long as they renew a lease, which their keepers read too."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from coterie.engine.lease import Owner, check_reachable, facts, forget, living, proven_dead
from coterie.engine.run import plain_errors
from coterie.errors import HistoryLost, LeaseExpired, StorageError, SurvivorsElsewhere
from coterie.model import instant
from coterie.model.lease_clock import LeaseTimes, SilentOwners
from coterie.model.machine import OwnerFacts, OwnerRow
from coterie.ports import LeaseStore, OwnerRows, Reaper, Takeover, require_lease
from coterie.process.deadline import DeadlinePage, now
from coterie.process.processes import PidScope

T = TypeVar("T")


class TakeoverAtOnce:
    """`ports.Takeover` where the lease alone decides."""

    async def allows(self, row: OwnerRow, silent: float) -> bool:
        """Allow it."""
        return True

    async def after_scan(self, living: Sequence[OwnerRow]) -> None:
        """Do nothing."""


async def _nobody_waits(owner: str) -> None: ...


@dataclass(frozen=True)
class _WatchLoop:
    """The loop that checks the other owners, which can be stopped before the lease ends."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass
class LeasedOwners:
    """`ports.Owners` of several machines that share a store.

    Neither the clocks of two machines nor times of day are ever compared.
    """

    rows: OwnerRows
    leases: LeaseStore
    reaper: Reaper
    machine: PidScope
    folder: Path
    """Where the lock files of this machine's owners are, for all projects."""
    name: str
    """What this machine is called in the store."""
    times: LeaseTimes = LeaseTimes()
    version: str = ""
    takeover: Takeover = TakeoverAtOnce()
    on_death: Callable[[str], Awaitable[None]] = _nobody_waits
    """Called when this process has declared an owner dead; may be cut short by our own end."""
    death_ends_children: bool = field(default=True, init=False)
    others: int = field(default=0, init=False)
    """How many other owners were alive at the last check."""
    _owner: Owner | None = None
    _page: DeadlinePage | None = None
    _silent: SilentOwners = field(init=False)
    _beginning: anyio.Lock = field(default_factory=anyio.Lock)
    _begun: anyio.Event = field(default_factory=anyio.Event)
    _watch_loop: _WatchLoop | None = None
    _lost: HistoryLost | None = None

    def __post_init__(self) -> None:
        self._silent = SilentOwners(self.times)

    @property
    def me(self) -> str:
        """Our id, in the store and as the name of our lock file."""
        return self._mine.id

    @property
    def _mine(self) -> Owner:
        assert self._owner is not None, "only an owner may run something"
        return self._owner

    @property
    def deadline(self) -> DeadlinePage | None:
        """The page that our keepers read."""
        return self._page

    async def begin(self) -> str:
        """Become an owner in the store; from then on `kept` renews the lease and checks others."""
        async with self._beginning:
            if self._owner is None:
                owner = await anyio.to_thread.run_sync(Owner, self.folder, self.machine.host)
                page, sent = DeadlinePage.made(self.times.soft), now()
                row = OwnerRow(owner.id, self.name, 0, False, instant.now(), self.version)
                try:
                    await self._within_beat(self.rows.add(row))
                except BaseException:
                    page.close()
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(owner.release)
                    raise
                page.begin(sent + self.times.ttl)
                self._owner, self._page = owner, page
                self._begun.set()
        return self._owner.id

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Once we are an owner, stay one while the block runs, and check the other owners.

        When the lease expires the block is cancelled, and LeaseExpired is raised once it has
        ended, or HistoryLost if that is the cause.
        """
        expired = finished = False

        async def keep(scope: anyio.CancelScope) -> None:
            nonlocal expired
            await self._begun.wait()
            group.start_soon(self._watch)
            page = self._page
            await self._renew()
            if self._page is page:  # otherwise `end` has ended it
                expired = True
                scope.cancel()

        with plain_errors():
            async with anyio.create_task_group() as group:
                group.start_soon(keep, group.cancel_scope)
                yield
                finished = True
                group.cancel_scope.cancel()
        if expired and not finished:
            raise self._lost or LeaseExpired

    def holding(self, task_id: str) -> AbstractContextManager[None]:
        """Do one thing at a time with a task."""
        return self._mine.holding(task_id)

    @asynccontextmanager
    async def proof(self, owner: str) -> AsyncGenerator[bool]:
        """Whether an owner is declared dead, or can be; if two ask, the token decides."""
        if self._page is not None:
            require_lease(self._page)
        row = await self._within_beat(self.rows.get(owner))
        proven = row is not None and (row.dead or await self._proven(row, now()))
        yield proven or await self._is_dead(owner)  # declared dead by another meanwhile

    async def living(self, owner: str) -> OwnerFacts | None:
        """What is known of an owner that has not been declared dead."""
        row = await self.rows.get(owner)
        if row is None or row.dead:
            return None
        if row.machine == self.name:
            with suppress(FileNotFoundError):
                return await anyio.to_thread.run_sync(self._living_here, owner)
        return OwnerFacts(host=row.machine)

    async def facts(self, owner: str) -> OwnerFacts:
        """What is known of an owner, dead or alive."""
        row = await self.rows.get(owner)
        here = await anyio.to_thread.run_sync(facts, self.folder, owner)
        return OwnerFacts(here.pid, row.machine if row else here.host)

    async def end(self, *, clean: bool = True) -> None:
        """Stop being an owner; if nothing of ours runs, declare ourselves dead to spare others the
        wait."""
        owner, page, self._owner, self._page = self._owner, self._page, None, None
        if owner is None or page is None:
            return
        page.expire()
        if clean:
            with suppress(StorageError):
                await self._within_beat(self.rows.declare_dead(owner.id, None))
        await anyio.to_thread.run_sync(owner.release)
        page.close()

    async def _within_beat(self, call: Awaitable[T]) -> T:
        """Return the store's answer; raises StorageError if there is none within a beat."""
        try:
            with anyio.fail_after(self.times.beat):
                return await call
        except TimeoutError:
            raise StorageError("owners", "The store does not respond") from None

    # -- our own lease -------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Renew the lease; returns when it is over."""
        me, page = self.me, self._page
        assert page is not None
        while not page.passed():
            sent = now()
            try:
                if await self._within_beat(self.rows.renew(me)) is None:
                    page.revoke()  # another has declared us dead
                else:
                    page.extend(sent + self.times.ttl)
            except HistoryLost as lost:  # it is unknown who runs what
                self._lost = lost
                page.revoke()
            except StorageError:
                pass  # the store may be back in time
            soft = page.deadline - page.soft
            await anyio.sleep(max(0.0, min(sent + self.times.beat, soft) - now()))

    # -- the other owners ----------------------------------------------------------------------

    async def _watch(self) -> None:
        """Keep checking the other owners, and declare dead those that are."""
        loop = self._watch_loop = _WatchLoop()
        try:
            with loop.scope:
                while True:
                    with suppress(StorageError):
                        await self.check_others()
                    await anyio.sleep(self.times.look)
        finally:
            loop.over.set()

    async def stop_watching(self) -> None:
        """Stop checking the others: the stores that this needs are about to be closed."""
        if self._watch_loop is not None:
            self._watch_loop.scope.cancel()
            await self._watch_loop.over.wait()

    async def check_others(self) -> None:
        """Check every other owner once."""
        rows, received = await self._within_beat(self.rows.living()), now()
        self._silent.forget({row.id for row in rows})
        self.others = max(0, len(rows) - 1)
        for row in rows:
            if self._owner is not None and row.id != self.me:
                await self._proven(row, received)
        await self.takeover.after_scan(rows)

    async def _proven(self, row: OwnerRow, received: float) -> bool:
        """Whether an owner is dead, by its row as read at `received`; if so, declare it dead."""
        if row.machine == self.name and await self._ended_here(row.id):
            return True
        if not self._silent.saw(row.id, row.beat, received):
            return False
        silent = received - self._silent.since(row.id)
        return await self.takeover.allows(row, silent) and await self._declare(row.id, row.beat)

    async def _declare(self, owner: str, beat: int | None) -> bool:
        if await self._within_beat(self.rows.declare_dead(owner, beat)):
            await self.on_death(owner)
            return True
        return await self._is_dead(owner)

    async def _is_dead(self, owner: str) -> bool:
        known = await self._within_beat(self.rows.get(owner))
        return known is not None and known.dead

    async def _ended_here(self, owner: str) -> bool:
        """Whether an owner on this machine is gone, by its lock, with everything it started.

        Its surviving processes are ended first, and only then is it declared dead.  Several
        processes may check at the same time: none of them mistakes another one for the owner.
        """
        with ExitStack() as held:
            lock = partial(proven_dead, self.folder, owner, unknown=False, alone=False)
            if not await anyio.to_thread.run_sync(lambda: held.enter_context(lock())):
                return False
            # Children before leases: a task taken over in between is no longer this owner's.
            children = await self.leases.children()
            owned = {lease.task_id for lease in await self.leases.all() if lease.owner == owner}
            children = [one for one in children if one.task_id in owned]
            try:
                for child in children:
                    check_reachable(child, self.machine)
            except SurvivorsElsewhere:
                return False  # another container with our name: its keepers end them
            if children and await self.reaper.end(children):
                return False
            if not await self._declare(owner, None):
                return False
            await anyio.to_thread.run_sync(forget, self.folder, owner)
            return True

    def _living_here(self, owner: str) -> OwnerFacts | None:
        (self.folder / owner).stat()
        return living(self.folder, owner)
