"""The setting of the fixture's project, created or resumed: its agents, teams and model."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ModelReply,
    ToolCall,
    ToolResult,
    reply,
)

HERE = Path(__file__).parent
MADE_IN = "/srv/shop"
"""Where the project was when it was created, as recorded in its rows."""

_ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"]}
_TICKET_AGENT = HERE.parents[1] / "cli" / "ticket_agent.py"
_MENDED = """
import io, runpy, sys
sys.stdin = io.StringIO(sys.stdin.read().replace("never-works", ""))
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Run the agent without the marker that made it fail when the fixture was created."""
SCHEDULER = {"concurrency": 1}
TEAMS: dict[str, dict[str, Any]] = {
    "pair": {
        "members": [
            {"id": "ada", "agent": "ada", "env": {"MOOD": "calm"}},
            {"id": "rex", "agent": "rex"},
        ]
    },
    "people": {"members": [{"id": "ada", "agent": "ada"}, {"id": "max", "type": "human"}]},
    "poor": {
        "members": [{"id": "ada", "agent": "ada"}, {"id": "rex", "agent": "rex"}],
        "budget": {"turns": 2},
    },
    "solo": {"members": [{"id": "ann", "agent": "builtin"}]},
    "crew": {
        "members": [
            {"id": "mira", "agent": "mira", "role": "manager"},
            {"id": "wren", "agent": "mira"},
        ]
    },
}


def write_registry(*hang: str) -> None:
    """Write the machine's agents to COTERIE_HOME."""
    registry = Path(os.environ["COTERIE_HOME"]) / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    programs = {name: [str(HERE / "agent.py"), name, *hang] for name in ("ada", "rex")}
    programs["mira"] = [str(_TICKET_AGENT)] if hang else ["-c", _MENDED, str(_TICKET_AGENT)]
    agents = {
        name: {
            "command": sys.executable,
            "baseArgs": words,
            "adapter": "generic",
            "capabilities": _ENDS,
        }
        for name, words in programs.items()
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))


@dataclass
class CountingModel:
    """A model that has a number of commands run, one after the other, and remembers nothing."""

    calls: int

    async def answer(self, request: CompletionRequest) -> Answer:
        done = sum(isinstance(item, ToolResult) for item in request.conversation)
        if done >= self.calls:
            return reply("All done.")
        command = {"command": f"echo ran >> ran-{done + 1}"}
        return ModelReply(("Next.",), (ToolCall("runCommand", command),))


def git(folder: Path, *words: str, given: str | None = None) -> str:
    who = ("-c", "user.name=You", "-c", "user.email=you@example.com")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, input=given, capture_output=True, text=True, check=True
    ).stdout


def tasks() -> dict[str, str]:
    """The fixture's task ids, by what became of each task."""
    return json.loads((HERE / "tasks.json").read_text())


def restore(root: Path, path: str) -> None:
    """Restore the project to a folder that the rows refer to as `path`."""
    git(root, "init", "-q", "-b", "main")
    git(root, "fast-import", "--quiet", given=(HERE / "repository").read_text())
    git(root, "reset", "-q", "--hard", "main")
    for kept in (HERE / "project").rglob("*"):
        if kept.is_file():
            file = root / ".coterie" / kept.relative_to(HERE / "project")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(kept.read_text())
    known = {"projects": [{"path": str(root), "addedAt": "2026-11-15T12:00:00.000Z"}]}
    listed = Path(os.environ["COTERIE_HOME"]) / "projects.json"
    listed.write_text(json.dumps(known))  # the format before projects had identities
    dump = (HERE / "coterie.sql").read_text()
    connection = sqlite3.connect(root / ".coterie" / "coterie.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(dump.replace(MADE_IN, path))
    connection.close()
