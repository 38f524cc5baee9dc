"""Killing tasks of the built-in agent at random instants, and checking what became of the calls.

Run as a program, it is the parent of the processes that are killed:
python -m bench.chaos.builtin URL
"""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from bench.chaos.forked import ROOT, NullObserver, Parent, kill, serve
from bench.chaos.stores import Stores
from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.errors import AnswerRefused
from coterie.model.about import ToolPermission
from coterie.model.record import QuestionView
from coterie.model.team import YOU, Member, Team
from coterie.model.tool_call import AuditEntry
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ModelReply,
    ToolCall,
    ToolResult,
    reply,
)
from coterie.rehearsal.server import RehearsalServer

UNKNOWN = "unknown"
_LATE = (
    "coterie.agents.builtin.adapter",
    "coterie.agents.builtin.model",
    "coterie.agents.builtin.providers",
    "coterie.agents.builtin.turn",
    "coterie.app.rehearsals",
    "coterie.rehearsal.stand_in",
    "coterie.tools.standard",
    "genai_prices.data",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.providers.anthropic",
    "anthropic.resources.beta",
)
"""Modules that are imported only when used."""
_EARLY = 0.2
"""Share of kills timed from the start of the process, which may hit its takeover."""
_TEAM = Team(
    name="one",
    workflow="solo",
    members=(Member(id="ann", name="ann", display_name="Ann", agent="builtin"),),
)


@dataclass
class CountingModel:
    """A model that makes `calls` calls, one after the other, judging by what it sees was done.

    It remembers nothing, as no model does: each step follows from the results before it.
    """

    calls: int

    async def answer(self, request: CompletionRequest) -> Answer:
        """Return the next call, the same again if nobody knows whether it ran, or the end."""
        results = [item for item in request.conversation if isinstance(item, ToolResult)]
        done = sum(not _is_unknown(result) for result in results)
        if done >= self.calls:
            return reply("All done.")
        return ModelReply(("Next.",), (_call(done + 1),))


def _call(number: int) -> ToolCall:
    """Return a call; two of three change something, each a file of its own that counts them."""
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
    """The results of a series of killed tasks."""

    kills: int = 0
    tasks: int = 0
    unknown: int = 0
    """Calls of which nobody knows whether they ran; at most one per kill."""
    asked_again: int = 0
    """Questions about calls that may already have run."""
    wrong: list[str] = field(default_factory=list[str])


@dataclass
class BuiltinChaos:
    """Tasks of one length, killed at random until each is done."""

    folder: Path
    calls: int = 30
    seed: int = 1
    span: float = 0.5
    """A kill comes within this many seconds, so that a task lives through several."""
    stores: Stores = field(default_factory=Stores)
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def run(
        self, kills: int, progress: Callable[[Outcome], None] = lambda _: None
    ) -> Outcome:
        """Run tasks until this many kills have happened, the last task to its end."""
        async with (
            RehearsalServer(CountingModel(self.calls)) as server,
            await anyio.open_process(
                [sys.executable, "-m", __spec__.name, server.url], cwd=ROOT, stderr=None
            ) as parent,
        ):
            while self.outcome.kills < kills:
                project = self.folder / f"task{self.outcome.tasks}"
                await anyio.to_thread.run_sync(self._create_project, project)
                before = self.outcome.kills
                await self._run_to_completion(project, Parent(parent), kills)
                await self._count(project, self.outcome.kills - before)
                progress(self.outcome)
            parent.terminate()
        return self.outcome

    def _create_project(self, project: Path) -> None:
        for name in ("user", "work"):
            (project / name).mkdir(parents=True)
        self.stores.settle(project)

    async def _run_to_completion(self, project: Path, parent: Parent, kills: int) -> None:
        """Start or resume, then kill or let it end; every question is answered with yes."""
        async with _opened(project) as app, anyio.create_task_group() as group:
            group.start_soon(_say_yes, app)
            code = None
            while code != 0:
                process = await parent.fork(project)
                async with anyio.create_task_group() as killing:
                    if self.outcome.kills < kills:
                        killing.start_soon(self._kill, process, app)
                    code = await parent.ended()
                    killing.cancel_scope.cancel()
                self.outcome.kills += code == -signal.SIGKILL
            group.cancel_scope.cancel()

    async def _kill(self, process: int, app: App) -> None:
        """Kill the process, mostly when it is at work, sometimes earlier."""
        if self._random.random() > _EARLY:
            before, seen = await _calls(app), 0
            while await _calls(app) == before:
                seen = await app.storage.changed(seen)
        await anyio.sleep(self._random.uniform(0.0, self.span))
        kill(process)

    async def _count(self, project: Path, kills: int) -> None:
        async with _opened(project) as app:
            [task] = await app.tasks()
            entries = await app.storage.audit.of_task(task.id)
            questions = await app.questions(only_open=False)
            damage = await app.storage.problems()
        self.outcome.tasks += 1
        unknown = [entry for entry in entries if _was_unknown(entry)]
        again = [question for question in questions if _may_have_run(question)]
        self.outcome.unknown += len(unknown)
        self.outcome.asked_again += len(again)
        wrong = [
            *damage,
            *_pairs(entries),
            *await anyio.to_thread.run_sync(_effects, project / "work", self.calls, entries),
        ]
        if task.status != "completed":
            wrong.append(f"it is {task.status}")
        if len(unknown) > kills:
            wrong.append(f"{len(unknown)} calls unknown after {kills} kills")
        asked = [q for q in questions if q.state == "answered"]
        changing = sum(number % 3 != 0 for number in range(1, self.calls + 1))
        if not changing <= len(asked) <= changing + len(unknown):
            wrong.append(f"{len(asked)} answers for {changing} calls, {len(unknown)} unknown")
        self.outcome.wrong += [f"{project.name}: {one}" for one in wrong]


def _opened(project: Path, url: str | None = None) -> AbstractAsyncContextManager[App]:
    return App.open(project / "work", project / "user", url)


async def _calls(app: App) -> int:
    """Return how many calls have been requested and completed so far."""
    return sum([len(await app.storage.audit.of_task(task.id)) for task in await app.tasks()])


async def _say_yes(app: App) -> None:
    seen = 0
    while True:
        for question in await app.questions():
            try:
                name = question.interaction.interaction_id
                await app.answer(name, choice="approve", text=None, author=YOU)
            except AnswerRefused:
                continue  # it was closed in the meantime
        seen = await app.storage.changed(seen)


def _may_have_run(question: QuestionView) -> bool:
    about = question.interaction.about
    return isinstance(about, ToolPermission) and about.may_have_run_at is not None


def _was_unknown(entry: AuditEntry) -> bool:
    return entry.kind == "ToolCallCompleted" and (entry.output or {}).get("outcome") == UNKNOWN


def _pairs(entries: list[AuditEntry]) -> list[str]:
    """Return the calls that were not requested once and completed once."""
    begun = [entry.tool_call_id for entry in entries if entry.kind == "ToolCallRequested"]
    ended = [entry.tool_call_id for entry in entries if entry.kind == "ToolCallCompleted"]
    return [f"{one} is there {n} times" for one in set(begun) if (n := begun.count(one)) != 1] + [
        f"{one} ended {ended.count(one)} times" for one in set(begun) if ended.count(one) != 1
    ]


def _effects(root: Path, calls: int, entries: list[AuditEntry]) -> list[str]:
    """Return the changes that are missing, or repeated with no unknown call to explain it."""
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


# -- the processes that are killed ---------------------------------------------------------------


async def _own(project: Path, url: str) -> int:
    async with _opened(project, url) as app:
        tasks = await app.tasks()
        task = tasks[0].id if tasks else None
        if task is None:
            task = await app.create(
                StartRequest(_TEAM, "Do all of it.", rehearsal=True, workflow="solo")
            )
        result = await app.run(task, NullObserver(), wait=None)
    return 0 if result.status == "completed" else 1


if __name__ == "__main__":
    serve(partial(_own, url=sys.argv[1]), *_LATE)
