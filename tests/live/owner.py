"""The Coterie process of the tests that kill it: a program that uses `coterie.open_project`.

python -m tests.live.owner PROJECT URL start TEAM TURNS GOAL... | resume TASK

Tasks with several goals run at the same time.  Events are reported in JSON lines.  `owner` forks
it from a process that has imported Coterie, which is most of what a start costs.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import anyio

from coterie import Caps, OpenProject, Record, Team, open_project
from coterie.model.as_json import fields_of
from tests.cli import forked

ROOT = Path(__file__).parents[2]
SLOWEST = 60

Line = dict[str, Any]


# -- program -----------------------------------------------------------------------------------


def print_record(record: Record) -> None:
    """Print every record as a line, including deltas of replies."""
    print(json.dumps({"type": record.type, **fields_of(record)}, default=str), flush=True)


async def main(words: list[str]) -> None:
    folder, url, verb, what, *more = words
    async with open_project(folder, stand_in=url) as project:
        tasks = [what]
        if verb == "start":
            turns, *goals = more
            caps = Caps(max_turns=int(turns), max_rounds=None)
            team = Team.model_validate_json(what)
            tasks = [await project.start(team, goal, caps, rehearsal=True) for goal in goals]
            for task in tasks:
                print(json.dumps({"type": "started", "task": task}), flush=True)
        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(run, project, task)


async def run(project: OpenProject, task: str) -> None:
    async for record in project.stream(task):
        print_record(record)


# -- forking it --------------------------------------------------------------------------------

_ADAPTERS = ("claude", "codex", "gemini")


def serve(requests: socket.socket) -> None:
    """Fork an owner for each request, until the socket is closed."""
    forked._import_all()
    for name in _ADAPTERS:
        importlib.import_module(f"coterie.agents.{name}.adapter")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap waiter processes automatically
    while True:
        request, files, _, _ = socket.recv_fds(requests, forked.LONGEST, 2)
        if not request:
            return
        if os.fork() == 0:
            _fork_and_wait(json.loads(request), *files)
        for file in files:
            os.close(file)


def _fork_and_wait(request: Mapping[str, Any], output: int, status: int) -> NoReturn:
    """Report an owner's process id, then its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(status)
        _own(request, output)
    os.close(output)
    os.write(status, str(child).encode())
    _, ended = os.waitpid(child, 0)
    os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def _own(request: Mapping[str, Any], output: int) -> NoReturn:
    os.dup2(output, 1)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
    code = 1
    try:
        anyio.run(main, request["words"])
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


@cache
def _requests() -> socket.socket:
    """The socket of the process that forks, one per test worker; gone when that exits."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.live.owner", "serve", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.kill()  # an owner may still hold a copy of the socket
        process.wait()

    atexit.register(end)
    return ours


@dataclass
class OwnerProcess:
    """A forked process."""

    pid: int
    output: int
    status: socket.socket
    returncode: int | None = None

    @classmethod
    async def start(cls, words: tuple[str, ...]) -> OwnerProcess:
        output, its_output = os.pipe()
        status, its_status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"words": words, "env": dict(os.environ)}).encode()
        socket.send_fds(_requests(), [request], [its_output, its_status.fileno()])
        os.close(its_output)
        its_status.close()
        await anyio.wait_readable(status)
        return cls(int(status.recv(16)), output, status)

    async def wait(self) -> int:
        """Return its exit code."""
        if self.returncode is None:
            await anyio.wait_readable(self.status)
            self.returncode = int(self.status.recv(16))
        return self.returncode

    async def end(self) -> None:
        """Kill it if it runs, and forget it."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            await self.wait()
        self.status.close()
        os.close(self.output)


# -- test side ---------------------------------------------------------------------------------


@dataclass
class Owner:
    """A running owner process."""

    process: OwnerProcess
    lines: list[Line] = field(default_factory=list[Line])
    _line_arrived: anyio.Event = field(default_factory=anyio.Event)

    async def wait_for(self, wanted: Callable[[Line], object]) -> Line:
        """Wait for the first line that matches."""
        while True:
            found = next((line for line in self.lines if wanted(line)), None)
            if found is not None:
                return found
            assert not self.of("end"), self.lines
            await self._line_arrived.wait()

    def of(self, kind: str) -> list[Line]:
        return [line for line in self.lines if line["type"] == kind]

    async def result(self) -> Line:
        """Return the result of its run; the process is gone by then."""
        found = await self.wait_for(lambda line: line["type"] == "result")
        assert await self.process.wait() == 0
        return found

    async def listen(self) -> None:
        rest = b""
        while True:
            await anyio.wait_readable(self.process.output)
            if not (read := os.read(self.process.output, 1 << 16)):
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                self._add_line(json.loads(line))
        self._add_line({"type": "end"})

    def _add_line(self, line: Line) -> None:
        self.lines.append(line)
        told, self._line_arrived = self._line_arrived, anyio.Event()
        told.set()


@asynccontextmanager
async def owner(*words: str) -> AsyncGenerator[Owner]:
    """Run an owner for the length of the block; kill it if it is still running at the end."""
    with anyio.fail_after(SLOWEST):
        process = await OwnerProcess.start(words)
        held = Owner(process)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(held.listen)
                try:
                    yield held
                finally:
                    print(f"the owner said {held.lines}")
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await process.end()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        anyio.run(main, sys.argv[1:])
