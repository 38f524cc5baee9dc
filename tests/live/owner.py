"""The Coterie process of the tests that kill it: a program that uses `coterie.open_project`.

python -m tests.live.owner PROJECT URL start TEAM TURNS GOAL... | resume TASK

Tasks with several goals run at the same time.  Events are reported in JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from coterie import Caps, OpenProject, Record, Team, open_project
from coterie.model.as_json import fields_of

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


# -- test side ---------------------------------------------------------------------------------


@dataclass
class Owner:
    """A running owner process."""

    process: Process
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
        assert self.process.stdout is not None
        stream = BufferedByteReceiveStream(self.process.stdout)
        try:
            while True:
                line = await stream.receive_until(b"\n", 10_000_000)
                self._add_line(json.loads(line))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            self._add_line({"type": "end"})

    def _add_line(self, line: Line) -> None:
        self.lines.append(line)
        told, self._line_arrived = self._line_arrived, anyio.Event()
        told.set()


@asynccontextmanager
async def owner(*words: str) -> AsyncGenerator[Owner]:
    """Run an owner for the length of the block; kill it if it is still running at the end."""
    command = [sys.executable, "-m", "tests.live.owner", *words]
    with anyio.fail_after(SLOWEST):
        async with await anyio.open_process(command, cwd=ROOT, stderr=None) as process:
            held = Owner(process)
            async with anyio.create_task_group() as group:
                group.start_soon(held.listen)
                try:
                    yield held
                finally:
                    print(f"the owner said {held.lines}")
                    if process.returncode is None:
                        os.kill(process.pid, 9)
                    group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
