"""A project as a program uses it: teams by name, a run as a stream, and leaving that stream."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from coterie import (
    Caps,
    InteractionRecord,
    Member,
    MemberRecord,
    MessageRecord,
    NotFound,
    OpenProject,
    Record,
    ResultRecord,
    TaskBusy,
    Team,
    UsageError,
    open_project,
)
from coterie.model.task import Ended
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import CrashingStorage
from coterie.workflows.chat import Solo
from tests.conftest import IsolatedUser, init_project
from tests.unit.process.children import AGENT

ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"], "persistent": True}
ENDLESS = 10**6  # turns: a request from outside may arrive many turns later


@pytest.fixture
def project(user: IsolatedUser) -> Path:
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    scripted = {
        "command": sys.executable,
        "baseArgs": ["-I", "-S", str(AGENT), "--persistent"],
        "capabilities": {**ENDS, "promptFormat": "jsonl"},
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"scripted": scripted}}))
    team = init_project(user.project) / "teams" / "pair" / "team.json"
    team.parent.mkdir(parents=True)
    members = [{"id": "ada", "agent": "scripted"}, {"id": "max"}]
    team.write_text(json.dumps({"workflow": "chat", "members": members}))
    return user.project


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
        said = await opened.say(task, "thanks")
        assert said.question == question.interaction.interaction_id


async def test_errors_come_out_of_the_loop_as_they_are(project: Path) -> None:
    async with open_project(project) as opened:
        with pytest.raises(NotFound, match='No task "nix"'):
            await texts(opened, "nix")
        for asking in (opened.show, opened.timeline, opened.interrupt, opened.stop):
            with pytest.raises(NotFound, match='No task "nix"'):
                await asking("nix")
        with pytest.raises(NotFound, match='No task "nix"'):
            await anext(opened.follow("nix"))
        with pytest.raises(UsageError, match='No workflow "duel"'):
            await opened.start("pair", "x", workflow="duel")
        with pytest.raises(NotFound, match='No team "pears"'):
            await opened.team("pears")
        people = Team(
            name="us", members=(Member(id="me", name="me", display_name="Me", type="human"),)
        )
        task = await opened.start(people, "x", workflow="solo")
        with pytest.raises(UsageError, match="Team us has no member with an agent"):
            await texts(opened, task)
        task = await opened.start("pair", "!hang")
        async with open_project(project) as other, aclosing(opened.stream(task)) as records:
            await anext(records)
            with pytest.raises(TaskBusy):
                await texts(other, task)
    for mine in (UsageError("out"), ExceptionGroup("two", [KeyError("a"), ValueError("b")])):
        with pytest.raises(type(mine)) as raised:
            async with open_project(project):
                raise mine
        assert raised.value is mine


async def test_a_bug_comes_out_of_the_loop_and_ends_no_other_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> Ended:
        raise ZeroDivisionError

    monkeypatch.setattr(Solo, "run", broken)
    async with open_project(project) as opened:
        task = await opened.start("pair", "!turn", Caps(max_turns=1, max_rounds=None))
        bad = await opened.start("pair", "!turn", workflow="solo")
        async with aclosing(opened.stream(task)) as records:
            await anext(records)
            with pytest.raises(ZeroDivisionError):
                await texts(opened, bad)
            assert [one.text async for one in records if isinstance(one, MessageRecord)]


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


# -- how a conversation ends ----------------------------------------------------------------------


async def park_after(opened: OpenProject, task: str, kind: type[Record]) -> None:
    """Run it up to a record of this kind, and park it."""
    async with aclosing(opened.stream(task)) as records:
        async for record in records:
            if isinstance(record, kind):
                return


@pytest.mark.parametrize(
    ("goal", "until", "summary"),
    [
        ("!turn", None, "!turn"),
        ("!hang", MemberRecord, "!hang"),
        ("!turn", MessageRecord, "turn 1"),
        ("!turn", InteractionRecord, "turn 1"),
    ],
    ids=["not begun", "in a turn", "between turns", "at a person's turn"],
)
async def test_a_conversation_that_is_parked_is_ended_at_once(
    project: Path, goal: str, until: type[Record] | None, summary: str
) -> None:
    async with open_project(project) as opened:
        task = await opened.start("pair", goal, Caps(floor="ask"))
        if until is not None:
            await park_after(opened, task, until)
        await opened.end(task)
        detail = await opened.show(task)
        assert (detail.view.status, detail.state.reason) == ("completed", "ended")
        assert detail.state.summary == summary
        assert await opened.questions() == []
        with pytest.raises(UsageError, match="is already completed"):
            await opened.cancel(task)
        await opened.end(task)  # asked for twice, it ends once
        (result,) = [one async for one in opened.stream(task)]  # no agent is started any more
        assert isinstance(result, ResultRecord)


async def test_one_that_runs_ends_when_its_turn_is_over(project: Path) -> None:
    """Whichever process asks for it, and however often."""
    async with open_project(project) as opened, open_project(project) as other:
        team = await opened.team(agents="a=scripted,b=scripted")
        for caller in (opened, other):
            task = await opened.start(team, "!turn", Caps(max_turns=ENDLESS, max_rounds=None))
            result: Record | None = None
            async for result in opened.stream(task):
                if isinstance(result, MessageRecord) and result.member == "b":
                    await caller.end(task)
            assert isinstance(result, ResultRecord)
            assert (result.status, result.reason) == ("completed", "ended")


async def test_who_is_asked_about_a_failed_turn_may_end_it_instead(project: Path) -> None:
    async with open_project(project) as opened:
        task = await opened.start("pair", "!hang", Caps(floor="ask"))
        result: Record | None = None
        async for result in opened.stream(task):
            if isinstance(result, MemberRecord) and result.state == "working":
                await opened.stop_member(task, "ada")
            elif isinstance(result, InteractionRecord) and result.state == "open":
                assert (await opened.say(task, "/end")).question is None
        assert isinstance(result, ResultRecord)
        assert (result.status, result.reason) == ("completed", "ended")


async def test_only_a_conversation_is_ended_and_whatever_was_not_begun_is_canceled(
    project: Path,
) -> None:
    async with open_project(project) as opened:
        task = await opened.start("pair", "!turn", workflow="solo")
        with pytest.raises(UsageError, match="is not a conversation"):
            await opened.end(task)
        with anyio.fail_after(30):  # no owner has to release it
            assert not await opened.stop(task)
            await opened.cancel(task)
        assert [view.status for view in await opened.tasks()] == ["canceled"]


async def test_a_turn_that_is_interrupted_hands_over_to_nobody(project: Path) -> None:
    """Even if no person has the floor: the user who interrupted it says how to continue."""
    async with open_project(project) as opened:
        team = await opened.team(agents="a=scripted,b=scripted")
        task = await opened.start(team, "!hang")
        said: list[Record] = []
        async for record in opened.stream(task, wait=0):
            said.append(record)
            if isinstance(record, MemberRecord) and record.state == "working":
                await opened.interrupt(task)
        assert [one.member for one in said if isinstance(one, MessageRecord)] == ["a"]
        (question,) = await opened.questions()
        assert question.interaction.author_actor_id == "you"
        await opened.say(task, "go on, @b\n!turn")
        assert (await texts(opened, task))[:2] == ["go on, @b\n!turn", "turn 1"]


# -- whose process it is --------------------------------------------------------------------------


async def test_sessions_and_members_that_run_at_once_share_no_process(project: Path) -> None:
    """Every process counts its own turns; both members of a session are shown as `a-b-c`."""
    registry = project.parent / "home" / ".coterie" / "agents" / "config.json"
    known = json.loads(registry.read_text())
    (scripted,) = known["agents"].values()
    scripted["baseArgs"].append("turn")
    registry.write_text(json.dumps({**known, "agents": {"a": scripted, "a-b": scripted}}))
    counted: dict[tuple[str, str], list[str]] = {}
    pids: dict[tuple[str, str], set[int | None]] = {}
    async with open_project(project) as opened:
        team = await opened.team(agents="b-c=a,c=a-b")
        tasks = [await opened.start(team, "hello", Caps(max_rounds=2)) for _ in range(2)]

        async def run(task: str) -> None:
            async for record in opened.stream(task):
                if isinstance(record, MessageRecord):
                    counted.setdefault((task, record.member), []).append(record.text)
                    for one in await opened.running(task):
                        pids.setdefault((task, one.member), set()).add(one.pid)

        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(run, task)
    assert counted == {
        (task, name): ["turn 1", "turn 2"] for task in tasks for name in ("b-c", "c")
    }
    kept = [pid for seen in pids.values() for pid in seen if pid is not None]
    assert len(kept) == len(set(kept)), "each has one, and no two have the same"


async def test_another_back_end_can_be_put_in(project: Path) -> None:
    """Any implementation of `coterie.Storage` will do: here one that is not a file."""
    elsewhere = CrashingStorage(await SqliteStorage.in_memory(), None)
    async with open_project(project, storage=elsewhere) as opened:
        task = await opened.start("pair", "!turn", Caps(max_turns=2, max_rounds=None))
        assert await texts(opened, task, wait=0) == ["turn 1"]
        (question,) = await opened.questions()
        await opened.answer(question.interaction.interaction_id, text="thanks")
        assert [
            record.status
            async for record in opened.stream(task)
            if isinstance(record, ResultRecord)
        ] == ["completed"]
        entries = [entry.record for entry in await opened.timeline(task)]
        said = [one.text for one in entries if isinstance(one, MessageRecord)]
        assert said == ["!turn", "turn 1", "thanks"]
    assert elsewhere.calls > 0
    assert not (project / ".coterie" / "coterie.db").exists()


LONG = "printf('%0400d', n)"
OTHERS = {
    "messages": f"n + 1000, 'zz', n, 'ada', {LONG}, '', 1, NULL, 0, 0",
    "steps": f"'zz', n, 'turn', '', {LONG}, '', n, 'ada', 1, {LONG}" + ", NULL" * 6,
    "attempts": f"'zz', n, 2, 'ada', 1, {LONG}, NULL, '', '', '', n, NULL, NULL",
    "audit": f"n, 'zz', 'ToolCallRequested', n, 'x', 'ada', {LONG}, NULL, NULL, 0, 0, x''",
    "envelopes": f"'zz', n, {LONG}",
    "events": f"n + 1000, 'zz', 'TaskStarted', '', {LONG}, x''",
}
"""Rows of another, much longer task, by table."""


async def test_what_is_read_does_not_grow_with_what_others_did(project: Path) -> None:
    """Every list of a task is read through an index."""
    async with open_project(project) as opened:
        task = await opened.start("pair", "!turn", Caps(max_turns=1))
        await texts(opened, task)
        with sqlite3.connect(project / ".coterie" / "coterie.db") as other:
            numbers = "WITH n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)"
            for table, values in OTHERS.items():
                other.execute(f"INSERT INTO {table} {numbers} SELECT {values} FROM n")
        other.close()
        assert (project / ".coterie" / "coterie.db").stat().st_size > 5_000_000
        before = _bytes_read()
        assert len(await opened.timeline(task)) == 5
        assert (await opened.show(task)).view.status == "completed"
        assert await opened.costs(task) is not None
        assert await opened.tickets(task) == []
        assert _bytes_read() - before < 500_000


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])
