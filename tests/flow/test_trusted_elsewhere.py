"""Sessions whose team asks for what a machine must allow: turns go where its file is trusted,
wherever the session was made or runs; what no machine takes is done where the session runs."""

from __future__ import annotations

import json

import anyio.to_thread
import pytest

from coterie.app.open_project import OpenProject
from coterie.app.teams import Teams
from coterie.config.project import Project
from coterie.config.teams import trust
from coterie.model import instant
from coterie.model.task import Caps
from tests.flow.machines_harness import AGENTS, Machines, machines, run
from tests.flow.ticket_harness import git, part, plan, replying

__all__ = ["machines"]
FILE = "crew.json"


def commit_team_file(machines: Machines, mode: str) -> None:
    """Commit a team file, so that every clone has it; its worker is in this mode."""
    machines.play(replying(Split_the_goal_into_tasks=plan(part("model"))))
    members = [
        {"id": name, "agent": agent, "role": role, "permissions": permissions}
        for (name, agent), role, permissions in zip(
            AGENTS.items(), ("manager", "worker"), ("ask", mode), strict=True
        )
    ]
    root = machines.user.project
    team = {"name": "crew", "workflow": "tickets", "members": members}
    (root / FILE).write_text(json.dumps(team))
    git(root, "add", FILE)
    git(root, "commit", "-qm", "a team")


def trusted(project: Project) -> None:
    """Trust the team's file there, as a user does who has reviewed it."""
    teams = Teams(project, project.home)
    trust(teams.choose(str(project.root / FILE), None).loaded, instant.now(), project.home)


async def trust_on(machines: Machines, *names: str) -> None:
    for name in names:
        place = await anyio.to_thread.run_sync(machines.place, name)
        await anyio.to_thread.run_sync(trusted, place)


async def start_task(desk: OpenProject) -> str:
    return await desk.start(str(desk.root / FILE), "Add coupons", Caps(yes=True))


async def ran_by(desk: OpenProject, task: str) -> str | None:
    """Return the machine that took the worker's turn."""
    (turn,) = await desk.storage.journal.turns(f"{task}/T1.2")
    return turn.machine


async def test_where_neither_the_session_was_made_nor_it_runs(machines: Machines) -> None:
    commit_team_file(machines, "accept-edits")
    await trust_on(machines, "desk", "sofa", "gpu1")
    async with machines.open() as desk, machines.open("sofa") as sofa, machines.worker("gpu1"):
        task = await start_task(desk)
        assert (await run(sofa, task)).status == "completed"
        assert await ran_by(sofa, task) == "gpu1"
    assert [event.state for event in machines.events] == ["taken", "over"]


async def test_a_turn_that_every_machine_refuses_is_done_where_its_session_runs(
    machines: Machines,
) -> None:
    commit_team_file(machines, "accept-edits")
    await trust_on(machines, "desk")
    async with machines.open() as desk, machines.worker("gpu1"), machines.worker("gpu2"):
        task = await start_task(desk)
        assert (await run(desk, task)).status == "completed"
        assert await ran_by(desk, task) == "desk"
    assert {event.state for event in machines.events} == {"refused"}
    assert len(machines.events) == 2


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_member_that_never_asks_goes_where_that_is_allowed(
    machines: Machines, allowed: bool
) -> None:
    """No other machine is waited for."""
    commit_team_file(machines, "full")
    await trust_on(machines, "desk", "gpu1")
    async with machines.open() as desk, machines.worker("gpu1", allow_full=allowed):
        task = await start_task(desk)
        assert (await run(desk, task)).status == "completed"
        assert await ran_by(desk, task) == ("gpu1" if allowed else "desk")
