"""A project in which something waits on every screen: a team of the repository that nobody has
reviewed, a failed ticket, and turns that cost something."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import anyio

from bench.page.machine import Machine
from coterie.model.conversation import Message
from coterie.model.journal import AppendEvent, CloseTurn, OpenTurn
from coterie.model.task import TaskCreated, TaskStarted
from coterie.stores.sqlite import SqliteStorage
from tests.cli.recorded import TEAM

THEIRS = "theirs"
SPENT = (("ada", "2026-01-30", 8_000, 200, 0.03), ("rex", "2026-01-31", 1_200, 900, None))
"""Member, day, input tokens, output tokens, price."""


@dataclass(frozen=True)
class PendingProject:
    """The project, and the session whose only ticket failed."""

    root: Path
    session: str


def pending_project(machine: Machine) -> PendingProject:
    """Create the project."""
    root = machine.project("trouble")
    members = [{"id": name, "agent": "builtin"} for name in ("mira", "wren")]
    _team(root, "crew", {"members": members})
    full = {"id": "ada", "agent": "builtin", "permissions": "full", "env": {"SHOP": "open"}}
    _team(root, THEIRS, {"members": [full]})
    machine.git(root, "add", "-f", ".")
    machine.git(root, "commit", "-qm", "teams")
    machine.coterie(root, "project", "adopt")
    (root / ".coterie" / "scheduler_config.json").write_text('{"retries": 0, "replans": 0}')
    script = root.parent / "trouble.json"
    script.write_text(json.dumps({"rules": _session()}))
    words = ("--rehearse", "--script", str(script), "--yes", "Add coupons")
    machine.coterie(root, "run", "-t", "crew", *words)
    (task,) = machine.lines(root, "tasks")
    anyio.run(_spent, root / ".coterie" / "coterie.db")
    return PendingProject(root, str(task["id"]))


def _team(root: Path, name: str, team: object) -> None:
    file = root / ".coterie" / "teams" / name / "team.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(team))


def _says(when: str, *said: object) -> dict[str, object]:
    replies = [{"text": f"```json\n{json.dumps(one)}\n```"} for one in said]
    return {"when": {"message": when}, "replies": replies}


def _session() -> list[object]:
    blocked = {"status": "blocked", "issues": ["no database here"]}
    return [
        _says("Split the goal into tasks", {"tasks": [{"task_id": "a", "description": "Coupons"}]}),
        _says("Write the instruction for ticket", {"summary": "Write it.", "steps": ["write"]}),
        _says("Do the work now", blocked, {"status": "completed", "evidence": ["I ran it"]}),
        _says("Is it done?", {"decision": "approved"}),
    ]


async def _spent(database: Path) -> None:
    storage = await SqliteStorage.open(database)
    task, at = "p4yd", "2026-01-30T12:00:00.000Z"
    created = TaskCreated(
        task_id=task,
        at=at,
        session_id=task,
        parent_id=None,
        workflow="chat",
        workflow_version=1,
        goal="What was paid for",
        author="you",
        team=TEAM,
    )
    fence = await storage.create(created, "gone", Message(task, 1, "you", created.goal, at))
    assert fence is not None
    await storage.commit(fence, AppendEvent(TaskStarted(task_id=task, at=at)))
    for turn, (member, day, given, output, usd) in enumerate(SPENT, 1):
        used = {"input_tokens": given, "output_tokens": output, "cost_usd": usd, "source": "claude"}
        step, begun, ended = f"turn/{turn}", f"{day}T12:00:01.000Z", f"{day}T12:00:02.000Z"
        await storage.commit(
            fence,
            OpenTurn(task, step, 1, member, turn, begun),
            CloseTurn(task, step, 1, ended, "completed", None, None, json.dumps(used)),
        )
    await storage.leases.park(fence)
    await storage.close()
