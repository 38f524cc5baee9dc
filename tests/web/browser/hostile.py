"""A project in which every text of a member is a payload, created through the command line.

The built-in agent follows a script: a chat of a hundred messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench.page.machine import Machine
from tests.web.browser.payloads import PAYLOADS

GOAL = PAYLOADS[0].line


@dataclass(frozen=True)
class HostileProject:
    """The project and its task."""

    root: Path
    talk: str


def hostile_project(machine: Machine) -> HostileProject:
    """Create the project by a single command."""
    root = machine.project("hostile")
    _team(machine, root)
    many = ("--max-turns", str(len(PAYLOADS)), "--max-rounds", "99")
    _rehearsed(machine, root, "talk", _talk(), "chat", "-t", "crew", *many, GOAL)
    (talk,) = (str(line["id"]) for line in machine.lines(root, "tasks"))
    return HostileProject(root, talk)


def _rehearsed(machine: Machine, root: Path, name: str, rules: list[object], *words: str) -> None:
    script = root.parent / f"{name}.json"
    script.write_text(json.dumps({"rules": rules}))
    verb, *more = words
    machine.coterie(root, verb, "--rehearse", "--script", str(script), *more)


def _team(machine: Machine, root: Path) -> None:
    machine.coterie(root, "team", "new", "crew", "--agents", "builtin,builtin,builtin")
    members = [
        {
            "id": name,
            "agent": "builtin",
            "displayName": payload.line[:60],
            "prompt": payload.message,
            "permissions": {"mode": "ask", "allow": ["write(**)"]},
        }
        for name, payload in zip(("mira", "wren", "finn"), PAYLOADS[3:], strict=False)
    ]
    (root / ".coterie" / "teams" / "crew" / "team.json").write_text(
        json.dumps({"members": members})
    )


def _talk() -> list[object]:
    return [{"replies": [{"text": [payload.message]} for payload in PAYLOADS]}]
