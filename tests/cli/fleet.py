"""Several machines simulated on this one: each has a home and a clone, and all share a store."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from bench.chaos.chats import Process
from tests.cli.command import CommandResult, forked

TIMEOUT = 240.0
"""Generous, for a busy machine: these tests check the order of things, never their speed."""
_GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return its output."""
    env = os.environ | _GIT
    command = ["git", "-C", str(folder), *words]
    ran = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return ran.stdout


@dataclass
class Computer:
    """One machine."""

    name: str
    home: Path
    clone: Path
    url: str
    more: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def env(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")}
        own |= {"HOME": str(self.home), "COTERIE_STORE": self.url, "PYTHONUNBUFFERED": "1"}
        return {**own, **_GIT, **self.more}

    def start(self, *words: str) -> Process:
        """Start a command in the clone; its output goes to a file in the home."""
        command, nothing = [sys.executable, "-m", "coterie", *words], subprocess.DEVNULL
        # PYTHONPATH counts when Python starts.
        popen = subprocess.Popen if "PYTHONPATH" in self.more else forked().popen
        with (self.home / "said").open("ab") as said:
            return popen(
                command, env=self.env, stdin=nothing, stdout=said, stderr=said, cwd=self.clone
            )

    def __call__(self, *words: str) -> CommandResult:
        """Run a command in the clone to its end."""
        return CommandResult(*forked().run(words, None, self.clone, self.env, TIMEOUT))

    def rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Query the store."""
        return _connected(self.url).execute(query.encode(), values).fetchall()

    @property
    def output(self) -> str:
        return (self.home / "said").read_text() if (self.home / "said").exists() else ""

    @contextmanager
    def worker(self, *words: str) -> Iterator[Process]:
        """A worker on this machine, ready, until the block ends."""
        process = self.start("worker", "--name", self.name, *words)
        try:
            until(lambda: f"{self.name} is ready" in self.output or process.poll() is not None)
            yield process
        finally:
            process.kill()
            process.wait()


@cache
def _connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection for all queries of a test, as tests ask until something is so, and a connection
    costs the server more than many queries."""
    connection = psycopg.connect(url, autocommit=True)
    atexit.register(connection.close)
    return connection


@dataclass
class Fleet:
    """The machines of a test, and the repository that they clone."""

    folder: Path
    url: str
    lease: str = "6s"
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The commands of the agents that every machine has, by name."""
    _first: Computer | None = None

    def create(self, files: Mapping[str, str]) -> None:
        """Create the repository and, from a first clone, the store."""
        origin, first = self.folder / "origin.git", self.folder / "first"
        git(self.folder, "init", "--quiet", "--bare", "-b", "main", str(origin))
        git(self.folder, "clone", "--quiet", str(origin), str(first))
        for name, text in files.items():
            (first / name).write_text(text)
        git(first, "checkout", "--quiet", "-b", "main")
        git(first, "add", "--all")
        git(first, "commit", "--quiet", "--allow-empty", "-m", "Begin")
        git(first, "push", "--quiet", "origin", "main")
        made = self.computer("founder")("store", "init", self.url, "--lease", self.lease)
        assert made.code == 0, made.err

    def computer(self, name: str, url: str | None = None) -> Computer:
        """Add a machine with its own clone."""
        home, clone = self.folder / name / "home", self.folder / name / "shop"
        home.mkdir(parents=True)
        origin = str(self.folder / "origin.git")
        git(self.folder, "clone", "--quiet", "-b", "main", origin, str(clone))
        made, registry = Computer(name, home, clone, url or self.url), Path(".coterie/agents")
        if self._first is None:
            for agent, command in self.agents.items():
                added = made("agents", "add", agent, "--ends-with", "result", "--", *command)
                assert added.code == 0, added.err
            self._first = made
        elif self.agents:
            shutil.copytree(self._first.home / registry, home / registry)
        return made


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    late = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < late, "it did not come about"
        time.sleep(0.05)
