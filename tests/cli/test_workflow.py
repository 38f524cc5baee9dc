"""A workflow from another package, run by name."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, CommandResult, normalize
from tests.docs.test_docs import ROOT, files


@pytest.fixture
def installed(cli: Cli, tmp_path: Path) -> Cli:
    """The workflow of docs/python.md is installed, along with one that cannot be loaded."""
    site = tmp_path / "site"
    info = site / "mine-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "duet.py").write_text(files(ROOT / "docs" / "python.md")["duet.py"])
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = "[coterie.workflows]\nduet = duet:Duet\nbroken = duet:Nobody\n"
    (info / "entry_points.txt").write_text(points)
    path = os.pathsep.join(part for part in (str(site), os.environ.get("PYTHONPATH")) if part)
    return replace(cli, env={**cli.env, "PYTHONPATH": path})


def ran(cli: Cli, *arguments: str) -> CommandResult:
    """Run it in a new interpreter: installed packages are found when Python starts."""
    process = cli.launch(*arguments)
    out, err = process.communicate(timeout=60)
    return CommandResult(out, err, process.returncode)


def test_a_workflow_of_another_package(installed: Cli) -> None:
    agents = ("--agents", "ada,rex", "--json")
    first = ran(installed, "run", "--workflow", "duet", *agents, "a line")
    assert first.code == 3, first.err
    assert first.lines[0]["workflow"] == "duet"
    (asked,) = first.of("interaction")
    assert (asked["title"], asked["about"]["kind"]) == (
        "Keep draft 1?",
        "agent_question",
    )
    assert ran(installed, "answer", "q1", "keep").code == 0
    last = ran(installed, "resume", "last", "--json")
    assert (last.code, last.lines[-1]["reason"]) == (0, "kept")
    assert [one["member"] for one in first.of("message")] == ["ada", "rex"]
    assert last.of("message") == []


def test_it_can_be_rehearsed(installed: Cli) -> None:
    agents = ("--agents", "ada,codex", "--json")  # one must not be run, one is not installed
    first = ran(installed, "run", "--rehearse", "--workflow", "duet", *agents, "a line")
    assert first.code == 3, first.err
    assert all("stand-in" in message["text"] for message in first.of("message"))
    assert [one["member"] for one in first.of("message")] == ["ada", "codex"]


def test_a_team_may_name_it(installed: Cli) -> None:
    path = installed.team("ada", "rex")
    team = {"workflow": "duet", **json.loads(path.read_text())}
    path.write_text(json.dumps(team))
    assert ran(installed, "team", "validate").code == 0
    (told,) = ran(installed, "run", "--dry-run", "--json", "a line").lines
    assert told["workflow"] == "duet"
    path.write_text(json.dumps({**team, "workflow": "duett"}))
    wrong = ran(installed, "run", "--json", "a line")
    assert (wrong.code, normalize(wrong.lines[-1]["message"])) == snapshot(
        (
            2,
            '.coterie/teams/pair/team.json:1 workflow is "duett"; expected chat, tickets, solo, '
            "pipeline, broken or duet. Did you mean duet?",
        )
    )


def test_a_workflow_that_is_not_there(installed: Cli) -> None:
    wrong = ran(installed, "run", "--workflow", "duel", "--agents", "ada,rex", "a line")
    assert (wrong.code, wrong.err) == snapshot(
        (
            2,
            """\
! No workflow "duel"; there are chat, tickets, solo, pipeline, broken, duet. Did you mean duet?
  A workflow of another package is an entry point of the group coterie.workflows.
""",
        )
    )
    ours = ran(installed, "run", "--workflow", "ticket-turn", "--agents", "ada,rex", "a line")
    assert (ours.code, ours.err.startswith('! No workflow "ticket-turn"; ')) == (2, True), ours.err
    assert not (installed.user.project / ".coterie").exists()
    broken = ran(installed, "run", "--workflow", "broken", "--agents", "ada,rex", "a line")
    assert (broken.code, broken.err) == snapshot(
        (
            2,
            "! The workflow broken (duet:Nobody) cannot be loaded: module 'duet' has no attribute "
            "'Nobody'.\n  Fix or remove the package mine.\n",
        )
    )


def test_a_broken_package_breaks_nothing_else(installed: Cli, tmp_path: Path) -> None:
    points = tmp_path / "site" / "mine-1.0.dist-info" / "entry_points.txt"
    points.write_text("[coterie.agents]\nodd = nowhere:FACTS\nworse = duet:Nobody\n")
    installed.registry(it={"command": "cat", "adapter": "odd"}, fine={"command": "cat"})
    told = ran(installed, "doctor", "--json")
    broken = [one["detail"] for one in told.of("check") if one["name"] == "package"]
    assert broken == [
        "The agent odd (nowhere:FACTS) cannot be loaded: No module named 'nowhere'.",
        "The agent worse (duet:Nobody) cannot be loaded: module 'duet' has no attribute 'Nobody'.",
    ]
    states = {one["name"]: one["state"] for one in told.of("agent")}
    assert (states["it"], states["fine"]) == ("no adapter", "ready")
    assert ran(installed, "chat", "--agents", "fine", "hello").code == 0


FAULTY = """
class Late:
    name, version = "late", 1
    async def run(self, task, context):
        return 1 / 0
class Needy(Late):
    def __init__(self, needed): ...
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "run --workflow late --agents ada",
            "workflow late (faulty:Late) failed: ZeroDivisionError(",
        ),
        ("run --workflow needy --agents ada", "workflow needy (faulty:Needy) cannot be used: "),
        ("chat --agents odd", "agent odd (faulty:Nothing) cannot be loaded: module 'faulty' has "),
    ],
)
def test_a_fault_of_a_package_is_named_as_its_own(
    installed: Cli, tmp_path: Path, arguments: str, said: str
) -> None:
    site = tmp_path / "site"
    facts = "AgentFacts('odd', 'Odd', AdapterFacts('odd', make='faulty:Nothing'), is_program=False)"
    imported = "from coterie import AdapterFacts, AgentFacts\n"
    (site / "faulty.py").write_text(f"{FAULTY}{imported}FACTS = {facts}\n")
    points = "[coterie.agents]\nodd = faulty:FACTS\n[coterie.workflows]\n"
    ours = f"{points}late = faulty:Late\nneedy = faulty:Needy\n"
    (site / "mine-1.0.dist-info" / "entry_points.txt").write_text(ours)
    registered = {"command": "odd", "adapter": "odd"}
    installed.registry(odd=registered, ada={"command": "cat"})
    wrong = ran(installed, *arguments.split(), "a line")
    assert (wrong.code, f"! The {said}" in wrong.err) == (2, True), wrong.err


def test_completion_knows_it(installed: Cli) -> None:
    asking = {"_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": "coterie run --workflow d"}
    completing = replace(installed, env={**installed.env, **asking, "COMP_CWORD": "3"})
    assert ran(completing).out == "plain,duet\n"
