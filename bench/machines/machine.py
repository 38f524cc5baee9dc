"""A machine: a home, a clone and a first process, below which a worker runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machines.links import Link

AGENT = Path(__file__).with_name("ticking_agent.py")
FIRST_PROCESS = Path(__file__).with_name("first_process.py")
_GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com")
_ENDS = {"completionDetection": "jsonl", "completionTypes": ["result"]}


def make_repository(folder: Path) -> Path:
    """Create the repository that every machine clones."""
    origin = folder / "origin"
    origin.mkdir(parents=True)
    for words in (["init", "-q", "-b", "main"], ["commit", "-qm", "begin", "--allow-empty"]):
        subprocess.run([*_GIT, *words], cwd=origin, check=True)
    return origin


def ticking(folder: Path, seconds: float) -> list[str]:
    """Return the command of an agent that works for this long, and records it in the folder."""
    return [sys.executable, "-I", "-S", str(AGENT), str(folder), str(seconds)]


def create_machine(folder: Path, name: str, agents: Sequence[str], command: Sequence[str]) -> Path:
    """Create a machine's clone, and a registry where this command is each agent; return its
    folder."""
    place = folder / name
    (place / "home" / "agents").mkdir(parents=True)
    (folder / "ticks").mkdir(exist_ok=True)
    run = {"command": command[0], "baseArgs": [*command[1:]]}
    entries = {agent: {**run, "adapter": "generic", "capabilities": _ENDS} for agent in agents}
    registry = {"schemaVersion": "1.2", "agents": entries}
    (place / "home" / "agents" / "config.json").write_text(json.dumps(registry))
    clone = place / "project"
    subprocess.run([*_GIT, "clone", "-q", str(folder / "origin"), str(clone)], check=True)
    return place


class Machine:
    """A machine that runs `coterie worker`, or is able to."""

    def __init__(self, place: Path, link: Link, agents: Sequence[str], seats: int = 2) -> None:
        self.name = place.name
        self.link = link
        self.seats = seats
        self.worker: int | None = None
        self._ready_before = 0
        self.is_hit = False
        """Whether a temporary fault affects it."""
        self._place = place
        self._agents = agents
        self.log = place / "log"
        self.log.touch()
        words = [*link.prefix, sys.executable, "-I", "-S", str(FIRST_PROCESS)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        self._receive()
        if link.prefix:  # the program is a child of the process that created its namespaces
            pid = self._process.pid
            (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            link.join(int(child))
        else:
            link.join(self._process.pid)

    def ask(self, *words: Any) -> Any:
        """Have the first process do something; return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(words)}\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def start(self) -> None:
        """Start its worker."""
        self._ready_before = self.state_count("ready")
        words = [sys.executable, "-m", "coterie", "worker", "--json", "--name", self.name]
        words += ["--seats", str(self.seats), "--agents", ",".join(self._agents)]
        home = str(self._place / "home")
        own = {"COTERIE_HOME": home, "HOME": home, "COTERIE_STORE": self.link.url}
        env = {**os.environ, **own, "PYTHONUNBUFFERED": "1"}
        self.worker = self.ask("start", words, str(self._place / "project"), env, str(self.log))

    def restart_if_ended(self) -> None:
        """Restart a worker that ended as its store was unreachable, like a service manager."""
        if self.worker is not None and self.ask("has_ended", self.worker):
            self.start()

    def is_ready(self) -> bool:
        """Whether its worker is ready; one that ended instead is restarted."""
        self.restart_if_ended()
        return self.state_count("ready") > self._ready_before

    def state_count(self, state: str) -> int:
        """Return how often its workers have reported this state, of themselves or of a task."""
        return self.log.read_text().count(f'"state":"{state}"')

    @property
    def has_traceback(self) -> bool:
        """Whether a user would have seen a stack trace."""
        return "Traceback" in (text := self.log.read_text()) or "was destroyed" in text

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the worker alone."""
        self.ask("signal", self.worker, number)

    def kill(self) -> None:
        """Kill the worker with SIGKILL."""
        self.signal(signal.SIGKILL)
        self.ask("wait", self.worker)
        self.worker = None

    def power_off(self) -> None:
        """Make everything on it disappear at once."""
        self.link.cut()
        self.ask("end_all")
        self.worker = None

    def end(self) -> int:
        """End the worker as a user would; return its exit code."""
        self.signal(signal.SIGINT)
        worker, self.worker = self.worker, None
        return self.ask("wait", worker)

    def processes(self) -> list[str]:
        """Return the command lines of everything that runs."""
        return self.ask("processes")

    def agents_running(self) -> int:
        """Return how many agents, and daemons of agents, are running."""
        return sum("ticking_agent" in line or " -c " in line for line in self.processes())

    def close(self) -> None:
        """End everything on it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def now() -> float:
    """Return the time of the clock that agents tick by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
