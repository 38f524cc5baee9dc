"""The contract of every `ports.Owners`.

Subclass `OwnersContract`, implement `open` and `die`, and pytest runs the whole suite.  It needs
anyio's plugin in auto mode and a fixture `anyio_backend` that returns "asyncio".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from coterie.engine.lease import Claimant
from coterie.errors import LeaseLost, TaskBusy
from coterie.model.journal import AppendMessage, ChildLease, Fence
from coterie.ports import Owners, Storage
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import TASK, created, message

TIMEOUT = 30.0
"""How long proving a death may take; in practice as long as the implementation waits."""
HERE = PidScope("here", "boot", "ns")


class RecordingReaper:
    """A reaper that records the marks of the children it was asked to end."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        self.asked += [child.mark for child in children]
        return ()


class OwnersContract(ABC):
    """Which owners are alive or dead, and which may take a task."""

    @abstractmethod
    async def open(self, place: Path, storage: Storage, name: str) -> Owners:
        """Open a process of this name that is not an owner yet; all those opened in one place know
        of each other."""
        ...

    @abstractmethod
    async def die(self, owners: Owners) -> None:
        """Do to such a process what `kill -9` does."""
        ...

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncGenerator[Storage]:
        """Where tasks and leases are kept."""
        opened = await SqliteStorage.open(tmp_path / "coterie.db")
        yield opened
        await opened.close()

    @pytest.fixture
    async def one(self, tmp_path: Path, storage: Storage) -> AsyncGenerator[Owners]:
        """A process that is an owner."""
        async with self._begun(tmp_path, storage, "one") as owners:
            yield owners

    @pytest.fixture
    async def two(self, tmp_path: Path, storage: Storage) -> AsyncGenerator[Owners]:
        """Another process that is an owner."""
        async with self._begun(tmp_path, storage, "two") as owners:
            yield owners

    @asynccontextmanager
    async def _begun(self, place: Path, storage: Storage, name: str) -> AsyncGenerator[Owners]:
        owners = await self.open(place, storage, name)
        await owners.begin()
        yield owners
        await owners.end()

    async def test_each_owner_has_its_own_id_and_starts_once(
        self, one: Owners, two: Owners
    ) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one.begin)
        assert await one.begin() == one.me != two.me

    async def test_a_living_owner_is_proven_dead_by_nobody(self, one: Owners, two: Owners) -> None:
        for looker in (one, two):
            assert await looker.living(one.me) is not None
            async with looker.proof(one.me) as dead:
                assert not dead

    async def test_an_owner_that_has_ended_is_dead_at_once(
        self, tmp_path: Path, storage: Storage, two: Owners
    ) -> None:
        gone = await self.open(tmp_path, storage, "gone")
        await gone.end()  # a no-op, as it never began
        owner = await gone.begin()
        await gone.end()
        assert await two.living(owner) is None
        async with two.proof(owner) as dead:
            assert dead

    async def test_an_owner_that_ended_can_start_again_under_a_new_id(
        self, tmp_path: Path, storage: Storage, two: Owners
    ) -> None:
        again = await self.open(tmp_path, storage, "again")
        first = await again.begin()
        await again.end()
        assert await again.begin() != first
        assert await two.living(again.me) is not None
        await again.end()

    async def test_a_process_holds_a_task_only_once(self, one: Owners) -> None:
        with one.holding(TASK):
            with pytest.raises(TaskBusy), one.holding(TASK):
                pass
            with one.holding("other"):
                pass
        with one.holding(TASK):
            pass

    async def test_a_task_of_a_living_owner_is_busy_and_a_parked_one_free(
        self, storage: Storage, one: Owners, two: Owners
    ) -> None:
        fence = await self._created(storage, one)
        claimant = Claimant(two, storage.leases, RecordingReaper(), HERE)
        with pytest.raises(TaskBusy):
            await claimant.take(TASK)
        await storage.leases.park(fence)
        assert await claimant.take(TASK) == Fence(TASK, 2)

    async def test_a_dead_owners_task_is_taken_over_once_and_its_writes_are_refused(
        self, tmp_path: Path, storage: Storage, one: Owners, two: Owners
    ) -> None:
        dying = await self.open(tmp_path, storage, "dying")
        await dying.begin()
        fence = await self._created(storage, dying)
        child = ChildLease(TASK, "ann", "echo", "m1", "boot", "ns", "here", "2026-01-01T00:00:00Z")
        await storage.leases.record_child(fence, child)
        await self.die(dying)
        reaper, taken = RecordingReaper(), list[Fence]()

        async def take(owners: Owners) -> None:
            claimant = Claimant(owners, storage.leases, reaper, HERE)
            while not taken:
                try:
                    taken.append(await claimant.take(TASK))
                except TaskBusy:
                    await anyio.sleep(0.02)

        with anyio.fail_after(TIMEOUT):
            async with anyio.create_task_group() as group:
                group.start_soon(take, one)
                group.start_soon(take, two)
        assert (taken, set(reaper.asked)) == ([Fence(TASK, 2)], {"m1"})
        assert await storage.leases.children(TASK) == []
        with pytest.raises(LeaseLost):
            await storage.commit(fence, AppendMessage(message(1)))

    async def _created(self, storage: Storage, owners: Owners) -> Fence:
        fence = await storage.create(created(), owners.me, None)
        assert fence is not None
        return fence
