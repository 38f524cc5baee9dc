"""Turns of tickets that are taken on another machine belong to their session in every way."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from coterie.app import worker as app_worker
from coterie.app.open_project import OpenProject
from coterie.engine import ending
from coterie.model import instant
from coterie.model.interaction import Display
from coterie.model.machine import Offer, OwnerRow
from coterie.model.record import ResultRecord
from coterie.model.team import Allowance, Budget, Member
from coterie.model.update import (
    Asked,
    Spent,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    Usage,
)
from coterie.ports import Storage
from tests.cli.command import InProcessCli, normalize
from tests.conftest import IsolatedUser
from tests.flow.machines_harness import Machines, machines, run, ticket_team, until
from tests.flow.ticket_harness import block, folder_of, obedient, part, plan, replying

__all__ = ["machines"]
ONE = plan(part("model", expected_outputs=["model.py"]))


async def status(storage: Storage, task_id: str) -> str:
    return next(row.status for row in await storage.events.tasks() if row.id == task_id)


async def is_run(storage: Storage, task_id: str) -> bool:
    lease = await storage.leases.get(task_id)
    return lease is not None and lease.state != "parked"


class BusyWorker:
    """A worker that starts its work, and finishes only when allowed to."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.ends = False

    def __call__(self, member: Member, text: str) -> object:
        self.places.append(str(folder_of(member)))
        return obedient(member, text) if self.ends else None


@asynccontextmanager
async def busy(machines: Machines, desk: OpenProject, worker: BusyWorker) -> AsyncGenerator[str]:
    """Run a session whose only turn is under way elsewhere; wait for it after the block."""
    machines.play(replying(Split_the_goal_into_tasks=ONE, Do_the_work_now=worker))
    task = await machines.session(desk)
    results: list[ResultRecord] = []

    async def session() -> None:
        results.append(await run(desk, task))

    async def works() -> bool:
        return bool(worker.places) and await is_run(desk.storage, f"{task}/T1.2")

    async with anyio.create_task_group() as group:
        group.start_soon(session)
        await until(works)
        yield task
    assert results[0].status in ("waiting", "canceled")


def agents(app: OpenProject) -> list[object]:
    """Return the open channels."""
    return [slot.channel for slot in app.pool._slots.values() if slot.channel is not None]


async def test_a_session_that_is_stopped_stops_its_turn_elsewhere_and_resumes_it(
    machines: Machines,
) -> None:
    worker = BusyWorker()
    async with machines.worker("gpu1") as there, machines.open() as desk:
        assert there.shared is not None
        async with busy(machines, desk, worker) as task, machines.open("sofa") as sofa:
            turn = f"{task}/T1.2"
            assert await sofa.stop(task)
            assert (await is_run(sofa.storage, turn), agents(there)) == (False, [])
            assert await status(sofa.storage, turn) == "running"
            assert await there.shared.dispatch.offered() == {}
        worker.ends = True
        assert (await run(desk, task)).status == "completed"
        rows = [row.id for row in await desk.storage.events.tasks()]
        assert rows == [task, f"{task}/T1", turn]
        assert await status(desk.storage, turn) == "completed"


class InterruptibleWorker(BusyWorker):
    """A worker that finishes only when it is interrupted."""

    def __call__(self, member: Member, text: str) -> object:
        super().__call__(member, text)
        return [TextDelta("so far")]


async def test_esc_in_a_session_interrupts_its_turn_elsewhere(machines: Machines) -> None:
    async with (
        machines.worker("gpu1"),
        machines.open() as desk,
        busy(machines, desk, InterruptibleWorker()) as task,
    ):
        await desk.interrupt(task)

        async def is_cut() -> bool:
            said = await desk.storage.conversation.messages(f"{task}/T1.2")
            return [one.text for one in said if one.cut] == ["so far"]

        await until(is_cut)
        assert await desk.stop(task)


@pytest.mark.parametrize("is_parked", [False, True])
async def test_a_session_that_is_canceled_cancels_its_turn_elsewhere(
    machines: Machines, is_parked: bool
) -> None:
    worker = BusyWorker()
    async with (
        machines.worker("gpu1") as there,
        machines.open() as desk,
        busy(machines, desk, worker) as task,
        machines.open("sofa") as sofa,
    ):
        turn = f"{task}/T1.2"
        if is_parked:
            await sofa.stop(task)
        await sofa.cancel(task)
        states = [await status(sofa.storage, one) for one in (task, f"{task}/T1", turn)]
        assert states == ["canceled"] * 3
        assert (await is_run(sofa.storage, turn), agents(there)) == (False, [])
        assert sofa.shared is not None
        assert await sofa.shared.dispatch.get(turn) is None


async def test_a_turn_on_a_machine_that_does_not_answer_is_canceled_by_who_goes_on_with_it(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "RELEASE_TIMEOUT", 0.2)
    worker = BusyWorker()
    silent = OwnerRow("silent", "gpu9", 0, False, instant.now(), "1.0")
    async with machines.open() as desk:
        async with machines.worker("gpu1"), busy(machines, desk, worker) as task:
            assert await desk.stop(task)
        turn, storage, shared = f"{task}/T1.2", desk.storage, desk.shared
        assert shared is not None
        await shared.owners.rows.add(silent)
        lease = await storage.leases.get(turn)
        assert lease is not None
        assert await storage.leases.claim(turn, "silent", lease.token)
        await shared.dispatch.offer(Offer(turn))
        assert await shared.dispatch.take(turn, "silent") is not None
        await shared.dispatch.hold(turn)

        await desk.cancel(task)
        assert [await status(storage, one) for one in (task, turn)] == ["canceled", "running"]
        began = len(worker.places)
        await shared.owners.rows.declare_dead("silent", None)

        async def is_canceled() -> bool:
            return await status(storage, turn) == "canceled"

        async with machines.worker("gpu1"):
            await until(is_canceled)
        assert len(worker.places) == began


def asks_runs_and_reports(member: Member, text: str) -> object:
    """A worker with a question, a tool call and a cost."""
    return [
        Asked("k1", "Input", "generic", Display(title="Which currency?")),
        ToolCallStarted("c1", "Bash", {"command": "make"}),
        ToolCallFinished("c1", False, {"out": "made"}),
        TurnCompleted(block(obedient(member, text)), Usage(5, 7)),
    ]


SHOWN = (
    ("tasks",),
    ("inbox",),
    ("show", "last"),
    ("show", "last/T1"),
    ("log", "last"),
    ("log", "last/T1"),
    ("cost", "last/T1"),
    ("cost", "last", "--by", "ticket"),
    ("audit", "last/T1"),
    ("audit", "last"),
)


def shown(cli: InProcessCli, task: str) -> dict[str, str]:
    """Return what commands print about a session and its ticket, without what differs between
    runs or shows that another machine took part."""
    ran = {" ".join(words): cli(*words) for words in SHOWN}
    return {name: _timed(normalize(one.out).replace(task, "k3f9")) for name, one in ran.items()}


def _timed(text: str) -> str:
    """Add the time of turns that were over within the same millisecond: none is shown for these."""
    text = re.sub(" +0.1s", " 0.1s", text)
    text = re.sub(r"(?m)^( T\d .* -) +(?:-|0\.1s) +(\S+)$", r"\1 0.1s \2", text)
    return re.sub(r"(  cost +\d+ turns?)(?! · 0\.1s)", r"\1 · 0.1s", text)


def test_what_a_turn_elsewhere_asked_did_and_cost_is_its_ticket_s(
    machines: Machines, user: IsolatedUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is shown as if the turn had been taken in the session's own process."""
    monkeypatch.setattr(app_worker, "ANSWER_TIMEOUT", 0.1)
    machines.play(replying(Split_the_goal_into_tasks=ONE, Do_the_work_now=asks_runs_and_reports))
    cli, url = InProcessCli(user), os.environ["COTERIE_STORE"]

    @asynccontextmanager
    async def at_desk(*workers: str) -> AsyncGenerator[OpenProject]:
        async with AsyncExitStack() as stack:
            for name in workers:
                await stack.enter_async_context(machines.worker(name))
            yield await stack.enter_async_context(machines.open())

    async def begun(*workers: str) -> str:
        async with at_desk(*workers) as desk:
            task = await machines.session(desk)
            assert (await run(desk, task)).status == "waiting"
            return task

    async def ended(task: str, *workers: str) -> None:
        async with at_desk(*workers) as desk:
            await desk.answer("q1", text="EUR")
            assert (await run(desk, task)).status == "completed"

    def all_of_it(*workers: str) -> tuple[dict[str, str], dict[str, str]]:
        task = anyio.run(begun, *workers)
        while_asked = shown(cli, task)
        anyio.run(ended, task, *workers)
        return while_asked, shown(cli, task)

    monkeypatch.delenv("COTERIE_STORE")
    here = all_of_it()
    monkeypatch.setenv("COTERIE_STORE", url)
    assert all_of_it("gpu1") == here
    assert "ran make" in here[1]["log last/T1"]


async def test_a_turn_elsewhere_uses_its_ticket_s_budget(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is asked about once, under the ticket's name."""
    monkeypatch.setattr(app_worker, "ANSWER_TIMEOUT", 0.1)

    def spends(member: Member, text: str) -> object:
        return [Spent(Usage(5, 7)), TurnCompleted(block(obedient(member, text)), Usage(5, 7))]

    machines.play(replying(Split_the_goal_into_tasks=ONE, Do_the_work_now=spends))
    team = ticket_team().model_copy(update={"budget": Budget(per_ticket=Allowance(tokens=10))})
    async with machines.worker("gpu1"), machines.open() as desk:
        task = await machines.session(desk, team)
        assert (await run(desk, task)).status == "waiting"
        (asked,) = await desk.questions()
        assert asked.interaction.display.title == f"{task}/T1 used 12 of 10 tokens"
        await desk.answer(asked.interaction.interaction_id, text="+100")
        assert (await run(desk, task)).status == "completed"
        assert await desk.questions() == []
