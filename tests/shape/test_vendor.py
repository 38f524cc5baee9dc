"""A new vendor is one package: nothing else changes for it to be found, checked and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.table import KNOWN_AGENTS

SOURCE = Path(__file__).parents[2] / "src" / "coterie"
ROOMS = {"agents", "rehearsal"}
"""Where vendors are known: their own packages, and the wire formats of stand-in models."""

PACKAGE = '''
"""Acme, an agent of another house."""
from coterie.model.agent import (AdapterFacts, AgentFacts)
from coterie.model.flags import (FlagFacts)
from coterie.model.conversation import Limits
from coterie.model.interaction import Display
from coterie.model.tool_call import Action
from coterie.model.update import (Asked, PendingCall, TurnCompleted)

FACTS = AgentFacts(
    name="acme",
    display_name="Acme",
    install="get acme",
    sign_in="acme login",
    sign_in_check=("status",),
    tested="3.1",
    keys=("ACME_KEY",),
    adapter=AdapterFacts("acme", make="acme:Acme"),
    flags=FlagFacts(
        mode={"serve": 0},
        prompt=frozenset({"--persona"}),
        auto_approve_flags={"--trust": frozenset({"all"})},
    ),
    isolating=("ACME_HOME",),
    instructions=("ACME.md",),
    settings=(".acme",),
)


class Acme:
    thread = None
    holds_past = True
    pid = None
    alive = True

    def __init__(self, agent, children, keeper, quiet_after):
        self.agent = agent

    @staticmethod
    def environment(member, workspace):
        return {**workspace.env, "ACME_HOME": str(workspace.home)}

    def limits(self, member):
        return Limits(10.0, 10.0)

    async def open(self, member, workspace, thread):
        self.env, self.cwd = workspace.env, str(workspace.execution_dir)
        return self

    async def take_turn(self, prompt):
        if prompt.newest.startswith("edit "):
            path = prompt.newest.removeprefix("edit ")
            action = Action("write", "Edit", self.cwd, paths=(path,))
            call = PendingCall("c1", "Edit", {"path": path}, self.cwd, action)
            yield Asked("k1", "Confirm", "confirm_risky_action", Display(title="Edit"), call=call)
            yield TurnCompleted(f"{path} is edited")
            return
        key = "with" if "ACME_KEY" in self.env else "without"
        yield TurnCompleted(f"{self.agent.name} {' '.join(self.agent.base_args)} {key} its key")

    async def answer(self, key, response): ...
    async def interrupt(self): ...
    async def close(self): ...
'''


class Machine:
    """A machine with the vendor's package and program installed."""

    def __init__(self, root: Path) -> None:
        site, bins = root / "site", root / "bin"
        self.project = root / "project"
        self.registry = root / "home" / ".coterie" / "agents" / "config.json"
        for folder in (site / "acme", site / "acme-1.0.dist-info", bins, self.project):
            folder.mkdir(parents=True)
        (site / "acme" / "__init__.py").write_text(PACKAGE)
        info = site / "acme-1.0.dist-info"
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[coterie.agents]\nacme = acme:FACTS\n")
        program = bins / "acme"
        program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "acme 3.1"\nexit 0\n')
        program.chmod(0o755)
        self.env = {
            "HOME": str(root / "home"),
            "PATH": f"{bins}:{os.defpath}",
            "PYTHONPATH": str(site),
            "ACME_KEY": "acme-secret-key",
        }

    def run(self, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """Run one command; return its exit code, its records and its stderr."""
        command = [sys.executable, "-m", "coterie", *words, "--json"]
        ran = subprocess.run(
            command,
            cwd=self.project,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr

    def team(self, **member: object) -> str:
        """A team file with one member on the vendor's agent."""
        path = self.project / "team.json"
        path.write_text(json.dumps({"members": [{"id": "ann", "agent": "acme", **member}]}))
        return str(path)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_vendor_of_another_package_is_found_checked_and_spoken_to(machine: Machine) -> None:
    code, records, trouble = machine.run("agents", "scan")
    assert (code, records[0]["found"]) == (0, ["acme"]), trouble
    entry = json.loads(machine.registry.read_text())["agents"]["acme"]
    assert (entry["adapter"], entry["version"]) == ("acme", "3.1")

    code, records, _ = machine.run("doctor")
    (found,) = [record for record in records if record.get("name") == "acme"]
    assert (found["version"], found["state"], found["ready"]) == ("3.1", "ready", True)

    for member, problem in (
        ({"additionalArgs": ["--trust", "all"]}, "approves everything"),
        ({"additionalArgs": ["--persona", "x"]}, "the prompt belongs in"),
        ({"env": {"ACME_HOME": "/x"}}, "is set by Coterie for each member"),
    ):
        code, records, trouble = machine.run("team", "validate", machine.team(**member))
        assert code != 0
        assert problem in trouble + json.dumps(records)

    written = json.loads(machine.registry.read_text())
    written["agents"]["acme"]["baseArgs"] = ["serve", "--fast"]
    machine.registry.write_text(json.dumps(written))
    code, records, trouble = machine.run("chat", "--agents", "acme", "--max-turns", "1", "hello")
    assert code == 0, trouble
    said = [record["text"] for record in records if record["type"] == "message"]
    assert said[-1] == "acme --fast with its key"


def test_what_it_runs_by_itself_is_not_edited_unasked(machine: Machine) -> None:
    machine.run("agents", "scan")
    team = machine.team(permissions="accept-edits")
    machine.run("team", "trust", team)
    for path, status in (("src/a.py", "completed"), (".acme/hooks.json", "waiting")):
        words = ("--team", team, "--wait", "0s", "--max-turns", "1", f"edit {path}")
        _, records, trouble = machine.run("chat", *words)
        assert [one["status"] for one in records if one["type"] == "result"] == [status], (
            records,
            trouble,
        )


@pytest.mark.parametrize("name", KNOWN_AGENTS.ours)
def test_what_is_known_of_a_vendor_is_in_its_package(name: str) -> None:
    facts = KNOWN_AGENTS.ours[name]
    words = {*facts.keys, *facts.isolating, *facts.env, facts.install, facts.display_name}
    words |= {facts.tested or facts.install, facts.credentials or facts.install}
    words |= {*(f'"{name}"' for name in facts.settings), *facts.model_variables}
    found = [
        f"{path.relative_to(SOURCE)}: {word}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in ROOMS
        for word in words
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []
