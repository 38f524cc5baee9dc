"""A store that lost history, as a backup or a replica took its place: every process stops, and
continues only when a person has said so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest

from coterie.app.worker import WorkerEvent, WorkerOptions, work
from coterie.errors import HistoryLost, LeaseLost
from coterie.model.journal import AppendMessage, Fence
from coterie.stores.codec import Head, HeadFile
from coterie.testing.contracts.samples import created, message, started
from coterie.testing.postgres import Databases
from tests.cli.command import InProcessCli
from tests.cli.test_store import execute
from tests.conftest import IsolatedUser
from tests.flow.machines_harness import TIMEOUT, Machines, machines, run, until
from tests.flow.test_remote_turns import ONE, BusyWorker
from tests.flow.ticket_harness import replying

__all__ = ["machines"]


@dataclass
class Backup:
    """A backup of a database that can be restored; nobody may use the database while it is made."""

    databases: Databases
    url: str
    copy: str

    @property
    def name(self) -> str:
        return urlsplit(self.url).path[1:]

    def make(self) -> None:
        self.databases.create(self.copy, self.name)

    def restore(self) -> None:
        """Restore the backup, which cuts off every connection."""
        self.databases.drop(self.name)
        self.databases.create(self.name, self.copy)


@pytest.fixture
def backup(postgres: Databases, database: str) -> Iterator[Backup]:
    made = Backup(postgres, database, f"test_{secrets.token_hex(8)}")
    yield made
    postgres.drop(made.copy)


async def recorded(machines: Machines, task: str, machine: str = "desk") -> None:
    """Create a task and start it."""
    async with machines.open(machine) as app:
        fence = await app.storage.create(created(task), await app.own(), None)
        await app.storage.commit(fence, started(task))


async def refused(machines: Machines, machine: str) -> HistoryLost:
    with pytest.raises(HistoryLost) as told:
        async with machines.open(machine):
            pass
    return told.value


def doctor(user: IsolatedUser, url: str) -> str:
    return InProcessCli(user)("doctor", "--store", url).out


async def test_an_older_copy_is_refused_until_a_person_goes_on_with_it(
    machines: Machines, backup: Backup, user: IsolatedUser
) -> None:
    in_thread = anyio.to_thread.run_sync
    await recorded(machines, "k3f9")
    await in_thread(backup.make)
    await recorded(machines, "m2n4", "gpu1")
    async with machines.open():
        pass  # just opening the project records how far the history goes
    await in_thread(backup.restore)
    said = "History is lost: it ends at event 2, but event 4 was written"
    for machine in ("desk", "gpu1"):
        error = await refused(machines, machine)
        assert (error.problem, f"coterie store continue '{backup.url}'" in str(error.hint)) == (
            *(said, True),
        )
    assert said in await in_thread(doctor, user, backup.url)

    ran = await in_thread(InProcessCli(user), "store", "continue")
    assert (ran.code, ran.err.splitlines()[0]) == (
        *(2, "! Every Coterie process must be stopped, on every machine."),
    )
    ran = await in_thread(InProcessCli(user), "store", "continue", "--yes")
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"Accepted the store as it is: {backup.url}")
    assert "  holds     1 task, " in ran.out
    for machine in ("desk", "gpu1"):
        async with machines.open(machine) as app:
            assert [row.id for row in await app.storage.events.tasks()] == ["k3f9"]
    assert said not in await in_thread(doctor, user, backup.url)


async def test_what_runs_by_a_history_that_is_gone_writes_nothing_more(
    machines: Machines, backup: Backup
) -> None:
    """Later tokens skip far ahead, so that none issued again can be mistaken for this one's."""
    await recorded(machines, "k3f9")
    async with machines.open() as app:
        claimant = await app.claimant()
        fence = await claimant.take("k3f9")
        await anyio.to_thread.run_sync(InProcessCli(machines.user), "store", "continue", "--yes")
        with pytest.raises((HistoryLost, LeaseLost)):
            await app.storage.commit(fence, AppendMessage(message(1)))
    async with machines.open("gpu1") as other:
        taken = await (await other.claimant()).take("k3f9")
        assert taken.token > fence.token + 1000
        await other.storage.commit(taken, AppendMessage(message(1)))
    assert fence == Fence("k3f9", 2)


async def test_another_history_of_the_same_length(machines: Machines, backup: Backup) -> None:
    await recorded(machines, "k3f9")
    await anyio.to_thread.run_sync(
        execute,
        backup.url,
        "ALTER TABLE coterie.events DISABLE TRIGGER ALL",
        "UPDATE coterie.events SET hash = sha256(hash) WHERE sequence = 2",
    )
    error = await refused(machines, "desk")
    assert error.problem == "History is lost: event 2 differs from what was written"


async def test_all_that_runs_stops_when_a_replica_takes_over_that_lost_something(
    machines: Machines, backup: Backup
) -> None:
    """The worker, the session that it serves, and the agent."""
    busy, told = BusyWorker(), list[WorkerEvent]()
    machines.play(replying(Split_the_goal_into_tasks=ONE, Do_the_work_now=busy))
    await anyio.to_thread.run_sync(execute, backup.url, "UPDATE coterie.project SET ttl = 12")
    await recorded(machines, "k3f9")
    await anyio.to_thread.run_sync(backup.make)
    place = await anyio.to_thread.run_sync(machines.place, "gpu1")
    lost: list[HistoryLost] = []

    async def serve() -> None:
        with pytest.raises(HistoryLost) as error:
            await work(place, WorkerOptions("gpu1", ("codex",)), told.append)
        lost.append(error.value)

    async def session() -> None:
        with pytest.raises(HistoryLost) as error:
            async with machines.open() as desk:
                await run(desk, await machines.session(desk))
        lost.append(error.value)

    async def works() -> bool:
        return bool(busy.places)

    with anyio.fail_after(TIMEOUT):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)

            async def is_ready() -> bool:
                return bool(told)

            await until(is_ready)
            group.start_soon(session)
            await until(works)
            await anyio.to_thread.run_sync(backup.restore)
    assert [error.problem.partition(":")[0] for error in lost] == ["History is lost"] * 2


def written(home: Path) -> list[Head | None]:
    """Return what is recorded on a machine about the history of each store."""
    return [HeadFile(home, "stores", file.name).read() for file in (home / "stores").iterdir()]


async def test_how_far_it_goes_is_written_down_by_who_appends_and_by_whoever_lives(
    machines: Machines,
) -> None:
    in_thread = anyio.to_thread.run_sync
    async with machines.open() as desk, machines.open("gpu1") as there:
        fence = await desk.storage.create(created("k3f9"), await desk.own(), None)
        await desk.storage.commit(fence, started("k3f9"))
        assert there.shared is not None
        assert await there.shared.owners.rows.renew(await there.own()) == 1
        homes = [(await in_thread(machines.place, name)).home for name in ("desk", "gpu1")]
        number, digest = await desk.storage.events.head()

    for home in homes:
        assert home is not None
        assert await in_thread(written, home) == [Head(number, digest)]
