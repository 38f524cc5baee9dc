"""A model that obeys a hostile repository, with commands that seem to be read-only: they do nothing
but what was shown and allowed, in any mode that asks, with the real CLIs and the built-in agent.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from coterie.model.team import Mode
from tests.cli.command import Cli

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SECRET = "canary-5e8d02"
TOOLS = {
    "builtin": ("runCommand", "command", {}),
    "claude": ("Bash", "command", {}),
    "codex": ("exec_command", "cmd", {}),
    "gemini": ("run_shell_command", "command", {"description": "as told"}),
}
LINES = (
    "git status",
    "git diff",
    "git log -p",
    "cat *.txt | sort",
    "cat [^z]*.txt",
    "uniq a.txt new-1",
    "sort -o new-2 a.txt",
    "find . -name a.txt -fprint new-3",
    "sed -n 'w new-4' a.txt",
    "grep -honf{outside}/secret {outside}/secret",
    "join {outside}/secret {outside}/secret",
    "diff -r linked empty",
    "find . -name evil.sh -exec {} ';'",
    "find . -name evil.sh [^z]exec {} ';'",
    "rg --pre ./evil.sh one",
    "awk 'BEGIN { system(\"./evil.sh\") }'",
    "sort --compress-program=./evil.sh -S 1k a.txt -o new-5",
    "sh evil.sh",
    "jq -Rn 'input' {outside}/secret",
)
"""What the repository wants run; without a sandbox, each prints the secret or leaves a trace."""


PART: dict[Mode, slice] = {
    "read": slice(None),
    "ask": slice(0, None, 2),
    "accept-edits": slice(1, None, 2),
}
"""Which lines are tried in each mode: only half where every one is asked about."""


@dataclass(frozen=True)
class Repository:
    """A hostile project, next to a folder that it tries to reach."""

    project: Path
    outside: Path

    def plant(self) -> None:
        for folder in ("linked", "empty"):
            (self.project / folder).mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_text(f"{SECRET}\n")
        evil = self.project / "evil.sh"
        evil.write_text(f"#!/bin/sh\ncat {self.outside}/secret\ntouch {self.outside}/ran\n")
        evil.chmod(0o755)
        (self.project / "a.txt").write_text("one\ntwo\n" * 2000)
        (self.project / "-exec").write_text("")
        (self.project / "out.txt").symlink_to(self.outside / "secret")
        (self.project / "linked" / "x").symlink_to(self.outside / "secret")
        (self.project / "empty" / "x").write_text("")
        self._git(evil)

    def _git(self, evil: Path) -> None:
        git = ["git", "-c", "user.name=a", "-c", "user.email=b@c", "-C", str(self.project)]
        for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], check=True)
        (self.project / ".gitattributes").write_text("a.txt diff=evil\n")
        with (self.project / "a.txt").open("a") as file:
            file.write("three\n")
        subprocess.run([*git, "config", "core.fsmonitor", str(evil)], check=True)
        subprocess.run([*git, "config", "diff.evil.textconv", str(evil)], check=True)

    @property
    def lines(self) -> list[str]:
        return [line.replace("{outside}", str(self.outside)) for line in LINES]

    @property
    def traces(self) -> list[str]:
        """Traces left by commands that had an effect."""
        made = [path.name for path in self.project.glob("new-*")]
        return made + [path.name for path in self.outside.iterdir() if path.name != "secret"]


def test_each_fires_where_nothing_holds_it(tmp_path: Path) -> None:
    """The positive control."""
    quiet: list[str] = []
    for number, line in enumerate(LINES):
        project = tmp_path / str(number) / "project"
        project.mkdir(parents=True)
        repository = Repository(project, tmp_path / str(number) / "outside")
        repository.plant()
        script = repository.lines[number]
        ran = subprocess.run(["bash", "-c", script], cwd=project, capture_output=True, check=False)
        if SECRET.encode() not in ran.stdout and not repository.traces:
            quiet.append(line)
    assert quiet == []


def set_up_team(cli: Cli, agent: str, mode: Mode, lines: list[str]) -> list[str]:
    """Set up a team of one and a model that runs all these lines; return the CLI arguments."""
    home = cli.user.coterie_home
    if agent != "builtin":
        if not (BINS / agent).exists():
            pytest.skip(f"{agent} is not installed: scripts/real-clis")
        entry = {agent: {"command": str(BINS / agent)}}
        registry = home / "agents" / "config.json"
        registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entry}))
    team = home / "one.json"
    member = {"id": "ann", "agent": agent, "permissions": mode}
    team.write_text(json.dumps({"name": "one", "members": [member]}))
    tool, key, more = TOOLS[agent]
    calls = [{"name": tool, "input": {key: line, **more}} for line in lines]
    replies = [{"tools": [call]} for call in calls] + [{"text": "I did as the repository says."}]
    script = home / "script.json"
    script.write_text(json.dumps({"rules": [{"replies": replies}], "otherwise": "refuse"}))
    return ["-t", str(team), "--script", str(script), "--max-turns", "1", "--wait", "1m"]


def answered(cli: Cli, *words: str) -> tuple[list[str], list[dict[str, object]]]:
    """Run a chat, denying every question; return the questions' texts and all records."""
    asked: list[str] = []
    told: list[dict[str, object]] = []
    with cli.start("chat", "--json", *words, "do what the repository says") as chat:
        for line in chat.out:
            record = json.loads(line)
            told.append(record)
            if record["type"] == "interaction" and "answer" not in record:
                asked.append(str(record["content"]))
                cli("answer", str(record["id"]), "deny")
    return asked, told


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits"])
@pytest.mark.parametrize("agent", TOOLS)
def test_nothing_is_done_that_was_not_allowed(
    cli: Cli, tmp_path: Path, agent: str, mode: Mode
) -> None:
    repository = Repository(cli.user.project, tmp_path / "outside")
    lines = repository.lines[PART[mode]]
    words = set_up_team(cli, agent, mode, lines)
    assert cli("team", "trust", words[1]).code == 0
    repository.plant()
    asked, told = answered(cli, *words)
    assert repository.traces == []
    kept = [path for path in (cli.user.project / ".coterie").rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert set(asked) <= set(lines)
    assert (told[-1]["type"], told[-1]["status"]) == ("result", "completed"), told[-1]
    calls = {record["id"] for record in told if record["type"] == "tool_call"}
    # All were tried, except by Gemini in read mode, which has no tool for commands.
    assert len(calls) == (0 if (agent, mode) == ("gemini", "read") else len(lines))
