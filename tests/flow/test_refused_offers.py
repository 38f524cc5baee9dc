"""What a machine refuses it is not asked for again and again; others are, and itself when something
has changed there."""

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
from coterie.app.teams import Teams
from coterie.config.project import Project
from coterie.config.teams import trust
from coterie.model import instant
from coterie.model.machine import Offer
from coterie.model.team import Member
from tests.flow.machines_stage import PATIENCE, Machines, machines, until
from tests.flow.ticket_stage import git

__all__ = ["machines"]
TEAM = {
    "name": "args",
    "workflow": "solo",
    "members": [{"id": "wren", "agent": "codex", "additionalArgs": ["--x"]}],
}


def trusted(project: Project) -> None:
    """The user has looked at the team's file there."""
    teams = Teams(project, project.home)
    trust(teams.choose(str(project.root / "args.json"), None).loaded, instant.now(), project.home)


@pytest.fixture
def quick(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Machines that look often; a team whose file every clone has, and that the desk trusts."""
    monkeypatch.setattr(app_worker, "SWEEP", 0.05)
    machines.play(lambda member, text: "done")
    root = machines.house.project
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
    return [event.detail for event in machines.told if event.state == "refused"]


class Sweeps:
    """Waits until a machine has looked for work so often."""

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
    monkeypatch.setattr(app_worker, "SOON", 600.0)
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


async def test_it_is_tried_ever_more_rarely_where_nothing_seems_to_change(
    quick: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whatever is not known to matter; and it is said once."""
    monkeypatch.setattr(app_worker, "ANNOUNCE", 0.01)
    monkeypatch.setattr(app_worker, "SOON", 0.01)
    async with quick.open() as desk, quick.worker("gpu1"):
        await offered(desk)

        async def is_tried_again() -> bool:
            return quick.workers["gpu1"]._taken >= 4

        await until(is_tried_again)
        assert quick.workers["gpu1"]._again >= 0.04
    assert len(refusals(quick)) == 1


async def test_another_takes_it_and_no_more_than_it_has_seats_for(quick: Machines) -> None:
    begun, goes_on = list[str](), threading.Event()

    def work(member: Member, text: str) -> object:
        begun.append(text)
        assert goes_on.wait(PATIENCE)
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
    """Who can write to the store could offer a machine what it does not give."""
    async with quick.open() as desk, quick.worker("gpu1", "claude"):
        task = await desk.start(str(desk.root / "args.json"), "hello")
        assert desk.shared is not None
        await desk.shared.dispatch.offer(Offer(task, machine="gpu1"))

        async def is_refused() -> bool:
            return bool(refusals(quick))

        await until(is_refused)
    assert refusals(quick) == [f"{task} needs codex, which this machine does not run."]
