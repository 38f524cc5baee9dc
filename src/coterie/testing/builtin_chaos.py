"""Killing a task of the built-in agent at random instants: which calls ran, were asked, are known.

As a program it is the process that is killed: python -m coterie.testing.builtin_chaos ROOT URL
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import Process

from coterie.app import App
from coterie.errors import AnswerRefused
from coterie.model.message import YOU
from coterie.model.record import Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.model.tool_call import AuditEntry
from coterie.rehearsal.dialogue import Answer, Asked, Reply, ToolCall, ToolResult, reply
from coterie.rehearsal.server import RehearsalServer

UNKNOWN = "unknown"
_TEAM = Team(
    name="one",
    workflow="solo",
    members=(Member(id="ann", name="ann", display_name="Ann", agent="builtin"),),
)


@dataclass
class Counting:
    """A model that has `calls` things done, one after the other, by what it sees was done.

    It remembers nothing, as no model does: each step is known from the results before it.
    """

    calls: int

    async def answer(self, asked: Asked) -> Answer:
        """The next call, the same again where nobody knows whether it ran, or the end."""
        results = [item for item in asked.conversation if isinstance(item, ToolResult)]
        done = sum(not _is_unknown(result) for result in results)
        if done >= self.calls:
            return reply("All done.")
        return Reply(("Next.",), (_call(done + 1),))


def _call(number: int) -> ToolCall:
    """Two of three change something, each in a file of its own that counts how often."""
    match number % 3:
        case 0:
            return ToolCall("listFiles", {"path": "."})
        case 1:
            return ToolCall("runCommand", {"command": f"echo ran >> ran-{number}"})
        case _:
            given = {"path": f"made-{number}", "oldStr": "", "newStr": "made\n"}
            return ToolCall("editFile", given)


def _is_unknown(result: ToolResult) -> bool:
    return UNKNOWN in result.text


@dataclass
class Outcome:
    """What a series of killed tasks came to."""

    kills: int = 0
    tasks: int = 0
    unknown: int = 0
    """Calls of which nobody knows whether they ran; at most one for each kill."""
    asked_again: int = 0
    """Questions about calls that may already have run."""
    wrong: list[str] = field(default_factory=list[str])


@dataclass
class BuiltinChaos:
    """Tasks of one length, killed at random until each is done."""

    folder: Path
    calls: int = 30
    seed: int = 1
    slowest: float = 6.0
    """How long a process may live before it is killed, at most, in seconds."""
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def run(self, kills: int, told: Callable[[Outcome], None] = lambda _: None) -> Outcome:
        """Tasks until there have been so many kills, the last one brought to its end."""
        async with RehearsalServer(Counting(self.calls)) as server:
            while self.outcome.kills < kills:
                root = self.folder / f"task{self.outcome.tasks}"
                root.mkdir()
                before = self.outcome.kills
                await self._to_its_end(root, server.url, kills)
                await self._count(root, self.outcome.kills - before)
                told(self.outcome)
        return self.outcome

    async def _to_its_end(self, root: Path, url: str, kills: int) -> None:
        """Start or resume, kill or let it end; somebody says yes to whatever is asked."""
        async with App.open(root) as app, anyio.create_task_group() as group:
            group.start_soon(_say_yes, app)
            while True:
                may_kill = self.outcome.kills < kills
                after = self._random.uniform(0.3, self.slowest) if may_kill else 300.0
                process = await anyio.open_process(
                    [sys.executable, "-m", __spec__.name, str(root), url],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=None,
                )
                if await _ended(process, after):
                    break
                self.outcome.kills += 1
            group.cancel_scope.cancel()

    async def _count(self, root: Path, kills: int) -> None:
        async with App.open(root) as app:
            [task] = await app.tasks()
            entries = await app.storage.audit.of_task(task.id)
            questions = await app.questions(only_open=False)
        self.outcome.tasks += 1
        unknown = [entry for entry in entries if _was_unknown(entry)]
        again = [q for q in questions if "may already have run" in q.interaction.display.title]
        self.outcome.unknown += len(unknown)
        self.outcome.asked_again += len(again)
        wrong = [
            *_pairs(entries),
            *await anyio.to_thread.run_sync(_effects, root, self.calls, entries),
        ]
        if task.status != "completed":
            wrong.append(f"it is {task.status}")
        if len(unknown) > kills:
            wrong.append(f"{len(unknown)} calls unknown after {kills} kills")
        asked = [q for q in questions if q.state == "answered"]
        changing = sum(number % 3 != 0 for number in range(1, self.calls + 1))
        if not changing <= len(asked) <= changing + len(unknown):
            wrong.append(f"{len(asked)} answers for {changing} calls, {len(unknown)} unknown")
        self.outcome.wrong += [f"{root.name}: {one}" for one in wrong]


async def _ended(process: Process, after: float) -> bool:
    """Whether it came to its end before it was killed."""
    async with process:
        with anyio.move_on_after(after):
            return await process.wait() == 0
        process.send_signal(signal.SIGKILL)
        await process.wait()
    return False


async def _say_yes(app: App) -> None:
    seen = 0
    while True:
        for question in await app.questions():
            try:
                name = question.interaction.interaction_id
                await app.answer(name, choice="approve", text=None, author=YOU)
            except AnswerRefused:
                continue  # it was closed meanwhile
        seen = await app.storage.changed(seen)


def _was_unknown(entry: AuditEntry) -> bool:
    return entry.kind == "ToolCallCompleted" and (entry.output or {}).get("outcome") == UNKNOWN


def _pairs(entries: list[AuditEntry]) -> list[str]:
    """Every call is asked for once and completed once."""
    begun = [entry.tool_call_id for entry in entries if entry.kind == "ToolCallRequested"]
    ended = [entry.tool_call_id for entry in entries if entry.kind == "ToolCallCompleted"]
    return [f"{one} is there {n} times" for one in set(begun) if (n := begun.count(one)) != 1] + [
        f"{one} ended {ended.count(one)} times" for one in set(begun) if ended.count(one) != 1
    ]


def _effects(root: Path, calls: int, entries: list[AuditEntry]) -> list[str]:
    """Each change happened, and more than once only where a call of it is unknown."""
    inputs = {e.tool_call_id: str(e.input) for e in entries if e.kind == "ToolCallRequested"}
    unknown = [inputs[entry.tool_call_id] for entry in entries if _was_unknown(entry)]
    wrong: list[str] = []
    for number in range(1, calls + 1):
        name = {1: f"ran-{number}", 2: f"made-{number}"}.get(number % 3)
        if name is None:
            continue
        file = root / name
        times = len(file.read_text().splitlines()) if file.exists() else 0
        doubtful = sum(name in given for given in unknown)
        if not 1 <= times <= 1 + doubtful:
            wrong.append(f"{name} happened {times} times, {doubtful} of them unknown")
    return wrong


# -- the process that is killed ----------------------------------------------------------------


class _Silent:
    def saw(self, record: Record) -> None:
        """Nobody looks."""


async def _own(root: Path, url: str) -> int:
    async with App.open(root, None, url) as app:
        tasks = await app.tasks()
        task = tasks[0].id if tasks else None
        if task is None:
            task = await app.start(_TEAM, "Do all of it.", Caps(), workflow="solo", rehearsal=True)
        result = await app.run(task, _Silent(), patience=None)
    return 0 if result.status == "completed" else 1


if __name__ == "__main__":
    sys.exit(anyio.run(_own, Path(sys.argv[1]), sys.argv[2]))
