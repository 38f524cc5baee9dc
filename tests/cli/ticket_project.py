"""A git project with a manager and two workers, all played by `ticket_agent.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import Cli, CommandResult, normalize
from tests.conftest import init_project

_AGENT = Path(__file__).with_name("ticket_agent.py")
_ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"]}
MEMBERS = {"mira": "claude", "wren": "codex", "finn": "gemini"}


def git(folder: Path, *words: str) -> str:
    """Run git and return its output."""
    who = ("-c", "user.name=You", "-c", "user.email=you@example.com")
    run = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return run.stdout


def register_agents(cli: Cli) -> Cli:
    """Register three agents under the names of the real ones."""
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    run = {"command": sys.executable, "baseArgs": [str(_AGENT)], "adapter": "generic"}
    agents = {name: {**run, "capabilities": _ENDS} for name in MEMBERS.values()}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    return cli


@dataclass(frozen=True)
class TicketProject:
    """A team called crew, in a repository with one file."""

    cli: Cli

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.cli.user.project

    def __call__(self, *words: str) -> CommandResult:
        """Run a command."""
        return self.cli(*words)

    def set_up(self, **limits: Any) -> TicketProject:
        """Write the repository, team and limits; by default, one ticket is worked on at a time."""
        cart = self.root / "cart.py"
        cart.write_text("total = 0\n")
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "add", "cart.py")
        git(self.root, "commit", "-qm", "begin")
        folder = init_project(self.root) / "teams" / "crew"
        folder.mkdir(parents=True)
        members = [{"id": name, "agent": agent} for name, agent in MEMBERS.items()]
        (folder / "team.json").write_text(json.dumps({"members": members}))
        config = {"concurrency": 1, **limits}
        (self.root / ".coterie" / "scheduler_config.json").write_text(json.dumps(config))
        return self

    def normalized(self, ran: CommandResult) -> str:
        """Everything that was printed, without what differs from run to run."""
        task = str(self("tasks", "--json").of("task")[-1]["id"])
        return normalize_session(ran.out + ran.err, task)


def normalize_session(text: str, task: str) -> str:
    """The text of a session with the id `task`, without what differs from run to run."""
    text = normalize(text).replace(task, "k3f9")
    text = re.sub(r"\b\d+m\d\ds\b", "0m20s", text)
    return re.sub(r"(?<=tree )[0-9a-f]{6,12}|(?<=[ (])[0-9a-f]{7}(?=[ ,)])", "9c1e44", text)
