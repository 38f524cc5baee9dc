"""A project in which every text that others write is a payload, made by the command line.

The built-in agent says and does what a script tells it: a talk of a hundred messages, a job that
writes a hundred files, a plan of a hundred tickets, and commands that wait to be allowed.
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
    """The project and its tasks."""

    root: Path
    talk: str
    job: str
    session: str


def hostile_project(machine: Machine) -> HostileProject:
    """Made once: each task by one command that ends when it has to be asked for something."""
    root = machine.project("hostile")
    _team(machine, root)
    many = ("--max-turns", str(len(PAYLOADS)), "--max-rounds", "99")
    _rehearsed(machine, root, "talk", _talk(), "chat", "-t", "crew", *many, GOAL)
    _rehearsed(machine, root, "job", _job(), "do", "--as", "wren", "-t", "crew", GOAL)
    _rehearsed(machine, root, "session", _session(), "run", "-t", "crew", GOAL)
    talk, job, session = [line["id"] for line in machine.lines(root, "tasks")]
    return HostileProject(root, talk, job, session)


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


def _job() -> list[object]:
    tools = [
        {"name": "editFile", "input": {"path": one.name, "oldStr": "", "newStr": one.message}}
        for one in PAYLOADS
    ]
    return [{"replies": [{"tools": tools}, {"text": "It is written."}]}]


def _session() -> list[object]:
    tasks = [{"task_id": one.mark, "description": one.line} for one in PAYLOADS]
    return [
        {
            "when": {"message": '"tasks"'},
            "replies": [{"text": f"```json\n{json.dumps({'tasks': tasks})}\n```"}],
        }
    ]
