"""A git project with a manager and two workers, all played by `ticket_agent.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import Cli, Ran, steady
from tests.conftest import ours

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


def registered(cli: Cli) -> Cli:
    """Register three agents under the names of the real ones."""
    registry = cli.house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    run = {"command": sys.executable, "baseArgs": [str(_AGENT)], "adapter": "generic"}
    agents = {name: {**run, "capabilities": _ENDS} for name in MEMBERS.values()}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    return cli


@dataclass(frozen=True)
class Crew:
    """A team called crew, in a repository with one file."""

    cli: Cli

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.cli.house.project

    def __call__(self, *words: str) -> Ran:
        """Run a command."""
        return self.cli(*words)

    def furnish(self, **limits: Any) -> Crew:
        """Write the repository, team and limits; by default, one ticket is worked on at a time."""
        cart = self.root / "cart.py"
        cart.write_text("total = 0\n")
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "add", "cart.py")
        git(self.root, "commit", "-qm", "begin")
        folder = ours(self.root) / "teams" / "crew"
        folder.mkdir(parents=True)
        members = [{"id": name, "agent": agent} for name, agent in MEMBERS.items()]
        (folder / "team.json").write_text(json.dumps({"members": members}))
        config = {"concurrency": 1, **limits}
        (self.root / ".coterie" / "scheduler_config.json").write_text(json.dumps(config))
        return self

    def calm(self, ran: Ran) -> str:
        """Everything that was printed, without what differs from run to run."""
        task = str(self("tasks", "--json").of("task")[-1]["id"])
        return calm(ran.out + ran.err, task)


def calm(text: str, task: str) -> str:
    """The text of a session with the id `task`, without what differs from run to run."""
    text = steady(text).replace(task, "k3f9")
    text = re.sub(r"\b\d+m\d\ds\b", "0m20s", text)
    return re.sub(r"(?<=tree )[0-9a-f]{6,12}|(?<=[ (])[0-9a-f]{7}(?=[ ,)])", "9c1e44", text)
