"""Killing Coterie at random instants and counting what was lost or duplicated."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.chaos.stores import Stores, has_begun


class Process(Protocol):
    """A command that runs."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


Popen = Callable[..., Process]
"""Starts commands as `subprocess.Popen` does; tests fork them, as they start thousands."""

AGENT = Path(__file__).with_name("locked_agent.py")


@dataclass
class Tally:
    """The results of a series of killed chats."""

    kills: int = 0
    chats: int = 0
    turns: int = 0
    executions: int = 0
    overlaps: int = 0
    survivors: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def repeated(self) -> int:
        """Executions beyond one per turn."""
        return self.executions - self.turns


@dataclass
class Chaos:
    """Chats of one length in projects of their own, killed at random until each is done."""

    folder: Path
    turns: int = 30
    milliseconds: float = 50
    keeper: str = "auto"
    seed: int = 1
    stores: Stores = field(default_factory=Stores)
    popen: Popen = subprocess.Popen
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._span = 0.8 + self.turns * (self.milliseconds / 1000 + 0.06)

    def run(self, kills: int, progress: Callable[[Tally], None] = lambda _: None) -> Tally:
        """Run chats until this many kills have happened, the last chat to its end."""
        while self.tally.kills < kills:
            self._chat(kills)
            progress(self.tally)
        return self.tally

    def _chat(self, kills: int) -> None:
        project = self.folder / f"chat{self.tally.chats}"
        create_project(project, self.milliseconds)
        self.stores.settle(project, self.keeper)
        words = ["chat", "--agents", "a=locked,b=locked", "--max-turns", str(self.turns), "turn 0"]
        code, before = None, self.tally.kills
        while code is None:
            command = ["resume", "last"] if has_begun(project) else words
            code = self._killed_or_done(project, command, may_kill=self.tally.kills < kills)
        self._count(project, code, self.tally.kills - before)

    def _killed_or_done(self, project: Path, words: list[str], *, may_kill: bool) -> int | None:
        process = _start(project, words, "output", self.popen)
        try:
            after = self._random.uniform(0.05, self._span) if may_kill else 120
            return process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.tally.kills += 1
            return None

    def _count(self, project: Path, code: int, kills: int) -> None:
        tally = self.tally
        tally.chats += 1
        tally.turns += self.turns
        words = (project / "executions").read_text().split()[::2]
        executions = words.count("begin")
        tally.executions += executions
        tally.overlaps += words.count("overlap")
        tally.survivors += is_locked(project / "lock")
        if executions > self.turns + kills:
            tally.wrong.append(f"{project.name}: {executions} executions with {kills} kills")
        messages = self._messages(project)
        if code != 0 or messages != [f"turn {number}" for number in range(self.turns + 1)]:
            tally.wrong.append(f"{project.name}: exit {code}, messages {messages}")

    def _messages(self, project: Path) -> list[object]:
        _start(project, ["log", "last"], "log", self.popen).wait(60)
        lines = [json.loads(line) for line in (project / "log").read_text().splitlines()]
        return [line["text"] for line in lines if line.get("type") == "message"]


def create_project(project: Path, milliseconds: float) -> None:
    """Create a project whose registry has the agent `locked`."""
    registry = project / "user" / "agents"
    registry.mkdir(parents=True)
    entry = {
        "command": sys.executable,
        "baseArgs": ["-I", "-S", str(AGENT), str(project), str(milliseconds)],
        "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
    }
    config = {"schemaVersion": "1.2", "agents": {"locked": entry}}
    (registry / "config.json").write_text(json.dumps(config))
    (project / "work").mkdir()


def _start(project: Path, words: list[str], output: str, popen: Popen) -> Process:
    """Start a command; what it prints goes to a file of the project."""
    with (project / output).open("wb") as out, (project / "errors").open("wb") as errors:
        return popen(
            [sys.executable, "-m", "coterie", "-C", str(project / "work"), *words, "--json"],
            env={
                **os.environ,
                "COTERIE_HOME": str(project / "user"),
                "HOME": str(project / "user"),
            },
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )


def is_locked(lock: Path) -> bool:
    """Whether a live process still holds a lock."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
