"""Who is doing what now, from any terminal; and stopping one member, or everything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from coterie.config.project import Project, make_project
from coterie.engine.lease import Owner
from coterie.model.about import FailedTurn
from coterie.model.conversation import Message
from coterie.model.interaction import Display, Interaction, Option
from coterie.model.journal import (
    AppendAudit,
    AppendEvent,
    CloseTurn,
    OpenTurn,
    SetMemberState,
    Write,
)
from coterie.model.task import TaskCreated, TaskStarted, UserInteractionRequested
from coterie.model.team import Member, Team
from coterie.model.tool_call import AuditEntry
from coterie.stores.sqlite import SqliteStorage
from tests.cli.command import Cli, ForkedCommand, InProcessCli, normalize
from tests.cli.recorded import at, wants_to_run

TASK = "k3f9"
TURN = OpenTurn(TASK, "turn/1", 1, "ada", 1, at(2))
TEAM = Team(
    name="pair",
    members=(
        Member(id="ada", name="ada", display_name="Ada", agent="builtin", order=1),
        Member(id="rex", name="rex", display_name="Rex", agent="codex", order=2),
    ),
)


def call(kind: str, second: int, **given: object) -> AppendAudit:
    entry = AuditEntry(kind, "c1", "runCommand", "ada", TASK, at(second), given or None)  # pyright: ignore[reportArgumentType]
    return AppendAudit(entry)


def state(name: str, second: int, *more: str | None, reason: str = "") -> SetMemberState:
    return SetMemberState(TASK, "ada", name, reason, at(second), *more)  # pyright: ignore[reportArgumentType]


def asks(question: Interaction) -> AppendEvent:
    event = UserInteractionRequested(task_id=TASK, at=at(5), interaction=question)
    return AppendEvent(event, step="turn/1/asked/q1")


STUCK = Interaction(
    interaction_id="q1",
    task_id=TASK,
    author_actor_id="ada",
    kind="Select",
    display=Display(title="any words"),
    options=(Option(id="retry", label="again"),),
    about=FailedTurn(member="ada", turn=1, failure="timeout", message="any words"),
)


@dataclass(frozen=True)
class Case:
    """What is recorded about a member without a process, and what `ps` reports about it."""

    writes: Sequence[Write]
    words: str
    facts: dict[str, object]


CASES = {
    "working": Case([TURN], "working", {"state": "working", "waits_for": None}),
    "a tool": Case(
        [TURN, call("ToolCallRequested", 3, path="cart.py")],
        "working (runCommand)",
        {"state": "working", "reason": "runCommand"},
    ),
    "a command": Case(
        [TURN, call("ToolCallRequested", 3, command="npm test")],
        "waiting for a command: npm test",
        {"state": "waiting", "waits_for": "command", "reason": "npm test", "since": at(3)},
    ),
    "a command that has ended": Case(
        [TURN, call("ToolCallRequested", 3, command="npm test"), call("ToolCallCompleted", 4)],
        "working",
        {"state": "working"},
    ),
    "you": Case(
        [TURN, call("ToolCallRequested", 3, command="rm x"), asks(wants_to_run("q1", "rm x"))],
        "waiting for you: q1",
        {"state": "waiting", "waits_for": "you", "question": "q1"},
    ),
    "a limit": Case(
        [
            TURN,
            CloseTurn(TASK, "turn/1", 1, at(3), "limited", "any words", None),
            state("waiting", 3, "limit", "2026-01-31T14:05:00.000Z"),
        ],
        "waiting for a rate limit until 2026-01-31 14:05 UTC",
        {"state": "waiting", "waits_for": "limit", "until": "2026-01-31T14:05:00.000Z"},
    ),
    "the model": Case(
        [TURN, state("waiting", 4, "model", reason="429, retry 2 of 10")],
        "waiting for the model: 429, retry 2 of 10",
        {"state": "waiting", "waits_for": "model"},
    ),
    "quiet": Case(
        [TURN, state("quiet", 4, "model")],
        "quiet: the model has not answered",
        {"state": "quiet", "waits_for": "model", "since": at(4)},
    ),
    "quiet in a command": Case(
        [TURN, call("ToolCallRequested", 3, command="npm test"), state("quiet", 4, "command")],
        "quiet: a command is still running, npm test",
        {"state": "quiet", "waits_for": "command", "reason": "npm test"},
    ),
    "quiet in an earlier turn": Case(
        [state("quiet", 1, "model"), TURN], "working", {"state": "working"}
    ),
    "stuck": Case(
        [TURN, CloseTurn(TASK, "turn/1", 1, at(3), "failed", "any words", None), asks(STUCK)],
        "stuck at its limit: q1",
        {"state": "stuck", "waits_for": "you", "question": "q1"},
    ),
}


@contextmanager
def run_by_us(cli: Cli, writes: Sequence[Write], team: Team = TEAM) -> Iterator[None]:
    """A task run by a live process, which is this one."""
    project = Project(cli.user.project)
    make_project(project)
    owner = Owner(project.folder / "owners", "here")

    async def record() -> None:
        storage = await SqliteStorage.open(project.database)
        created = TaskCreated(
            task_id=TASK,
            at=at(0),
            session_id=TASK,
            workflow="chat",
            workflow_version=1,
            goal="Add coupons",
            author="you",
            team=team,
        )
        fence = await storage.create(created, owner.id, Message(TASK, 1, "you", "hello", at(0)))
        started = AppendEvent(TaskStarted(task_id=TASK, at=at(1)))
        await storage.commit(fence, started, *writes)
        await storage.close()

    anyio.run(record)
    try:
        yield
    finally:
        owner.release()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_member_does_is_data_and_words(in_process: InProcessCli, case: Case) -> None:
    with run_by_us(in_process, case.writes):
        (ada,) = in_process("ps", "--json").of("member")
        assert {key: ada[key] for key in case.facts} == case.facts
        assert (ada["member"], ada["agent"], ada["pid"]) == ("ada", "builtin", None)
        assert case.words in in_process("ps").out
    assert in_process("ps", "--json").of("member") == [], "whose owner is dead, does nothing"


@pytest.mark.parametrize(
    ("waits_for", "said"),
    [("limit", "parked, waiting for a rate limit"), ("budget", "parked, waiting for a budget")],
)
def test_a_parked_task_that_waits_for_a_limit_is_shown_with_its_end(
    in_process: InProcessCli, waits_for: str, said: str
) -> None:
    until = "2099-01-31T14:05:00.000Z"
    with run_by_us(in_process, [TURN, state("waiting", 3, waits_for, until)]):
        (ada,) = in_process("ps", "--json").of("member")
        assert (ada["parked"], ada["until"]) == (False, until)
    (ada,) = in_process("ps", "--json").of("member")
    assert (ada["task"], ada["parked"], ada["until"], ada["pid"]) == (TASK, True, until, None)
    assert f"{said} until 2099-01-31 14:05 UTC" in in_process("ps").out
    assert in_process("cancel", TASK, "--yes").code == 0
    assert in_process("ps", "--json").of("member") == []


# -- stopping one member, or everything ----------------------------------------------------------


def states(cli: Cli, **where: object) -> dict[str, dict[str, object]]:
    """The state of every member in all projects, by id."""
    return {str(one["member"]): one for one in cli("ps", "--json", **where).of("member")}  # pyright: ignore[reportArgumentType]


@contextmanager
def at_work(cli: Cli, *words: str) -> Iterator[tuple[ForkedCommand, str]]:
    """A chat whose second member never ends its turn, and its task's id."""
    with cli.start("chat", "--json", *words, "rex-hangs") as child:
        child.until('"member":"rex","state":"working"')
        try:
            yield child, cli("tasks", "--json").lines[-1]["id"]
        finally:
            child.terminate()


def test_one_member_is_stopped_and_the_task_asks_what_now(cli: Cli) -> None:
    cli.team("ada", "rex")
    with at_work(cli, "--wait", "1m") as (child, task):
        elsewhere = cli.user.home / "elsewhere"
        elsewhere.mkdir()
        rex = states(cli, cwd=elsewhere)["rex"]
        assert (rex["state"], rex["project"]) == ("working", str(cli.user.project))
        wrong = cli("stop", task, "nobody")
        assert (wrong.code, "Here: ada, rex." in wrong.err) == (2, True)
        stopped = cli("stop", task, "rex", "--json")
        assert stopped.code == 0, stopped.err
        assert stopped.of("member") == [
            {**stopped.of("member")[0], "task": task, "member": "rex", "stopped": True}
        ]
        rex = states(cli)["rex"]
        assert (rex["pid"], rex["waits_for"], rex["question"]) == (None, "you", "q1")
        (question,) = cli("inbox", "--json").of("interaction")
        assert question["title"] == "rex was stopped (turn 2)"
        assert [one["id"] for one in question["options"]] == [
            "retry", "skip", "replace-ada", "stop",
        ]  # fmt: skip
        assert cli("answer", "q1", "skip").code == 0
        assert child.wait(30) == 0
    assert "has ended (completed)" in cli("stop", task, "rex").out


def test_a_stop_outlives_a_kill_and_is_done_once(cli: Cli) -> None:
    cli.team("ada", "rex")
    with at_work(cli, "--wait", "1m") as (child, task):
        child.kill()
        child.wait()
    leave_request(cli, task, "rex")
    parked = cli("resume", task, "--json")
    assert (parked.code, parked.lines[-1]["reason"]) == (3, "question")
    assert cli("answer", "q1", "skip").code == 0
    assert cli("resume", task).code == 0


def leave_request(cli: Cli, task: str, member: str) -> None:
    async def leave() -> None:
        storage = await SqliteStorage.open(Project(cli.user.project).database)
        await storage.inbox.request(task, "stop_member", "you", member)
        await storage.close()

    anyio.run(leave)


def test_everything_is_stopped_from_anywhere(cli: Cli) -> None:
    assert cli("stop", "--all").out == "Nothing is running.\n"
    cli.team("ada", "rex")
    elsewhere = cli.user.home / "elsewhere"
    elsewhere.mkdir()
    with at_work(cli) as (child, task):
        done = cli("stop", "--all", cwd=elsewhere)
        assert normalize(done.out).replace(task, TASK) == (
            f"Parked: coterie -C /project resume {TASK}\n"
        )
        assert child.wait(30) == 130
    assert cli("stop").code == 2
    assert cli("stop", "--all", task).code == 2


SCRIPT = {
    "rules": [{"replies": [{"tools": [{"name": "runCommand", "input": {"command": "sleep 600"}}]}]}]
}


def test_the_builtin_agent_is_seen_at_a_command_and_stopped(cli: Cli, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    words = ("do", "--json", "--wait", "1m", "--agent", "builtin", "--script", str(script), "go")
    with cli.start(*words) as child:
        child.until('"type":"interaction"')
        task = cli("tasks", "--json").lines[-1]["id"]
        assert states(cli)["builtin"]["waits_for"] == "you"
        assert cli("answer", "q1", "once").code == 0
        child.until('"state":"answered"')
        while states(cli)["builtin"]["waits_for"] == "you":
            pass  # the answer is on its way to the agent
        builtin = states(cli)["builtin"]
        assert (builtin["waits_for"], builtin["reason"]) == ("command", "sleep 600")
        while states(cli)["builtin"]["pid"] is None:
            pass  # the command is about to be started
        assert states(cli)["builtin"]["agent"] == "builtin", "a command is no agent"
        assert cli("stop", task, "builtin").code == 0
        assert states(cli)["builtin"]["question"] == "q2"
        cli("stop", task)
        child.wait(30)
