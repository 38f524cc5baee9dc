"""`--dry-run`: it shows exactly what would be started, and starts nothing."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Cli, CommandResult
from tests.cli.ticket_project import TicketProject, git, register_agents

TELLS = """
import json, os, sys
said = sys.stdin.read()
told = {"words": sys.argv, "cwd": os.getcwd(), "variables": sorted(os.environ)}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(told) + "\\n")
print(json.dumps({"type": "result", "text": "told"}), flush=True)
"""


@pytest.fixture
def logging_agent(bare: Cli) -> Cli:
    """An agent that logs how it was started; two members that differ in every setting."""
    program = bare.user.home / "tells.py"
    program.write_text(TELLS)
    log = bare.user.home / "log.jsonl"
    agent: dict[str, Any] = {
        "command": sys.executable,
        "baseArgs": [str(program), str(log)],
        "capabilities": {
            "completionDetection": "jsonl",
            "completionTypes": ["result"],
            "systemPromptFlag": "--role",
            "modelFlag": "--model",
        },
        "env": {"FROM_REGISTRY": "1"},
    }
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"teller": agent}}))
    path = bare.team("ada")
    (bare.user.project / "sub").mkdir()
    ada = {"id": "ada", "agent": "teller", "prompt": "You are Ada.", "model": "small"}
    rex = {
        "id": "rex",
        "agent": "teller",
        "additionalArgs": ["--x", "a b"],
        "workDir": "../../../sub",
    }
    path.write_text(json.dumps({"members": [ada, {**rex, "env": {"OF_REX": "sesame-sesame"}}]}))
    return bare


def log_of(cli: Cli) -> list[dict[str, Any]]:
    path = cli.user.home / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def dry_run_record(ran: CommandResult) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    (found,) = ran.of("dry_run")
    return found


def tree(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_what_is_shown_is_what_is_started(logging_agent: Cli) -> None:
    before = tree(logging_agent.user.project)
    shown = dry_run_record(logging_agent("chat", "--dry-run", "--json", "hello"))
    assert (tree(logging_agent.user.project), log_of(logging_agent)) == (before, [])
    assert logging_agent("chat", "hello").code == 0
    for plan, started in zip(shown["members"], log_of(logging_agent), strict=True):
        assert plan["words"][1:] == started["words"]
        assert Path(plan["cwd"]).resolve() == Path(started["cwd"])
        # Python itself adds LC_CTYPE if the locale is C.
        assert set(plan["variables"]) ^ set(started["variables"]) <= {"LC_CTYPE"}
    assert "sesame" not in json.dumps(shown)
    assert {"FROM_REGISTRY", "OF_REX"} <= set(shown["members"][1]["variables"])


@pytest.mark.parametrize(
    ("words", "workflow", "duties"),
    [
        (("chat", "hi"), "chat", ["", ""]),
        (("rehearse", "hi"), "chat", ["", ""]),
        (("do", "--as", "rex", "hi"), "solo", ["may get subtasks", "does the job"]),
        (("run", "hi"), "tickets", ["manager", "worker"]),
        (("run", "--workflow", "solo", "hi"), "solo", ["does the job", "may get subtasks"]),
    ],
)
def test_every_work_verb_has_it(
    logging_agent: Cli, words: tuple[str, ...], workflow: str, duties: list[str]
) -> None:
    verb, *rest = words
    before = tree(logging_agent.user.project)
    shown = dry_run_record(logging_agent(verb, "--dry-run", "--json", *rest))
    assert shown["workflow"] == workflow
    assert [one["duty"] for one in shown["members"]] == duties
    assert all(one["words"] and one["variables"] for one in shown["members"])
    assert (tree(logging_agent.user.project), log_of(logging_agent)) == (before, [])


def test_in_words(logging_agent: Cli) -> None:
    out = logging_agent("chat", "--dry-run", "hello").out
    assert "--role 'You are Ada.'" in " ".join(out.split())
    assert "OF_REX" in out
    assert "sesame" not in out
    assert "ends       when every member has spoken once" in out


def test_a_team_that_cannot_work_on_tickets_is_refused(bare: Cli) -> None:
    bare.team("ada").write_text(json.dumps({"members": [{"id": "ann", "type": "human"}]}))
    ran = bare("run", "--dry-run", "x")
    assert (ran.code, "a manager and at least one worker" in ran.err) == (2, True), ran.err


def test_known_agents_are_shown_as_their_adapters_call_them(bare: Cli) -> None:
    """None of them is installed: no program is run to find out."""
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    names = ("claude", "codex", "gemini")
    agents = {name: {"command": f"/nowhere/{name}"} for name in names}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    spec = "a=claude:opus,b=codex,c=gemini"
    claude, codex, gemini = dry_run_record(
        bare("chat", "--dry-run", "--json", "--agents", spec, "x")
    )["members"]
    assert (claude["words"][0], claude["installed"]) == ("/nowhere/claude", False)
    assert {"--permission-mode=default", "--model=opus", "-p"} <= set(claude["words"])
    assert {"CLAUDE_CONFIG_DIR", "HOME", "TMPDIR"} <= set(claude["variables"])
    assert codex["words"][1] == "app-server"
    assert "CODEX_HOME" in codex["variables"]
    assert gemini["words"][1] == "--acp"
    assert list(bare.user.project.iterdir()) == []


def test_a_worker_is_shown_in_the_worktree_of_a_ticket(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    shown = dry_run_record(project("run", "--dry-run", "--json", "Add coupons"))
    manager, *workers = shown["members"]
    assert Path(manager["cwd"]).name == "work"
    assert {one["cwd"] for one in workers} == {str(project.root / ".coterie/worktrees/<id>/T1")}
    assert git(project.root, "branch", "--list").split() == ["*", "main"]


def test_a_session_goes_on_from_where_it_began(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    began = git(project.root, "rev-parse", "HEAD").strip()
    assert project("run", "Add coupons").code == 3, "the plan waits for a yes"
    git(project.root, "commit", "-q", "--allow-empty", "-m", "later")
    assert f", from {began[:7]}; " in project("resume", "--dry-run").out
    shutil.rmtree(project.root / ".git")
    gone = project("resume", "--dry-run")
    assert (gone.code, "is in no git repository any more" in gone.err) == (2, True)


def test_a_session_that_began_without_git_goes_on_without_it(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    shutil.rmtree(project.root / ".git")
    assert project("run", "Add coupons").code == 3, "the plan waits for a yes"
    git(project.root, "init", "-q")
    shown = project("resume", "--dry-run")
    assert (shown.code, "not a git repository" in shown.out) == (0, True)
    assert project("answer", "q1", "approve").code == 0
    resumed = project("resume", "--json")
    assert project("tickets", "last", "--json").of("ticket")[0]["state"] == "done", resumed.err


def test_a_task_that_would_go_on(logging_agent: Cli) -> None:
    """For a task that waits: what `resume` starts, in which thread, and where it is stored."""
    path = logging_agent.user.project / ".coterie" / "teams" / "pair" / "team.json"
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"turns": 1}}))
    task = logging_agent("chat", "--json", "hello").lines[-1]["task"]
    before, log = tree(logging_agent.user.project), log_of(logging_agent)
    shown = dry_run_record(logging_agent("resume", "--dry-run", "--json"))
    assert (shown["task"], shown["workflow"], shown["goal"]) == (task, "chat", "hello")
    words = logging_agent("resume", task, "--dry-run").out
    assert words.startswith(f"Would resume {task}: chat with team pair.")
    assert (tree(logging_agent.user.project), log_of(logging_agent)) == (before, log), (
        "nothing was started"
    )
    assert logging_agent("answer", "q1", "+5").code == 0
    assert logging_agent("resume").code == 0
    (started,) = log_of(logging_agent)[len(log) :]
    assert shown["members"][1]["words"][1:] == started["words"]
    assert set(shown["members"][1]["variables"]) ^ set(started["variables"]) <= {"LC_CTYPE"}
    ended = logging_agent("resume", task, "--dry-run")
    assert (ended.code, "has ended" in ended.err) == (2, True)


def test_a_member_that_was_kept_is_shown_as_it_was_and_one_that_would_be_asked_about_is_named(
    logging_agent: Cli,
) -> None:
    assert logging_agent("do", "it").code == 0
    path = logging_agent.user.project / ".coterie" / "teams" / "pair" / "team.json"
    path.write_text(path.read_text().replace("You are Ada.", "You are Eve."))
    asked = logging_agent("do", "--dry-run", "it")
    assert (asked.code, "ada's prompt changed since" in asked.err) == (2, True)
    assert logging_agent("team", "keep", "ada").code == 0
    kept = logging_agent("do", "--dry-run", "--json", "it")
    assert (kept.code, "You are Ada." in kept.of("dry_run")[0]["members"][0]["words"]) == (0, True)
