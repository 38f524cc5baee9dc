"""A machine whose commands are forked from one process that has imported the installed program.

Starting an interpreter and importing what `coterie serve` and the built-in agent need is most of
what these commands cost.  What runs is the wheel's code in processes of their own, which are killed
like any others; test_shell.py also starts the server the way users do.

python -m tests.web.browser.forked_machine SOCKET   (in the wheel's environment)
"""

from __future__ import annotations

import atexit
import importlib
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.page.machine import ROOT, Machine
from tests.cli.forked import ForkedCommand, ForkServer, serve

TIMEOUT = 240.0
"""Seconds for a command; generous, for a busy machine."""
IMPORTED = (
    "coterie.agents.builtin.adapter",
    "coterie.cli.serve",
    "coterie.rehearsal.server",
    "coterie.web.serve",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.providers.anthropic",
    "uvicorn",
)
"""What the page's commands need in addition to what all commands need."""
_BYTECODE = ("PYTHONDONTWRITEBYTECODE",)
"""Bytecode is kept: all workers of a run share the installed program, which came without it."""


class ServerOfWheel(ForkServer):
    """Runs commands of the program that is installed beside this Python."""

    def __init__(self, python: Path) -> None:
        env = {name: value for name, value in os.environ.items() if name not in _BYTECODE}
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            [python, "-m", __name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env=env,
        )
        theirs.close()
        atexit.register(self._end)

    def start_merged(self, words: tuple[str, ...], cwd: Path, env: dict[str, str]) -> MergedOutput:
        """Start a command in the background, its errors among its output."""
        out, theirs = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        status_pipe = self._request(words, cwd, env, [nothing, theirs, theirs])
        os.close(theirs)
        return MergedOutput(status_pipe, out, nothing)


class MergedOutput(ForkedCommand):
    """A command in the background, with one stream of output."""

    @property
    def stdout(self) -> IO[str]:
        """What it prints."""
        return self.out


@dataclass(frozen=True)
class ForkedMachine(Machine):
    """A user's machine, on which commands are forked."""

    forks: ServerOfWheel

    def coterie(self, root: Path, *words: str) -> str:
        out, err, code = self.forks.run(words, None, root, self.env, TIMEOUT)
        assert code in (0, 3), f"{words}\n{out}{err}"
        return out

    def started(self, root: Path, *words: str) -> MergedOutput:
        return self.forks.start_merged(words, root, self.env)


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    found = sys.modules["coterie"].__file__
    assert found is not None
    assert Path(found).is_relative_to(sys.prefix), found
    serve(socket.socket(fileno=int(sys.argv[1])))
