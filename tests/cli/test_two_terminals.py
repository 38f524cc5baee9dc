"""A session killed at each point where it waits, with a second terminal on the same task."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import Cli, ForkedCommand
from tests.cli.ticket_project import TicketProject, git, register_agents


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    project = TicketProject(register_agents(bare)).set_up()
    path = project.root / ".coterie" / "teams" / "crew" / "team.json"
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"turns": 4}}))
    return project


def asked(child: ForkedCommand) -> str:
    """The kind of the child's next question."""
    for record in map(json.loads, child.out):
        if record["type"] == "interaction" and record["state"] == "open":
            return str(record["about"]["kind"])
    raise AssertionError(child.err.read())


def waiting(project: TicketProject) -> list[str]:
    return [str(one["about"]["kind"]) for one in project("inbox", "--json").of("interaction")]


STEPS = (
    ("plan_approval", "approve"),
    ("budget", "+9"),  # clarified, planned, instructed, worked: four turns
    ("report_confirmation", "approve"),
)


def test_killed_wherever_it_waits_it_goes_on_from_another_terminal(project: TicketProject) -> None:
    words = ("run", "Add coupons only-one")
    for number, (kind, answer) in enumerate(STEPS, 1):
        with project.cli.start(*words, "--json", "--wait", "60s") as child:
            assert asked(child) == kind
            if kind == "budget":
                interfere(project, child)
            child.kill()
        assert waiting(project) == [kind], "it is asked once, and outlives who asked"
        assert project("answer", f"q{number}", answer).code == 0
        words = ("resume", "last")
    assert project("resume", "last").code == 0
    (session,) = project("show", "last", "--json").of("task")
    assert [one["status"] for one in session["children"]] == ["completed"]
    merged = f"coterie/{session['id']}/merged"
    assert "T1.py" in git(project.root, "ls-tree", "-r", "--name-only", merged)


def interfere(project: TicketProject, child: ForkedCommand) -> None:
    """Attach, clean up and try to take the session over while it runs; kill it while attached."""
    with project.cli.start("attach", "last", "--json") as watcher:
        watcher.until('"budget"')
        assert project("clean", "--yes").code == 0
        assert project("resume", "last", "--dry-run").code == 1, "it runs"
        child.kill()
        assert watcher.wait(30) == 3, watcher.err.read()
    assert project("attach", "last").code == 2, "nobody runs it"
