"""An agent that reports no tool calls is a full member: its changes are shown and reverted."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Cli, InProcessCli
from tests.cli.ticket_project import MEMBERS, git, register_agents
from tests.conftest import init_project

WRITER = str(Path(__file__).with_name("writing_agent.py"))
TOLD = {"completionDetection": "jsonl", "completionTypes": ["result"]}
WAYS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "event": (TOLD, []),
    "silence": ({"completionDetection": "idleTimeout", "idleTimeoutMs": 400}, []),
    "pattern": ({"completionDetection": "custom", "completionPattern": "So be it"}, []),
    "persistent": ({**TOLD, "persistent": True, "promptFormat": "jsonl"}, ["--stay"]),
}
GOAL = "write new/a.txt one\nwrite old.txt two\nremove gone.txt"


def set_up_writer(cli: Cli, way: str = "event") -> Cli:
    """Register the writer, and write three files to work on."""
    capabilities, words = WAYS[way]
    entry = {"command": sys.executable, "baseArgs": [WRITER, *words], "capabilities": capabilities}
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True, exist_ok=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"w": entry}}))
    for name in ("old.txt", "gone.txt", "mine.txt"):
        (cli.user.project / name).write_text("1\n")
    return cli


def files(cli: Cli) -> dict[str, str]:
    root = cli.user.project
    found = (path for path in root.rglob("*.txt") if ".coterie" not in path.parts)
    return {str(path.relative_to(root)): path.read_text().strip() for path in sorted(found)}


BEFORE = {"gone.txt": "1", "mine.txt": "1", "old.txt": "1"}
AFTER = {"mine.txt": "1", "new/a.txt": "one", "old.txt": "two"}


@pytest.mark.parametrize("way", WAYS)
def test_its_changes_are_shown_and_taken_back(bare: Cli, way: str) -> None:
    cli = set_up_writer(bare, way)
    ran = cli("do", "--agent", "w", "--json", GOAL)
    assert (ran.code, ran.lines[-1]["changed"]) == (
        0,
        ["gone.txt +0 -1", "new/a.txt +1 -0", "old.txt +1 -1"],
    )
    task = ran.lines[-1]["task"]
    assert files(cli) == AFTER
    assert "+two" in cli("diff", task).out
    (cli.user.project / "mine.txt").write_text("my own")
    assert cli("revert", task).code == 0
    assert files(cli) == {**BEFORE, "mine.txt": "my own"}
    assert cli("revert", task, "--undo").code == 0
    assert files(cli) == {**AFTER, "mine.txt": "my own"}


WITHIN = (
    "write in/.git/HEAD ref: refs/heads/main\nwrite in/.git/objects/x 1\nwrite in/.git/refs/x 1\n"
    "write in/a.txt kept\nwrite old.txt two"
)


@pytest.mark.parametrize("in_git", [True, False])
def test_a_repository_that_it_makes_is_named_and_left_alone(
    in_process: InProcessCli, in_git: bool
) -> None:
    cli, root = set_up_writer(in_process), in_process.user.project
    if in_git:
        git(root, "init", "-q")
    ran = cli("do", "--agent", "w", "--json", WITHIN)
    result = ran.lines[-1]
    assert result["changed"] == ["old.txt +1 -1", "in (a repository of its own)"]
    shown = cli("diff", result["task"])
    assert "not shown: in: a repository of its own" in shown.err
    assert "kept      in: a repository of its own" in cli("revert", result["task"]).out
    assert files(cli) == {**BEFORE, "in/a.txt": "kept"}, "its content is the user's to look at"


@pytest.mark.parametrize("in_git", [True, False])
def test_so_are_those_of_a_talk_turn_by_turn(bare: Cli, in_git: bool) -> None:
    cli = set_up_writer(bare)
    root = cli.user.project
    if in_git:
        (root / ".gitignore").write_text("*.log\n")
        git(root, "init", "-q", "-b", "main")
        git(root, "add", ".")
        git(root, "commit", "-qm", "begin")
    first = cli.task("--agents", "a=w,b=w", "write x.txt 1\nwrite x.log ignored")
    talk = cli.task("--agents", "a=w,b=w", "hello")
    other = cli.task("--agents", "a=w", "write x.txt 2")
    assert cli("diff", first).out.count("diff --git") == (1 if in_git else 2)
    assert cli("diff", talk).err == f"{talk} changed no files.\n"
    assert "-1\n+2" in cli("diff", other).out
    assert cli("revert", other).code == 0
    assert files(cli)["x.txt"] == "1"
    kept = root / ".coterie" / "snapshots.git"
    assert [path.name for path in (kept / "state").iterdir() if path.name.startswith("open")] == []
    assert not (kept / "refs" / "tasks" / talk).exists()
    assert not in_git or git(root, "status", "--porcelain").split() == ["??", "x.txt"]


def test_what_a_killed_turn_left_is_known(bare: Cli) -> None:
    cli = set_up_writer(bare)
    cli.task("--agents", "a=w", "hello")  # so that a snapshot of all this already exists
    running = cli.start("do", "--agent", "w", f"{GOAL}\nhang")
    while (cli.user.project / "gone.txt").exists():  # its last change
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    task = cli("tasks", "--json").of("task")[-1]["id"]
    assert "+two" in cli("diff", task).out
    assert cli("cancel", task, "--yes").code == 0
    assert cli("revert", task).code == 0
    assert files(cli) == BEFORE


def test_a_session_without_git_reports_what_it_changed(bare: Cli) -> None:
    cli = register_agents(bare)
    folder = init_project(cli.user.project) / "teams" / "crew"
    folder.mkdir(parents=True)
    members = [{"id": name, "agent": agent} for name, agent in MEMBERS.items()]
    (folder / "team.json").write_text(json.dumps({"members": members}))
    ran = cli("run", "--yes", "Add coupons")
    one = cli("diff", "last/T1")
    assert (one.code, "only known for the whole session" in one.err) == (1, True)
    assert ran.code == 0
    assert "CHANGED       3 files +3 -0   in your folder" in ran.out
    assert "accept" not in ran.out + cli("show", "last").out
    assert cli("accept", "last").code != 0
    shown = cli("diff", "last").out
    made = sorted(path.name for path in cli.user.project.glob("*.py"))
    assert len(made) == 3
    assert all(name in shown for name in made)
    assert cli("revert", "last").code == 0
    assert list(cli.user.project.glob("*.py")) == []
