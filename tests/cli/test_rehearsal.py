"""`--rehearse`: any team does the whole job, without a real model and without an API key."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Cli, InProcessCli
from tests.cli.ticket_project import git
from tests.conftest import init_project

SPY = """\
import json, os, pathlib, sys
pathlib.Path({mark!r}).write_text(os.environ.get("MY_KEY", "no key"))
print(json.dumps({{"type": "result", "text": "I am real"}}))
"""


@pytest.fixture
def repository(bare: Cli) -> Cli:
    """A project in git with one file."""
    in_git(bare)
    return bare


def in_git(cli: Cli) -> None:
    """Make the project a repository with one file."""
    root = cli.user.project
    (root / "cart.py").write_text("total = 0\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "cart.py")
    git(root, "commit", "-qm", "begin")


def team(cli: Cli, *members: dict[str, Any], name: str = "crew", **more: Any) -> None:
    """Write a team file, as a person would."""
    folder = init_project(cli.user.project) / "teams" / name
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(json.dumps({"members": members, **more}))


def real_agent(cli: Cli, **more: Any) -> Path:
    """Register a generic agent that must never run; return the file that it would create."""
    mark = cli.user.home / "it-ran"
    program = cli.user.home / "real.py"
    program.write_text(SPY.format(mark=str(mark)))
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "command": sys.executable,
        "baseArgs": [str(program)],
        "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        "env": {"MY_KEY": "sk-real-and-secret"},
        **more,
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"mine": entry}}))
    return mark


SEED = [
    {
        "id": "max",
        "name": "max",
        "displayName": "Max",
        "role": "manager",
        "type": "ai",
        "order": 0,
        "agentConfigId": "claude",
        "systemInstruction": "You are Max. You plan.",
    },
    {
        "id": "sarah",
        "name": "sarah",
        "displayName": "Sarah",
        "role": "developer",
        "type": "ai",
        "order": 1,
        "agentConfigId": "codex",
        "systemInstruction": "You are Sarah. You write code.",
    },
    {"id": "carol", "name": "carol", "displayName": "Carol", "type": "human", "order": 2},
]
REVIEWED = [
    {"id": "boss", "role": "manager", "agent": "gemini"},
    {"id": "eve", "role": "reviewer", "agent": "qwen", "capabilities": ["review"]},
    {"id": "wren", "agent": "opencode", "supportsMultipleInstances": True},
]


@pytest.mark.parametrize("members", [SEED, REVIEWED], ids=["seed", "reviewer"])
def test_a_goal_is_rehearsed_to_a_commit_on_the_branch(
    repository: Cli, members: list[dict[str, Any]]
) -> None:
    team(repository, *members)
    ran = repository("run", "--rehearse", "--yes", "--json", "Add coupons to cart.py and docs")
    assert (ran.code, ran.lines[-1]["status"]) == (0, "completed"), ran.err
    assert "claude  it is not installed: a stand-in" in ran.err or members is REVIEWED
    tickets = {line["id"]: line["state"] for line in ran.of("ticket")}
    assert set(tickets.values()) == {"done"}
    assert 2 <= len(tickets) <= 4
    task = ran.lines[-1]["task"]
    root = repository.user.project
    begun = git(root, "rev-parse", "HEAD")
    assert repository("accept", task).code == 0
    assert git(root, "rev-parse", "HEAD") != begun
    changed = git(root, "diff", "--name-only", begun.strip(), "HEAD").split()
    assert "cart.py" in changed
    assert len(changed) == len(tickets)
    assert (root / "cart.py").read_text().startswith("total = 0\n# A stand-in")


@pytest.mark.parametrize(
    ("verb", "shown"),
    [("run", ["Plan with 3 tickets", "a rebate in cart.py"]), ("build", ["cart.py` (modify)"])],
)
def test_an_unclear_goal_is_asked_about_once_and_the_answer_taken_in(
    in_process: InProcessCli, verb: str, shown: list[str]
) -> None:
    in_git(in_process)
    team(in_process, *REVIEWED)
    assert in_process(verb, "--rehearse", "Coupons").code == 3
    (asked,) = in_process("inbox", "--json").lines
    question = "What should be different once “Coupons” is done, and in which files?"
    assert (asked["title"], asked["kind"]) == (question, "Input")
    assert in_process("answer", asked["id"], "--say", "a rebate in cart.py; docs").code == 0
    assert in_process("resume", "last").code == 3
    (asked,) = in_process("inbox", "--json").lines
    assert [one for one in shown if one not in asked["title"] + asked["content"]] == []
    assert question not in asked["content"]


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (("chat", "--agents", "a=mine,b=mine"), "every member has spoken"),
        (("do", "--agent", "mine"), "changed  "),
        (("run", "--yes", "--agents", "a=mine,b=mine"), "DONE"),
        (("run", "--workflow", "solo", "--agents", "a=mine,b=mine"), "changed  "),
        (("run", "--workflow", "chat", "--agents", "a=mine,b=mine"), ""),
    ],
    ids=["chat", "do", "tickets", "solo", "chat workflow"],
)
def test_a_generic_agent_is_never_run(cli: Cli, words: tuple[str, ...], end: str) -> None:
    mark = real_agent(cli)
    ran = cli(*words, "--rehearse", "Write hello")
    assert ran.code == 0, ran.err
    assert "mine  there is no stand-in for its model: a stand-in agent replaces it" in ran.err
    assert end in ran.out
    assert not mark.exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"adapter": "acp"},
        {"adapter": "generic", "command": "claude"},
        {"usePty": True, "capabilities": {"persistent": True}},
    ],
    ids=["acp", "another's program", "persistent"],
)
def test_nor_is_any_other_of_which_little_is_known(cli: Cli, entry: dict[str, Any]) -> None:
    mark = real_agent(cli, **entry)
    member = {"id": "a", "agent": "mine", "env": {"MY_KEY": "sk-mine"}, "additionalArgs": ["-x"]}
    team(cli, member, permissions={"mode": "read"})
    ran = cli("chat", "--rehearse", "Write hello.md")
    assert ran.code == 0, ran.err
    assert "stand-in for a model in this rehearsal" in ran.out
    assert not mark.exists()
    assert not (cli.user.project / "hello.md").exists()


def test_a_rehearsal_uses_no_budget_and_costs_nothing(cli: Cli) -> None:
    team(cli, {"id": "ada", "agent": "ada"}, budget={"turns": 1, "perDay": {"turns": 2}})
    for _ in range(2):
        ran = cli("chat", "--rehearse", "--max-turns", "3", "--json", "hello")
        assert (ran.code, ran.lines[-1]["turns"]) == (0, 3), ran.err
        assert ran.lines[-1]["usage"] == {
            "input_tokens": None,
            "output_tokens": None,
            "cost_usd": None,
            "source": "rehearsal",
        }
    assert cli("cost", "--json").out == ""
    assert cli("cost", "last").out.endswith("is a rehearsal: it used nothing.\n")
    assert cli("chat", "--max-turns", "1", "hello").code == 0
    assert [line["turns"] for line in cli("cost", "--json").lines] == [1]


PLAY: list[dict[str, Any]] = [
    {"when": {"request": 2}, "replies": [{"text": "only once"}]},
    {
        "replies": [
            {"text": "one"},
            {"tools": [{"name": "read_file", "input": {"path": "slow"}}]},
            {"text": "two"},
            {"text": "three"},
        ],
    },
]


def scripted(cli: Cli, rules: list[dict[str, Any]]) -> str:
    play = cli.user.home / "play.json"
    play.write_text(json.dumps({"rules": rules}))
    return str(play)


def replies_of(cli: Cli, task: str) -> list[str]:
    lines = cli("log", task, "--json").lines
    return [line["text"] for line in lines if line["type"] == "message" and line["member"] == "ada"]


def test_a_script_goes_on_where_it_was(cli: Cli) -> None:
    team(cli, {"id": "ada", "agent": "ada"}, {"id": "you", "type": "human"})
    (cli.user.project / "slow").write_text("a file")
    task = cli.task("--script", scripted(cli, PLAY), "hello")
    for number in range(1, 4):
        assert cli("answer", f"q{number}", "--say", "go on").code == 0
        assert cli("resume", task).code == 3
    assert replies_of(cli, task) == ["one", "only once", "two", "three"]


def test_a_reply_that_reached_nobody_is_given_again(cli: Cli) -> None:
    play = scripted(cli, PLAY[1:])
    team(cli, {"id": "ada", "agent": "ada"})
    slow = cli.user.project / "slow"
    os.mkfifo(slow)
    running = cli.start("chat", "--script", play, "--max-turns", "3", "hello")
    while True:  # until the reply with the tool call was sent, and its tool waits
        try:
            writing = os.open(slow, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:
            time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    os.close(writing)
    slow.unlink()
    slow.write_text("a file")
    task = cli("tasks", "--json").of("task")[-1]["id"]
    assert cli("resume", task).code == 0
    assert replies_of(cli, task) == ["one", "two", "three"]
