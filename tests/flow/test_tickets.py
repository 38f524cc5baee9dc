"""A goal as tickets: the whole loop with members that say what a script says, on real git."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from coterie.engine.run import Engine
from coterie.model.prompt import Prompt
from coterie.model.record import TicketRecord
from coterie.model.scheduler import SchedulerConfig
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Member, Team
from coterie.model.update import TurnCompleted, TurnFailed, Update
from coterie.testing.scripted import Script, ScriptedChannels
from coterie.testing.stage import TASK, Stage, stage
from coterie.workflows.tickets import Tickets

Say = Callable[[Member, str], object]


def git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / ".coterie").mkdir(parents=True)
    (root / ".coterie" / ".gitignore").write_text("*\n")
    (root / "cart.py").write_text("total = 0\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.email", "you@example.com")
    git(root, "config", "user.name", "You")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    return root


def team(*workers: str) -> Team:
    names = ("mira", *workers)
    return Team(
        name="shop",
        workflow="tickets",
        members=tuple(
            Member(
                id=name,
                name=name,
                display_name=name.capitalize(),
                role="manager" if name == "mira" else "worker",
                agent="scripted",
                order=place,
            )
            for place, name in enumerate(names)
        ),
    )


def block(payload: object) -> str:
    return f"Here it is.\n```json\n{json.dumps(payload)}\n```"


PLAN = {
    "tasks": [
        {"task_id": "model", "description": "Coupon model", "expected_outputs": ["model.py"]},
        {"task_id": "rules", "description": "Price rules", "expected_outputs": ["rules.py"]},
        {
            "task_id": "form",
            "description": "The form",
            "dependencies": ["model", "rules"],
            "expected_outputs": ["form.py"],
        },
    ]
}


def obedient(member: Member, text: str) -> object:
    """Everybody does what they are told, at once."""
    if "Is anything unclear" in text:
        return {"status": "clear", "intent_summary": "coupons"}
    if "Split the goal into tasks" in text:
        return PLAN
    if "Write the instruction for ticket" in text:
        return {"summary": "Do it.", "steps": ["write the file"]}
    if "Is it done?" in text:
        return {"decision": "approved", "notes": "fine"}
    if "Do the work now" in text:
        assert member.execution_dir is not None
        ticket = text.split("on ticket ")[1].split(" ")[0]
        (Path(member.execution_dir) / f"{ticket}.txt").write_text(f"by {member.id}\n")
        return {"status": "completed", "outputs": [f"{ticket}.txt"]}
    raise AssertionError(text)


def script(say: Say) -> Script:
    async def answer(member: Member, prompt: Prompt) -> list[Update]:
        said = await anyio.to_thread.run_sync(say, member, prompt.text)
        if isinstance(said, TurnFailed):
            return [said]
        return [TurnCompleted(said if isinstance(said, str) else block(said))]

    return answer


async def start(on: Stage, who: Team, config: SchedulerConfig | None = None) -> None:
    created = TaskCreated(
        task_id=TASK,
        at="2026-01-01T00:00:00Z",
        session_id=TASK,
        workflow="tickets",
        workflow_version=1,
        goal="Add coupons",
        author="you",
        team=who,
        caps=Caps(yes=True),
        scheduler=config or SchedulerConfig(),
    )
    from coterie.model.message import Message

    opening = Message(TASK, 1, "you", "Add coupons", created.at)
    assert await on.storage.create(created, on.owner.id, opening) is not None


def rooted(on: Stage, root: Path) -> Stage:
    engine = on.engine
    on.engine = Engine(engine.storage, engine.workflows, engine.claimant, root)
    return on


async def carried_out(project: Path, say: Say, *workers: str) -> tuple[Stage, str]:
    async with stage(project / ".coterie", workflow=Tickets()) as on:
        rooted(on, project)
        await start(on, team(*(workers or ("wren", "finn"))))
        with anyio.fail_after(60):
            result = await on.run(ScriptedChannels(script(say)))
        return on, f"{result.status} {result.reason} {result.summary}"


async def test_a_goal_becomes_merged_work(project: Path) -> None:
    on, result = await carried_out(project, obedient)
    assert result == "completed done 3 done"
    states = [(r.id, r.state) for r in on.recorder.records if isinstance(r, TicketRecord)]
    assert states[-1] == ("T3", "done")
    listed = git(project, "ls-tree", "--name-only", f"coterie/{TASK}/merged").split()
    assert listed == ["T1.txt", "T2.txt", "T3.txt", "cart.py"]
    assert git(project, "status", "--porcelain") == ""
    report = json.loads(
        (project / ".coterie" / "sessions" / TASK / "final_report.json").read_text()
    )
    assert [line["state"] for line in report["tickets"]] == ["done", "done", "done"]
