"""The real command line, run as a user runs it: in its own process, as an `IsolatedUser`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from coterie.cli.main import run
from tests.cli.forked import ForkedCommand, ForkServer
from tests.conftest import IsolatedUser, init_project

forked = cache(ForkServer)
"""The process that commands are forked from: one per test worker."""

AGENT = Path(__file__).with_name("agent.py")
NAMES = ("ada", "rex", "cy")
DOMAIN_EVENTS = {
    *("TaskCreated", "TaskStarted", "TaskCompleted", "TaskFailed", "TaskCanceled"),
    *("UserInteractionRequested", "UserInteractionResponded"),
}
"""All domain events."""


@dataclass(frozen=True)
class CommandResult:
    """A command's output and exit code."""

    out: str
    err: str
    code: int

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Each line of stdout as an object."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The objects of one type."""
        return [line for line in self.lines if line["type"] == kind]

    @property
    def shown(self) -> str:
        """Everything that was printed, without what differs from run to run."""
        return normalize(self.out + self.err)


def normalize(text: str) -> str:
    """Replace the durations, times, process ids and folders of this run."""
    text = re.sub(r"(?m)( *)\b(?:\d+\.\ds|(?:\d+m )?\d+s(?= ·|  |$))", _moment, text)
    text = re.sub(r"(?m)^\d\d:\d\d:\d\d", "12:00:00", text)
    text = re.sub(r"(?<=[ ])\d\d:\d\d(:\d\d)?\b", "12:00", text)
    text = re.sub(r"pid \d+ on [\w.-]+", "pid 1 on here", text)
    text = re.sub(r"/\S*/(project|elsewhere|home)\b", r"/\1", text)
    return re.sub(r" +$", "", text, flags=re.M)


def _moment(took: re.Match[str]) -> str:
    """A short duration, padded to the width of a longer one, which a busy machine may need."""
    return "0.1s".rjust(max(len(took[0]), 4 + bool(took[1])))


@dataclass(frozen=True)
class Cli:
    """Runs `coterie` in a project, as its user."""

    user: IsolatedUser
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def __call__(
        self, *arguments: str, stdin: str | None = None, cwd: Path | None = None
    ) -> CommandResult:
        place, env = cwd or self.user.project, {**os.environ, **self.env}
        return CommandResult(*forked().run(arguments, stdin, place, env))

    def start(self, *arguments: str) -> ForkedCommand:
        """Start a command and return while it runs."""
        return forked().start(arguments, self.user.project, {**os.environ, **self.env})

    def launch(self, *arguments: str) -> subprocess.Popen[str]:
        """The same in a new interpreter, for what is decided when Python starts."""
        return subprocess.Popen(
            [sys.executable, "-m", "coterie", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.user.project,
            env={**os.environ, **self.env},
        )

    def team(self, *members: str, name: str = "pair", project: Path | None = None) -> Path:
        """Write a team of the test agents; `you` is a human."""
        folder = init_project(project or self.user.project) / "teams" / name
        folder.mkdir(parents=True)
        entries: Sequence[dict[str, str]] = [
            {"id": one} if one == "you" else {"id": one, "agent": one} for one in members
        ]
        (folder / "team.json").write_text(json.dumps({"members": entries}))
        return folder / "team.json"

    def registry(self, **agents: Mapping[str, Any]) -> Path:
        """Write a registry of these agents and no others."""
        path = self.user.coterie_home / "agents" / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
        return path

    def members(self, *entries: Mapping[str, Any], **more: Any) -> Path:
        """Write a team of these members, replacing the previous one."""
        path = init_project(self.user.project) / "teams" / "pair" / "team.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**more, "members": entries}))
        return path

    def task(self, *arguments: str) -> str:
        """Run a chat to its end and return its task's id."""
        return str(self("chat", "--json", *arguments).lines[-1]["task"])


class InProcessCli(Cli):
    """The same in this process: for commands that only read the record, where startup dominates."""

    def __call__(
        self, *arguments: str, stdin: str | None = None, cwd: Path | None = None
    ) -> CommandResult:
        assert stdin is cwd is None
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in "oe")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(arguments))
        return CommandResult(_written(out), _written(err), code)


def _written(stream: io.TextIOWrapper) -> str:
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode()
