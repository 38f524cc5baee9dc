"""A machine is not offered again and again what it has refused; others are offered it, and so is
the machine itself once something has changed there."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.app import machines as offering
from coterie.app import worker as app_worker
from coterie.app.open_project import OpenProject
from coterie.app.run import StartRequest
from coterie.app.teams import Teams
from coterie.app.worker import WorkerOptions
from coterie.config.project import Project
from coterie.config.registry import registry_path
from coterie.config.teams import trust
from coterie.model import instant
from coterie.model.machine import Offer
from coterie.model.team import Member, Team
from tests.flow.machines_harness import TIMEOUT, Machines, machines, until
from tests.flow.ticket_harness import git

__all__ = ["machines"]
TEAM = {
    "name": "args",
    "workflow": "solo",
    "members": [{"id": "wren", "agent": "codex", "additionalArgs": ["--x"]}],
}


def trusted(project: Project) -> None:
    """Trust the team's file there, as a user does who has reviewed it."""
    teams = Teams(project, project.home)
    trust(teams.choose(str(project.root / "args.json"), None).loaded, instant.now(), project.home)


@pytest.fixture
def quick(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Machines that poll often, and a team whose file every clone has and the desk trusts."""
    monkeypatch.setattr(app_worker, "SWEEP", 0.05)
    machines.play(lambda member, text: "done")
    root = machines.user.project
    (root / "args.json").write_text(json.dumps(TEAM))
    git(root, "add", "args.json")
    git(root, "commit", "-qm", "a team")
    trusted(machines.place("desk"))
    return machines


async def offered(desk: OpenProject) -> str:
    file = str(Path(desk.root) / "args.json")
    task = await desk.start(file, "hello")
    await offering.offer(desk, task)
    return task


def refusals(machines: Machines) -> list[str]:
    return [event.detail for event in machines.events if event.state == "refused"]


class Sweeps:
    """Waits until a machine has looked for work a given number of times."""

    def __init__(self, machines: Machines, name: str) -> None:
        dispatch = machines.workers[name].shared.dispatch
        self.count, plain = 0, dispatch.sweep

        async def sweep() -> bool:
            self.count += 1
            return await plain()

        dispatch.sweep = sweep

    async def more(self, count: int) -> None:
        wanted = self.count + count

        async def are_done() -> bool:
            return self.count >= wanted

        await until(are_done)


async def test_it_is_not_asked_again_until_something_changed_there(
    quick: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_worker, "ANNOUNCE", 0.05)
    monkeypatch.setattr(app_worker, "RETRY_FIRST", 600.0)
    async with quick.open() as desk, quick.worker("gpu1"):
        task = await offered(desk)

        async def is_refused() -> bool:
            return bool(refusals(quick))

        await until(is_refused)
        taken = quick.workers["gpu1"]._taken
        await Sweeps(quick, "gpu1").more(20)
        assert quick.workers["gpu1"]._taken == taken
        detail = await desk.show(task)
        assert list(detail.refused) == ["gpu1"]
        place = await anyio.to_thread.run_sync(quick.place, "gpu1")
        await anyio.to_thread.run_sync(trusted, place)

        async def is_done() -> bool:
            return (await desk.show(task)).state.status == "completed"

        await until(is_done)
    (why,) = refusals(quick)
    assert why.startswith("Team args is not trusted on this machine: wren ")


async def test_an_agent_that_is_added_is_offered(
    quick: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a worker that offers every agent that is ready; `seen` is when it last announced them."""
    monkeypatch.setattr(app_worker, "ANNOUNCE", 0.05)
    monkeypatch.setattr(app_worker, "RETRY_FIRST", 600.0)
    place = await anyio.to_thread.run_sync(quick.place, "gpu1")
    registry = anyio.Path(registry_path(place.home))
    all_agents = await registry.read_text()
    known = json.loads(all_agents)
    only_codex = {**known, "agents": {"codex": known["agents"]["codex"]}}
    await registry.write_text(json.dumps(only_codex))
    async with quick.open() as desk, quick.worker("gpu1"):
        quick.workers["gpu1"].options = WorkerOptions("gpu1")
        assert desk.shared is not None
        (before,) = await desk.shared.dispatch.machines()
        mira = Member(id="mira", name="mira", display_name="Mira", agent="claude")
        team = Team(name="alone", workflow="solo", members=(mira,))
        task = await desk.create(StartRequest(team, "hello", workflow="solo"))
        await offering.offer(desk, task)
        await Sweeps(quick, "gpu1").more(5)
        await registry.write_text(all_agents)

        async def is_done() -> bool:
            return (await desk.show(task)).state.status == "completed"

        await until(is_done)
        (now,) = await desk.shared.dispatch.machines()
        assert (before.agents, "claude" in now.agents) == (("codex",), True)
        assert now.seen > before.seen


async def test_it_is_tried_ever_more_rarely_where_nothing_seems_to_change(
    quick: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something not known to matter may have changed.  The refusal is reported only once."""
    monkeypatch.setattr(app_worker, "ANNOUNCE", 0.01)
    monkeypatch.setattr(app_worker, "RETRY_FIRST", 0.01)
    async with quick.open() as desk, quick.worker("gpu1"):
        await offered(desk)

        async def is_tried_again() -> bool:
            return quick.workers["gpu1"]._taken >= 4

        await until(is_tried_again)
        assert quick.workers["gpu1"]._retry_after >= 0.04
    assert len(refusals(quick)) == 1


async def test_another_takes_it_and_no_more_than_it_has_seats_for(quick: Machines) -> None:
    begun, goes_on = list[str](), threading.Event()

    def work(member: Member, text: str) -> object:
        begun.append(text)
        assert goes_on.wait(TIMEOUT)
        return "done"

    quick.play(work)
    place = await anyio.to_thread.run_sync(quick.place, "gpu2")
    await anyio.to_thread.run_sync(trusted, place)
    async with quick.open() as desk, quick.worker("gpu1"):
        tasks = [await offered(desk) for _ in range(2)]

        async def are_refused() -> bool:
            return len(refusals(quick)) == 2

        await until(are_refused)
        async with quick.worker("gpu2", seats=1):

            async def has_begun() -> bool:
                return bool(begun)

            await until(has_begun)
            await Sweeps(quick, "gpu2").more(5)
            assert len(begun) == 1
            goes_on.set()

            async def are_done() -> bool:
                states = [(await desk.show(task)).state.status for task in tasks]
                return states == ["completed"] * 2

            await until(are_done)
    assert len(refusals(quick)) == 2


async def test_what_an_offer_does_not_say_is_needed_all_the_same(quick: Machines) -> None:
    """Anyone who can write to the store could offer a machine what it does not provide."""
    async with quick.open() as desk, quick.worker("gpu1", "claude"):
        task = await desk.start(str(desk.root / "args.json"), "hello")
        assert desk.shared is not None
        await desk.shared.dispatch.offer(Offer(task, machine="gpu1"))

        async def is_refused() -> bool:
            return bool(refusals(quick))

        await until(is_refused)
    assert refusals(quick) == [f"{task} needs codex, which this machine does not run."]
