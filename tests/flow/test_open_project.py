"""A project as a program uses it: teams by name, a run as a stream, and how that is left."""

from __future__ import annotations

import json
import sys
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from coterie import (
    Caps,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    NotFound,
    OpenProject,
    ResultRecord,
    TaskBusy,
    UsageError,
    open_project,
)
from tests.conftest import House, ours
from tests.unit.process.children import AGENT

ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"], "persistent": True}


@pytest.fixture
def project(house: House) -> Path:
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    scripted = {
        "command": sys.executable,
        "baseArgs": ["-I", "-S", str(AGENT), "--persistent"],
        "capabilities": {**ENDS, "promptFormat": "jsonl"},
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"scripted": scripted}}))
    team = ours(house.project) / "teams" / "pair" / "team.json"
    team.parent.mkdir(parents=True)
    members = [{"id": "ada", "agent": "scripted"}, {"id": "max"}]
    team.write_text(json.dumps({"workflow": "chat", "members": members}))
    return house.project


async def texts(opened: OpenProject, task: str, wait: float | None = None) -> list[str]:
    records = [record async for record in opened.stream(task, wait=wait)]
    assert [isinstance(record, ResultRecord) for record in records].index(True) == (
        len(records) - 1
    )
    return [record.text for record in records if isinstance(record, MessageRecord)]


async def test_a_chat_that_is_answered_in_the_loop(project: Path) -> None:
    async with open_project(project) as opened:
        assert (await opened.team()).team.name == "pair"
        task = await opened.start("pair", "!turn", Caps(max_turns=3, max_rounds=None))
        said: list[str] = []
        async for record in opened.stream(task):
            if isinstance(record, MessageRecord):
                said.append(f"{record.member}: {record.text}")
            elif isinstance(record, InteractionRecord) and record.state == "open":
                await opened.answer(record.interaction.interaction_id, text="!turn")
        assert said == ["ada: turn 1", "max: !turn", "ada: turn 2"]
        again = [one async for one in opened.stream(task)]  # it has ended, and says so
        assert [(one.type, getattr(one, "reason", "")) for one in again] == [
            ("result", "max_turns")
        ]


async def test_a_loop_that_is_left_parks_the_task(project: Path) -> None:
    async with open_project(project) as opened:
        task = await opened.start(await opened.team(agents="a=scripted,b=scripted"), "!turn")
        async with aclosing(opened.stream(task)) as records:
            async for record in records:
                if isinstance(record, MessageRecord):
                    break
        (view,) = await opened.tasks()
        assert (view.status, view.pid) == ("running", None)
        assert await opened.running() == []
        (reply,) = await texts(opened, task)  # the second member's; the first is kept
        assert reply.endswith("[MESSAGE]\nturn 1")


async def test_a_project_that_is_closed_parks_what_runs(project: Path) -> None:
    async with open_project(project) as opened:
        task = await opened.start(await opened.team(agents="a=scripted"), "!hang")
        records = opened.stream(task)
        while not isinstance(await anext(records), MemberRecord):
            pass
    assert [record async for record in records if isinstance(record, MessageRecord)] == []
    async with open_project(project) as opened:
        (view,) = await opened.tasks()
        assert (view.id, view.pid) == (task, None)
        await opened.cancel(task)


async def test_a_question_that_nobody_answers(project: Path) -> None:
    async with open_project(project) as opened:
        task = await opened.start("pair", "!turn", Caps(floor="ask"))
        with anyio.fail_after(30):
            assert await texts(opened, task, wait=0) == ["turn 1"]
        (question,) = await opened.questions()
        assert await opened.say(task, "thanks") == f"answered {question.interaction.interaction_id}"


async def test_errors_come_out_of_the_loop_as_they_are(project: Path) -> None:
    async with open_project(project) as opened:
        with pytest.raises(NotFound, match='No task "nix"'):
            await texts(opened, "nix")
        with pytest.raises(NotFound, match='No task "nix"'):
            await opened.show("nix")
        with pytest.raises(UsageError, match='No workflow "duel"'):
            await opened.start("pair", "x", workflow="duel")
        with pytest.raises(NotFound, match='No team "pears"'):
            await opened.team("pears")
        task = await opened.start("pair", "!hang")
        async with open_project(project) as other, aclosing(opened.stream(task)) as records:
            await anext(records)
            with pytest.raises(TaskBusy):
                await texts(other, task)
    with pytest.raises(UsageError, match="out"):
        async with open_project(project):
            raise UsageError("out")


async def test_a_team_is_rehearsed_whatever_its_agents_are(project: Path) -> None:
    team = project / ".coterie" / "teams" / "far" / "team.json"
    team.parent.mkdir()
    members = [{"id": "ada", "agent": "scripted"}, {"id": "bob", "agent": "codex"}]
    team.write_text(json.dumps({"members": members}))
    async with open_project(project) as opened:
        task = await opened.start("far", "!turn", Caps(max_turns=2), rehearsal=True)
        said = await texts(opened, task)
    assert len(said) == 2
    assert all("stand-in for a model" in text for text in said)
