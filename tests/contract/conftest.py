"""Start real processes on a store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("storage_child.py")


class Child:
    """One process of `storage_child.py`."""

    def __init__(self, before: tuple[str, ...], *arguments: object) -> None:
        command = [*before, sys.executable, str(PROGRAM), *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read(self) -> dict[str, Any]:
        """Read the next line it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._rest()[1]
        return json.loads(line)

    def send(self, word: str) -> None:
        """Let it continue with this input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def go(self) -> None:
        """Let it continue by closing its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self) -> list[dict[str, Any]]:
        """Wait for a successful exit and return the remaining output."""
        out, err = self._rest()
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def kill(self) -> list[dict[str, Any]]:
        """Kill it and return the remaining output, without a truncated line."""
        self.process.kill()
        out, _ = self._rest()
        return [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]

    def _rest(self) -> tuple[str, str]:
        # Not communicate(): it would lose what readline() has read ahead.
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        rest = self.process.stdout.read(), self.process.stderr.read()
        self.process.wait(timeout=60)
        return rest


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Start a process on a store; it is gone when the test ends."""
    started: list[Child] = []

    def start(*arguments: object, before: tuple[str, ...] = ()) -> Child:
        started.append(Child(before, *arguments))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()
        for pipe in (each.process.stdin, each.process.stdout, each.process.stderr):
            if pipe is not None:
                pipe.close()
