"""Owners with a lease: what proves a death, when it is reported, and what a run does after it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import anyio
import pytest

from coterie.engine.lease import Claimant
from coterie.engine.leased import LeasedOwners, TakeoverAtOnce
from coterie.errors import HistoryLost, LeaseExpired, SurvivorsElsewhere
from coterie.model import instant
from coterie.model.conversation import Prompt
from coterie.model.journal import ChildLease, Fence, Lease
from coterie.model.lease_clock import LeaseTimes
from coterie.model.machine import OwnerRow
from coterie.model.team import Member
from coterie.model.update import TurnFailed
from coterie.ports import LeaseStore
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.owners import RecordingReaper
from coterie.testing.owner_rows import SqliteOwnerRows
from coterie.testing.scripted import TASK, ScriptedChannels, TurnScript, scripted_project, team
from tests.flow.test_takeover import make_task

T = TypeVar("T")
LONG = LeaseTimes(ttl=600.0, beat=10.0, soft=1.0, look=0.05)
HERE, THERE = PidScope("here", "boot", "ns"), PidScope("there", "other", "ns")


@asynccontextmanager
async def owners_in(
    folder: Path, machine: PidScope = HERE, times: LeaseTimes = LONG
) -> AsyncIterator[tuple[LeasedOwners, SqliteStorage, RecordingReaper]]:
    """Run an owner process on a machine."""
    storage, reaper = await SqliteStorage.open(folder / "coterie.db"), RecordingReaper()
    rows, locks = SqliteOwnerRows(folder / "owners.db"), folder / machine.host
    made = LeasedOwners(rows, storage.leases, reaper, machine, locks, machine.host, times=times)
    await made.begin()
    yield made, storage, reaper
    await made.end()
    await storage.close()


def killed(owners: LeasedOwners) -> str:
    """Lose the lock as by `kill -9`; return the id of the dead owner."""
    owner = owners._owner
    assert owner is not None
    os.close(owner._fd)
    owners._owner = None
    return owner.id


def child(mark: str, machine: PidScope) -> ChildLease:
    place = (machine.boot_id, machine.pid_namespace, machine.host)
    return ChildLease(TASK, "ada", "echo", mark, *place, instant.now())


async def is_dead(owners: LeasedOwners, owner: str) -> bool:
    async with owners.proof(owner) as dead:
        return dead


async def test_an_owner_that_nobody_knows_is_not_dead(tmp_path: Path) -> None:
    async with owners_in(tmp_path) as (mine, _, _):
        assert not await is_dead(mine, "nobody")
        assert await mine.living("nobody") is None


class WatchingReaper(RecordingReaper):
    """Records whether the owner was already declared dead when its survivors were ended."""

    def __init__(self, rows: SqliteOwnerRows, left: Sequence[int]) -> None:
        super().__init__()
        self.rows, self.left, self.dead = rows, left, list[bool]()

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        await super().end(children)
        living = {row.id for row in await self.rows.living()}
        self.dead += [child.mark not in living for child in children]
        return self.left


@pytest.mark.parametrize("left", [(), (77,)])
async def test_survivors_are_ended_before_their_owner_is_declared_dead(
    tmp_path: Path, left: Sequence[int]
) -> None:
    async with owners_in(tmp_path) as (gone, _, _), owners_in(tmp_path) as (mine, storage, _):
        owner = killed(gone)
        reaper = WatchingReaper(SqliteOwnerRows(tmp_path / "owners.db"), left)
        mine.reaper = reaper
        fence = await make_task(storage, owner, TASK)
        await storage.leases.record_child(fence, child(owner, HERE))  # marked by its owner's id
        assert await is_dead(mine, owner) is not bool(left)
        row = await mine.rows.get(owner)
        assert row is not None
        assert (reaper.asked, reaper.dead, row.dead) == ([owner], [False], not left)
        assert (mine.folder / owner).exists() is bool(left)


class SlowReaper(RecordingReaper):
    """Waits until every other reaper has come as far."""

    def __init__(self, both: list[anyio.Event]) -> None:
        super().__init__()
        self.here, self.both = anyio.Event(), both
        both.append(self.here)

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        self.here.set()
        for one in self.both:
            await one.wait()
        return await super().end(children)


async def test_who_ends_the_survivors_of_an_owner_is_not_taken_for_it(tmp_path: Path) -> None:
    """A process that takes a task over watches other owners meanwhile, as do other processes."""
    both, found = list[anyio.Event](), list[bool]()
    async with (
        owners_in(tmp_path) as (gone, _, _),
        owners_in(tmp_path) as (mine, storage, _),
        owners_in(tmp_path) as (other, _, _),
    ):
        owner = killed(gone)
        fence = await make_task(storage, owner, TASK)
        await storage.leases.record_child(fence, child("m1", HERE))
        mine.reaper, other.reaper = SlowReaper(both), SlowReaper(both)

        async def look(owners: LeasedOwners) -> None:
            found.append(await is_dead(owners, owner))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(look, mine)
                group.start_soon(look, other)
        assert found == [True, True]
        assert not (mine.folder / owner).exists()


async def test_an_owner_that_another_declares_dead_meanwhile_is_dead(tmp_path: Path) -> None:
    async with owners_in(tmp_path, THERE) as (gone, _, _), owners_in(tmp_path) as (mine, _, _):

        class DeclaredTakeover(TakeoverAtOnce):
            async def allows(self, row: OwnerRow, silent: float) -> bool:
                return not await mine.rows.declare_dead(row.id, None)

        mine.takeover = DeclaredTakeover()
        mine._silent.times = LeaseTimes(ttl=1e-9, beat=1e-10, soft=1e-10, margin=1e-9)
        assert [await is_dead(mine, gone.me) for _ in range(2)] == [False, True]


class InterceptedLeases:
    """Leases that run a callback when they are first read."""

    def __init__(self, leases: LeaseStore, then: Callable[[], Awaitable[object]]) -> None:
        self._leases, self._then = leases, [then]

    async def all(self) -> list[Lease]:
        return await self._read(await self._leases.all())

    async def children(self) -> list[ChildLease]:
        return await self._read(await self._leases.children())

    async def _read(self, found: list[T]) -> list[T]:
        while self._then:
            await self._then.pop()()
        return found


async def test_what_runs_for_who_has_taken_a_task_over_is_left_alone(tmp_path: Path) -> None:
    async with (
        owners_in(tmp_path) as (gone, _, _),
        owners_in(tmp_path) as (mine, storage, reaper),
        owners_in(tmp_path) as (other, _, _),
    ):
        owner = killed(gone)
        await make_task(storage, owner, TASK)

        async def take() -> None:
            fence = await Claimant(other, storage.leases, RecordingReaper(), HERE).take(TASK)
            await storage.leases.record_child(fence, child("new", HERE))

        mine.leases = cast("LeaseStore", InterceptedLeases(storage.leases, take))
        assert await is_dead(mine, owner)
        assert reaper.asked == []


async def test_the_lock_of_another_machine_or_container_proves_nothing(tmp_path: Path) -> None:
    other = replace(HERE, pid_namespace="container")
    async with (
        owners_in(tmp_path, THERE) as (gone, _, _),
        owners_in(tmp_path, other) as (contained, _, _),
        owners_in(tmp_path) as (mine, storage, reaper),
    ):
        far, near = killed(gone), killed(contained)
        fence = await make_task(storage, near, TASK)
        await storage.leases.record_child(fence, child("m1", other))
        assert [await is_dead(mine, far), await is_dead(mine, near)] == [False, False]
        assert reaper.asked == []


async def test_a_machine_that_is_declared_dead_stops_and_starts_again(tmp_path: Path) -> None:
    async with owners_in(tmp_path) as (mine, _, _):
        first = mine.me
        assert await mine.rows.declare_dead(first, None)

        async def live() -> None:
            with anyio.fail_after(30):
                async with mine.kept():
                    await anyio.sleep_forever()

        with pytest.raises(LeaseExpired):
            await live()
        assert mine.deadline is not None
        assert mine.deadline.passed()
        with pytest.raises(LeaseExpired):
            await is_dead(mine, "whoever")
        await mine.end()
        assert await mine.begin() != first


async def test_who_finds_that_the_store_lost_its_history_stops_at_once(tmp_path: Path) -> None:
    """Agents are not left running until the lease ends: nobody knows who runs what."""

    class Older(SqliteOwnerRows):
        async def renew(self, owner: str) -> int | None:
            raise HistoryLost("store", "History is lost")

    async with owners_in(tmp_path) as (mine, _, _):
        mine.rows = Older(tmp_path / "owners.db")

        async def live() -> None:
            with anyio.fail_after(30):
                async with mine.kept():
                    await anyio.sleep_forever()

        with pytest.raises(HistoryLost):
            await live()
        assert mine.deadline is not None
        assert mine.deadline.passed()


async def test_an_error_within_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    async with owners_in(tmp_path) as (mine, _, _):
        with pytest.raises(KeyError, match="mine"):
            async with mine.kept():
                raise KeyError("mine")


@pytest.mark.parametrize("fenced", [True, False])
async def test_a_silent_owner_is_dead_if_its_fence_says_so_and_that_is_notified_once(
    tmp_path: Path, fenced: bool
) -> None:
    told: list[str] = []
    async with owners_in(tmp_path) as (mine, _, _):
        # Its own lease is long: only the others count as silent soon.
        short_lease = LeaseTimes(ttl=0.2, beat=0.1, soft=0.05, margin=0.1)
        mine._silent.times = short_lease

        class Fence(TakeoverAtOnce):
            async def allows(self, row: OwnerRow, silent: float) -> bool:
                assert silent >= short_lease.ttl + short_lease.margin
                told.append(f"fence {row.machine}")
                return fenced

        async def on_death(owner: str) -> None:
            told.append(owner)

        mine.takeover, mine.on_death = Fence(), on_death
        row = OwnerRow("silent", "there", 3, False, instant.now(), "")
        await mine.rows.add(row)
        with anyio.fail_after(30):
            async with mine.kept():
                while len(told) < 2:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
                assert await is_dead(mine, "silent") is fenced
        assert told[:2] == (["fence there", "silent"] if fenced else ["fence there"] * 2)
        assert told.count("silent") == fenced


@pytest.mark.parametrize("is_dead_there", [True, False])
async def test_processes_elsewhere_are_gone_with_a_dead_owner_and_not_with_a_living_one(
    tmp_path: Path, is_dead_there: bool
) -> None:
    async with (
        owners_in(tmp_path, THERE) as (gone, _, _),
        owners_in(tmp_path) as (mine, storage, _),
    ):
        fence = await make_task(storage, gone.me, TASK)
        await storage.leases.record_child(fence, child("m1", THERE))
        await storage.leases.park(fence)
        claimant = Claimant(mine, storage.leases, RecordingReaper(), HERE)
        if is_dead_there:
            assert await mine.rows.declare_dead(gone.me, None)
            assert await claimant.take(TASK) == Fence(TASK, 2)
            assert await storage.leases.children(TASK) == []
        else:
            with pytest.raises(SurvivorsElsewhere):
                await claimant.take(TASK)
            assert await storage.leases.get(TASK) == Lease(TASK, gone.me, 1, "parked")


async def test_of_a_turn_that_the_lease_ended_nothing_is_recorded(tmp_path: Path) -> None:
    """Its agent did not fail: no retry here, no question, and the task is not parked."""
    async with owners_in(tmp_path) as (mine, storage, _):
        tried: list[int] = []

        def script(member: Member, prompt: Prompt) -> TurnScript:
            tried.append(prompt.tries)
            assert mine.deadline is not None
            mine.deadline.expire()
            return [TurnFailed("exit", "killed by signal 15")]

        async with scripted_project(tmp_path, storage, owners=mine) as it:
            await it.start(team("ada"))
            with pytest.raises(LeaseExpired):
                await it.run(ScriptedChannels(script))
            history = await storage.history(TASK)
            assert (tried, [turn.outcome for turn in history.turns]) == ([1], [None])
            assert await storage.leases.get(TASK) == Lease(TASK, mine.me, 1, "running")
            assert [event.type for event in history.events] == ["TaskCreated", "TaskStarted"]
            assert await storage.inbox.questions() == []
    async with (
        owners_in(tmp_path, THERE) as (other, storage, _),
        scripted_project(tmp_path, storage, owners=other) as it,
    ):
        assert (await it.run(ScriptedChannels(lambda member, prompt: "done"))).task == TASK
        outcomes = [turn.outcome for turn in (await storage.history(TASK)).turns]
        assert outcomes[:2] == ["unknown", "completed"]
