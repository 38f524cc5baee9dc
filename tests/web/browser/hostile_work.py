"""A session and a build in which every text by others is a payload, created by the commands.

The built-in agent follows a script: a plan of a hundred tickets, one of which is worked on,
checked, reported and reviewed; the worker of the next one asks for a command, and there it stops.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bench.page.machine import Machine
from tests.web.browser.payloads import PAYLOADS, Payload

SHORT = tuple(Payload(one.number, " ".join(one.text.split())[:300]) for one in PAYLOADS)
"""The payloads, as far as they fit in a one-line field."""


def _field(one: Payload) -> str:
    return f"{one.mark} {one.text} {one.end}"


FIELD = "\n".join(_field(one) for one in SHORT)
"""All of them in one text."""
FILE = "\n".join(one.message for one in PAYLOADS)
FOLDER = "work \u202e<img src=x onerror=pwned()>"
MISNAMED = "misnamed"
"""A team whose file gives it and a hundred members invalid names."""


@dataclass(frozen=True)
class HostileWork:
    """Two projects, so that the inbox names both, and the session's question."""

    root: Path
    session: str
    question: str
    build_root: Path
    build: str


def hostile_work(machine: Machine) -> HostileWork:
    """Create both projects."""
    root, build_root = machine.project(FOLDER), machine.project(f"build {FOLDER}")
    (root / "all.txt").write_text(FILE)
    machine.git(root, "add", ".")
    machine.git(root, "commit", "-qm", "all")
    for one in (root, build_root):
        _team(machine, one)
    _rehearsed(machine, build_root, "build", _build(), "build", "-t", "crew", SHORT[1].line)
    _rehearsed(machine, root, "session", _session(), "run", "-t", "crew", SHORT[0].line)
    (build,) = (str(line["id"]) for line in machine.lines(build_root, "tasks"))
    (session,) = (str(line["id"]) for line in machine.lines(root, "tasks"))
    plan = next(one for one in machine.lines(root, "inbox") if one["task"] == session)
    machine.coterie(root, "answer", str(plan["id"]), "approve", "--say", FIELD)
    machine.coterie(root, "resume", session)
    asked = next(one for one in machine.lines(root, "inbox") if one["task"].startswith(session))
    return HostileWork(root, session, str(asked["id"]), build_root, build)


def _rehearsed(machine: Machine, root: Path, name: str, rules: list[object], *words: str) -> None:
    script = root.parent / f"{name}.json"
    script.write_text(json.dumps({"rules": rules}))
    verb, *more = words
    machine.coterie(root, verb, "--rehearse", "--script", str(script), *more)


def _team(machine: Machine, root: Path) -> None:
    machine.coterie(root, "team", "new", "crew", "--agents", "builtin,builtin")
    members = [
        {
            "id": name,
            "agent": "builtin",
            "displayName": payload.line[:60],
            "prompt": FIELD,
            "permissions": {"mode": "ask", "allow": ["write(**)", "cat *"]},
        }
        for name, payload in zip(("mira", "wren"), SHORT[3:], strict=False)
    ]
    crowd = [dict.fromkeys(("id", "agent", "role"), _field(one)) for one in SHORT]
    misnamed = {"name": FIELD, "members": crowd}
    for name, team in ("crew", {"members": members}), (MISNAMED, misnamed):
        file = root / ".coterie" / "teams" / name / "team.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(team))


def _says(when: str, said: object) -> dict[str, object]:
    text = f"```json\n{json.dumps(said)}\n```"
    return {"when": {"message": when}, "replies": [{"text": text}]}


def _session() -> list[object]:
    first, asking, *_ = PAYLOADS
    tasks = [
        {
            "task_id": one.mark,
            "description": one.line,
            "dependencies": [] if one in (first, asking) else [asking.mark],
        }
        for one in PAYLOADS
    ]
    instruction = {
        "summary": FIELD,
        "steps": [FIELD],
        "resources": [FIELD],
        "acceptance_criteria": [{"text": FIELD, "command": "cat all.txt"}],
    }
    fields = ("outputs", "evidence", "issues", "next_actions")
    report = {"status": "completed", **{name: [FIELD] for name in fields}}
    edits = [
        {"name": "editFile", "input": {"path": one.name, "oldStr": "", "newStr": one.message}}
        for one in PAYLOADS
    ]
    asks = {"name": "runCommand", "input": {"command": FIELD}}
    work = [{"tools": edits}, {"text": json.dumps(report)}, {"tools": [asks]}]
    return [
        _says("Split the goal into tasks", {"tasks": tasks}),
        _says("Write the instruction for ticket", instruction),
        {"when": {"message": "Do the work now"}, "replies": work},
        _says("Is it done?", {"decision": "approved", "notes": FIELD}),
    ]


def _build() -> list[object]:
    plan = {
        "title": SHORT[2].line,
        "why": FIELD,
        "what": FIELD,
        "capability": "cart",
        "requirements": [
            {
                "title": SHORT[2].line,
                "text": FIELD,
                "scenarios": [{"name": "one", "when": FIELD, "then": FIELD}],
            }
        ],
        "scope": ["cart.py"],
        "design": FIELD,
        "file_impacts": [{"path": "cart.py", "purpose": FIELD}],
        "risks": [{"description": FIELD, "mitigation": FIELD}],
        "test_plan": {"strategy": FIELD, "key_cases": [FIELD], "write_tests": False},
    }
    verdict = {"verdict": "approve", "summary": FIELD}
    return [
        _says("You take part in a planning workshop", {"summary": FIELD}),
        _says("Write the plan.", plan),
        _says("Give the whole plan as it should be", plan),
        _says("Is anything missing in scope", verdict),
    ]
