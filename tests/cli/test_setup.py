"""`init`, `doctor`, `agents`, `team`, `config`: what they set up, what they say and write."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, normalize


@pytest.fixture
def claude(bare: Cli) -> Cli:
    """A machine with one installed agent, which Coterie knows by name."""
    folder = bare.user.home / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text("#!/bin/sh\necho '2.1.325 (Claude Code)'\n")
    program.chmod(0o755)
    return Cli(bare.user, {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"})


@pytest.fixture
def empty(bare: Cli) -> Cli:
    """A machine without any agent."""
    return Cli(bare.user, {"PATH": "/usr/bin:/bin"})


def test_init_finds_writes_and_says_so(claude: Cli) -> None:
    ran = claude("init")
    assert (ran.err, ran.code) == ("", 0)
    assert normalize(ran.out) == snapshot("""\
Found claude. Wrote .coterie/ (git ignores it; nothing else touched).
  pair     ada (claude) writes, rex (claude) reviews, you decide   [default]
Edit:  .coterie/teams/pair/team.json
Try:   coterie "why is test_total slow? fix it"
""")
    assert json.loads((claude.user.project / ".coterie/teams/pair/team.json").read_text()) == (
        snapshot(
            {
                "members": [
                    {
                        "id": "ada",
                        "agent": "claude",
                        "prompt": "You write the code. Keep changes small; say what you changed.",
                    },
                    {
                        "id": "rex",
                        "agent": "claude",
                        "prompt": "You review what ada did. You never edit. Name files and lines.",
                        "permissions": "read",
                    },
                ]
            }
        )
    )
    assert [path.name for path in claude.user.project.iterdir()] == [".coterie"]
    assert normalize(claude("team").out) == snapshot(
        "  pair     ada (claude), rex (claude · read)   [default]\n"
    )
    again = claude("init")
    assert again.code == 0
    assert "Your teams are kept as they are: pair" in again.out


def test_init_without_an_agent_says_how_to_get_one(empty: Cli) -> None:
    ran = empty("init")
    assert ran.code == 1
    assert "npm i -g @anthropic-ai/claude-code" in ran.out
    assert set(ran.out.splitlines()) >= set(empty("doctor").out.splitlines()[:6]), "the same words"
    assert list(empty.user.project.iterdir()) == []


def test_doctor_where_one_agent_is_ready(claude: Cli) -> None:
    ran = claude("doctor")
    assert (ran.err, ran.code) == ("", 0)
    rows = normalize(ran.out).splitlines()
    assert [*rows[:3], rows[5]] == snapshot(
        [
            "  claude    2.1.325  ready          signed in",
            "  codex     -        not installed  -> npm i -g @openai/codex",
            "  gemini    -        not installed  -> npm i -g @google/gemini-cli",
            "  builtin   -        no model key   -> export ANTHROPIC_API_KEY=...",
        ]
    )
    assert ran.out.endswith("1 of 6 ready: enough to start.   Deeper: coterie doctor --probe\n")
    checks = {line["name"]: line["ok"] for line in claude("doctor", "--json").of("check")}
    assert checks == {
        "registry": True,
        "project": True,
        "database": True,
        "keeper": True,
        "sandbox": True,
        "git": True,
    }
    assert list(claude.user.project.iterdir()) == []
    assert not claude.user.coterie_home.exists()


def test_doctor_where_nothing_is_ready(empty: Cli) -> None:
    ran = empty("doctor")
    assert ran.code == 1
    assert ran.out.endswith("0 of 6 ready: you need at least one to start.\n")


def test_doctor_names_a_damaged_database_and_a_bad_registry(cli: Cli) -> None:
    cli.team("ada")
    (cli.user.project / ".coterie" / "coterie.db").write_bytes(b"no database" * 1000)
    (cli.user.coterie_home / "agents" / "config.json").write_text("{")
    checks = {line["name"]: line for line in cli("doctor", "--json").of("check")}
    assert (checks["database"]["ok"], checks["registry"]["ok"]) == (False, False)


def test_agents_scan_add_and_list(claude: Cli) -> None:
    assert "claude" in claude("agents", "scan").out
    words = ["--ends-with", "result", "--", sys.executable, "agent.py", "--flag"]
    assert claude("agents", "add", "mine", *words).code == 0
    mine = {line["name"]: line for line in claude("agents", "--json").of("agent")}["mine"]
    assert mine["baseArgs"] == ["agent.py", "--flag"]
    assert mine["capabilities"]["completionTypes"] == ["result"]
    again = claude("agents", "add", "mine", *words)
    assert again.code == 2
    assert claude("agents", "add", "mine", "--replace", *words).code == 0
    rows = normalize(claude("agents").out).splitlines()
    assert rows[-1] == "Running now: coterie ps"


def test_agents_migrate_shows_what_it_dropped(bare: Cli) -> None:
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    args = ["-p", "--append-system-prompt", "You are Ann."]
    old = {"schemaVersion": "1.1", "agents": {"claude": {"command": "claude", "args": args}}}
    registry.write_text(json.dumps(old))
    ran = bare("agents", "migrate")
    assert ran.code == 0
    assert "You are Ann." in ran.out
    assert json.loads(registry.read_text())["schemaVersion"] == "1.2"
    assert len(list(registry.parent.glob("*.bak"))) == 1
    assert "nothing was changed" in bare("agents", "migrate").out


def test_team_new_add_show_and_validate(cli: Cli) -> None:
    made = cli("team", "new", "review", "--preset", "review")
    assert made.code == 0
    assert normalize(made.out) == snapshot("""\
review   .coterie/teams/review/team.json
  sec   ada · read  security
  perf  rex · read  speed
  read  cy · read   readability
  you   human
Edit:  .coterie/teams/review/team.json
""")
    folder = cli.user.project / ".coterie" / "teams" / "review"
    assert (folder / "sec" / "home").stat().st_mode & 0o777 == 0o700
    assert (folder / "sec" / "work").resolve() == cli.user.project.resolve()
    added = cli("team", "add", "sec2", "--like", "sec", "--agent", "cy")
    assert added.code == 0
    assert (folder / "sec2" / "home").is_dir()
    assert cli("team", "validate").out == "review: ok, 5 members\n"
    full = json.loads(cli("team", "show", "review", "--full").out)
    assert full["members"][0]["agentConfigId"] == "ada"
    assert cli("team", "new", "review").code == 2
    (folder / "team.json").write_text('{"members": [{"id": "sec", "agent": "nobody"}]}')
    assert cli("team", "validate").code == 2


def test_team_new_from_agents(cli: Cli) -> None:
    assert cli("team", "new", "two", "--agents", "a=ada,b=rex", "--default").code == 0
    assert cli("team", "new", "one", "--agents", "cy").code == 0
    listed = {line["name"]: line["default"] for line in cli("team", "--json").of("team")}
    assert listed == {"one": False, "two": True}
    assert [line["member"] for line in cli("chat", "--json", "hello").of("message")] == ["a", "b"]


def test_config_sets_for_the_project_and_for_the_user(cli: Cli) -> None:
    assert cli("config", "get", "quietAfter").out == "2m\n"
    assert cli("config", "set", "quietAfter", "5m").code == 0
    assert cli("config", "set", "quietAfter", "9m", "--user").code == 0
    assert cli("config", "get", "quietAfter").out == "5m\n"
    assert cli("config", "set", "quietAfter", "--unset").out == "quietAfter = 9m   (user)\n"
    assert cli("config", "set", "quietAfter", "soon").code == 2
    assert cli("config", "set", "quietAfter").code == 2
    assert {line["key"] for line in cli("config", "--json").lines} >= {"keeper", "defaultTeam"}


def test_a_project_by_its_folder(cli: Cli) -> None:
    cli.team("ada")
    inside = cli.user.project / "deep" / "down"
    inside.mkdir(parents=True)
    assert cli("team", cwd=inside).out == cli("team").out
    assert cli("-C", str(cli.user.project), "team", cwd=Path("/")).code == 0
    assert cli("team", "-C", str(cli.user.project), cwd=Path("/")).code == 0
