"""A session killed at each point where it waits, with a second terminal on the same task."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import Cli, Started
from tests.cli.crew import Crew, git, registered


@pytest.fixture
def crew(bare: Cli) -> Crew:
    crew = Crew(registered(bare)).furnish()
    path = crew.root / ".coterie" / "teams" / "crew" / "team.json"
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"turns": 4}}))
    return crew


def asked(child: Started) -> str:
    """The kind of the child's next question."""
    for record in map(json.loads, child.out):
        if record["type"] == "interaction" and record["state"] == "open":
            return str(record["about"]["kind"])
    raise AssertionError(child.err.read())


def waiting(crew: Crew) -> list[str]:
    return [str(one["about"]["kind"]) for one in crew("inbox", "--json").of("interaction")]


STEPS = (
    ("plan_approval", "approve"),
    ("budget", "+9"),  # clarified, planned, instructed, worked: four turns
    ("report_confirmation", "approve"),
)


def test_killed_wherever_it_waits_it_goes_on_from_another_terminal(crew: Crew) -> None:
    words = ("run", "Add coupons only-one")
    for number, (kind, answer) in enumerate(STEPS, 1):
        with crew.cli.start(*words, "--json", "--wait", "60s") as child:
            assert asked(child) == kind
            if kind == "budget":
                beside(crew, child)
            child.kill()
        assert waiting(crew) == [kind], "it is asked once, and outlives who asked"
        assert crew("answer", f"q{number}", answer).code == 0
        words = ("resume", "last")
    assert crew("resume", "last").code == 0
    (session,) = crew("show", "last", "--json").of("task")
    assert [one["status"] for one in session["children"]] == ["completed"]
    merged = f"coterie/{session['id']}/merged"
    assert "T1.py" in git(crew.root, "ls-tree", "-r", "--name-only", merged)


def beside(crew: Crew, child: Started) -> None:
    """Attach, clean up and try to take the session over while it runs; kill it while attached."""
    with crew.cli.start("attach", "last", "--json") as watcher:
        watcher.until('"budget"')
        assert crew("clean", "--yes").code == 0
        assert crew("resume", "last", "--dry-run").code == 1, "it runs"
        child.kill()
        assert watcher.wait(30) == 3, watcher.err.read()
    assert crew("attach", "last").code == 2, "nobody runs it"
