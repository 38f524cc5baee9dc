"""A roles file, from `start` to `accept`: real processes, real git, real checks, from a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie import Caps, ResultRecord, open_project
from coterie.agents.table import KNOWN_AGENTS
from coterie.app.project import App
from coterie.config.project import Project
from coterie.config.registry import load_registry
from coterie.config.teams import choose_team
from coterie.model.workspace import Workspace
from tests.conftest import IsolatedUser, init_project
from tests.flow.ticket_harness import git, part, plan, repository

PROGRAM = """
import json, os, pathlib, sys

text = sys.stdin.read()
said = {{"Is anything unclear": {{"status": "clear", "intent_summary": "x"}},
        "Split the goal": {plan},
        "Write the instruction": {{"summary": "Do it."}},
        "Is it done?": {{"decision": "approved"}}}}
answer = next((given for words, given in said.items() if words in text), None)
if answer is None:
    ticket = text.split("on ticket ")[1].split(" ")[0]
    pathlib.Path(ticket + ".txt").write_text("done\\n")
    with open(os.environ["HOME"] + "/worked", "a") as file:
        file.write(ticket + " " + os.getcwd() + "\\n")
    answer = {{"ticket_id": ticket, "status": "completed", "outputs": [ticket + ".txt"]}}
print("```json\\n" + json.dumps(answer) + "\\n```")
"""


@pytest.fixture
def project(user: IsolatedUser) -> Path:
    root = repository(user.project / "shop")
    program = user.home / "agent.py"
    program.write_text(PROGRAM.format(plan=plan(part("a"), part("b"))))
    command = f"{sys.executable} -I -S {program}"
    roles = [
        {"role_id": "mira", "type": "manager", "cli_command": command},
        {
            "role_id": "wren",
            "type": "worker",
            "cli_command": command,
            "supports_multiple_instances": True,
            "metadata": {"permissions": "accept-edits"},
        },
    ]
    (root / ".coterie" / "roles.json").write_text(json.dumps({"roles": roles}))
    limits = {"checks": ["test -f cart.py && ls *.txt"], "concurrency": 2, "sign": True}
    (root / ".coterie" / "scheduler_config.json").write_text(json.dumps(limits))
    return root


async def test_a_roles_file_is_a_team_that_works(user: IsolatedUser, project: Path) -> None:
    async with open_project(project) as app:
        roles = await app.team(str(project / ".coterie" / "roles.json"))
        task = await app.start(roles, "Make them", Caps(yes=True), workflow="tickets")
        with anyio.fail_after(100):
            *_, result = [record async for record in app.stream(task, wait=0)]
        assert isinstance(result, ResultRecord)
        assert (result.status, result.summary) == ("completed", "2 done")
        assert result.next == tuple(
            f"coterie {verb} {task}" for verb in ("diff", "accept", "revert")
        )
        views = await app.tickets(task)
        assert [str(view.checks) for view in views] == ["1/1", "1/1"]
        assert {view.ticket.owner for view in views} == {"wren", "wren#2"}
        assert all(one.signature for one in await app.envelopes(task))
        done = await app.accept(task)
    assert [one.path for one in done.files] == ["T1.txt", "T2.txt"]
    assert git(project, "status", "--porcelain") == ""
    folder = project / ".coterie"
    # Each instance has a home of its own, and worked in its ticket's worktree.
    worked = {
        name: (folder / "teams" / "roles" / name / "home" / "worked").read_text().split()
        for name in ("wren", "wren#2")
    }
    places = {ticket: Path(place) for ticket, place in worked.values()}
    assert places == {ticket: folder / "worktrees" / task / ticket for ticket in ("T1", "T2")}
    logs = sorted(path.name for path in (folder / "sessions" / task / "artifacts").iterdir())
    assert [name.partition("-")[2] for name in logs[:1]] == ["test-f-cart-py-ls-txt.log"]
    assert len(list((folder / "logs" / task).glob("*-artifact_ref.json"))) >= 2
    assert (folder / "logs" / task / "events.log").read_text().count("\n") == len(
        list((folder / "logs" / task).glob("*.json"))
    )


async def test_an_instance_has_its_own_folder_and_what_its_member_is_given(
    user: IsolatedUser,
) -> None:
    """Environment values are not kept with a task; an instance gets those of its member."""
    member = {"id": "wren", "agent": "echo", "env": {"MINE": "yes"}, "homeDir": "elsewhere"}
    path = init_project(user.project) / "teams" / "shop" / "team.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"members": [{**member, "supportsMultipleInstances": True}]}))
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = {"schemaVersion": "1.2", "agents": {"echo": {"command": "cat", "capabilities": {}}}}
    registry.write_text(json.dumps(agents))
    place = user.project / "material"
    place.mkdir()

    def workspaces(app: App) -> list[Workspace]:
        team = choose_team(Project(user.project), "shop", load_registry(KNOWN_AGENTS)).team
        members = app._members.of(team.sealed(), str(path), None)
        instances = [team.instance(name) for name in ("wren", "wren#2")]
        at_work = {"execution_dir": str(place)}
        return [members.workspace(one.model_copy(update=at_work)) for one in instances if one]

    async with App.open(user.project) as app:
        one, two = await anyio.to_thread.run_sync(workspaces, app)
    assert (one.env["MINE"], two.env["MINE"]) == ("yes", "yes")
    assert (one.folder.name, two.folder.name) == ("wren", "wren#2")
    assert (one.home, two.home) == (path.parent / "elsewhere", two.folder / "home")
    assert (one.execution_dir, two.execution_dir) == (place, place)
