"""What a tool call of the built-in agent costs, compared with a bare loop of commits.

The model is in this process and answers at once: the cost of a vendor's library is not ours.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

from bench.bare import TEXT, Cost, interleaved
from coterie.agents.builtin.conversation import ModelInput, Reply, ToolCallRequest
from coterie.agents.builtin.services import TurnServices
from coterie.agents.builtin.thread import BuiltinThread
from coterie.agents.builtin.turn import BuiltinChannel
from coterie.model import instant
from coterie.model.team import Member
from coterie.model.update import Activity, TextDelta
from coterie.model.workspace import Workspace
from coterie.ports import Channel
from coterie.testing.scripted import ChildRecorder, ScriptedChannels, scripted_project, team
from coterie.tools.standard import open_toolbox
from coterie.tools.workspace_files import FileVersions

CALLS = 50


def bare_loop(folder: Path, calls: int) -> Cost:
    """Commit a request and a completion for every call."""
    path = folder / "bare.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, kind TEXT, data TEXT, at TEXT)")
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(calls):
        for kind, data in (("requested", {"path": f"{number}.txt"}), ("completed", {"text": TEXT})):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO calls (kind, data, at) VALUES (?, ?, ?)",
                (kind, json.dumps(data), instant.now()),
            )
            connection.execute("COMMIT")
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    connection.close()
    return Cost(cpu / calls * 1e6, wall / calls * 1e6, path.stat().st_size)


@dataclass
class Reader:
    """A model that reads one file after the other."""

    calls: int
    made: int = 0

    async def reply(self, model_input: ModelInput) -> AsyncGenerator[TextDelta | Activity | Reply]:
        """Yield the next call, or the end."""
        self.made += 1
        if self.made > self.calls:
            yield Reply("All read.")
        else:
            request = ToolCallRequest("readFile", {"path": f"{self.made}.txt"})
            yield Reply("", (request,))

    async def close(self) -> None:
        """Do nothing: nothing is open."""


@dataclass
class OneChannel(ScriptedChannels):
    """Provides a channel that was created elsewhere."""

    channel_to_model: BuiltinChannel | None = None
    folder_of_work: str = ""
    opened_by: list[str] = field(default_factory=list[str])

    async def channel(self, member: Member, thread: str | None) -> Channel:
        """Return that channel."""
        assert self.channel_to_model is not None
        return self.channel_to_model

    def work_folder(self, member: Member) -> str:
        """Return where the files are."""
        return self.folder_of_work


def task(folder: Path, calls: int) -> Cost:
    """Run a durable task of this many tool calls."""
    return asyncio.run(_task(folder, calls))


async def _task(folder: Path, calls: int) -> Cost:
    work = folder / "work"
    for place in (work, folder / "home", folder / "tmp"):
        place.mkdir()
    for number in range(1, calls + 1):
        (work / f"{number}.txt").write_text(TEXT)
    workspace = Workspace(folder, folder / "home", folder / "tmp", work)
    toolbox = await open_toolbox("ann", workspace, ChildRecorder(), (), FileVersions())
    services = TurnServices(model=Reader(calls), toolbox=toolbox, system="Read.", summing_up="")
    channels = OneChannel(lambda *_: "", folder_of_work=str(work))
    channels.channel_to_model = BuiltinChannel(services, BuiltinThread("thread", []))
    async with scripted_project(folder) as it:
        await it.start(team("ann"))
        cpu, wall = time.process_time(), time.perf_counter()
        result = await it.run(channels)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        entries = await it.storage.audit.all()
    assert (result.status, len(entries)) == ("completed", 2 * calls), (result, len(entries))
    return Cost(cpu / calls * 1e6, wall / calls * 1e6, (folder / "coterie.db").stat().st_size)


def compare() -> tuple[Cost, Cost]:
    """Measure the bare loop and the task."""
    return interleaved(bare_loop, task, CALLS)
