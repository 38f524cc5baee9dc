"""The built-in agent under the real engine and store: records, questions, budgets, crashes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from pydantic import Field

from coterie.agents.builtin.adapter import BuiltinAdapter
from coterie.agents.builtin.calls import AskUser, AssignSubtask
from coterie.engine import steering
from coterie.engine.channels import ChannelPool, SessionChannels
from coterie.engine.task_run import RunServices
from coterie.model.agent import AgentDefinition
from coterie.model.interaction import Question
from coterie.model.journal import Fence
from coterie.model.record import InteractionRecord, Record, ResultRecord
from coterie.model.redaction import Redactor
from coterie.model.task import ENDED, Caps, TaskCreated
from coterie.model.team import Budget, Member, Permissions, Team
from coterie.model.tool_call import Action, AuditEntry
from coterie.model.workspace import Workspace
from coterie.ports import ChildLog, Storage
from coterie.rehearsal.model_api import Answer, CompletionRequest, ToolCall, ToolResult, reply
from coterie.rehearsal.server import RehearsalServer
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import TASK, Recorder, ScriptedProject, scripted_project
from coterie.tools.sandbox import Sandbox
from coterie.tools.toolbox import Tool, Toolbox, ToolInput, ToolOutcome, Utf8Text
from coterie.tools.workspace_files import FileVersions
from coterie.workflows.chat import Solo
from coterie.workspace.folder import open_workspace
from tests.contract.acp.harness import Log

SLOWEST = 60
Calls = Sequence[tuple[str, Mapping[str, object]]]


# -- tools that count, and a model that goes by its own history --------------------------------


class CountInput(ToolInput):
    """Counts."""

    what: Utf8Text = Field(description="Anything.")


@dataclass(frozen=True)
class Count(Tool[CountInput]):
    """A tool whose runs are counted on disk, where a crash cannot undo them."""

    name: str
    read_only: bool = field()  # drops the default of Tool: `root`, which follows, has none
    root: Path

    inputs = CountInput

    def action(self, arguments: CountInput, cwd: str) -> Action:
        if self.read_only:
            return Action("read", self.name, cwd)
        return Action("run", self.name, cwd, command=f"count {arguments.what}")

    async def run(self, arguments: CountInput) -> ToolOutcome:
        await anyio.to_thread.run_sync(self._count, arguments.what)
        return ToolOutcome({"counted": arguments.what})

    def _count(self, what: str) -> None:
        with (self.root / "counted").open("a") as file:
            file.write(f"{what}\n")


class CountingAdapter(BuiltinAdapter):
    """The built-in agent with tools that cost nothing."""

    async def toolbox(
        self, member: Member, workspace: Workspace, versions: FileVersions
    ) -> Toolbox:
        root = await anyio.to_thread.run_sync(workspace.execution_dir.resolve)
        tools = (Count("look", True, root), Count("do", False, root))
        return Toolbox(root, Sandbox("bubblewrap"), (*tools, AskUser(), AssignSubtask()))


@dataclass
class Plan:
    """A responder that derives its progress from the conversation, so it may be asked twice."""

    steps: Sequence[Calls]
    asked: list[CompletionRequest] = field(default_factory=list)

    async def answer(self, request: CompletionRequest) -> Answer:
        self.asked.append(request)
        made = sum(isinstance(item, ToolCall) for item in request.conversation)
        for step in self.steps:
            if made <= 0:
                return reply("I go on.", [ToolCall(name, given) for name, given in step])
            made -= len(step)
        return reply("It is done.")

    @property
    def results(self) -> list[str]:
        """The tool results that the model had received by the end."""
        return [one.text for one in self.asked[-1].conversation if isinstance(one, ToolResult)]


def do(what: str) -> tuple[str, Mapping[str, object]]:
    return ("do", {"what": what})


def look(what: str) -> tuple[str, Mapping[str, object]]:
    return ("look", {"what": what})


# -- a project ---------------------------------------------------------------------------------


@dataclass
class BuiltinHarness:
    """A project with a task of one or two members, run by as many processes as it takes."""

    folder: Path
    server: RehearsalServer
    team: Team
    make: Callable[..., BuiltinAdapter] = CountingAdapter
    services: RunServices = field(default_factory=RunServices)
    log: Log = field(default_factory=Log)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def counted(self) -> list[str]:
        path = self.project / "counted"
        return path.read_text().split() if path.exists() else []

    async def start(self, goal: str = "do it") -> None:
        async with self.scripted_project() as it:
            await it.start(self.team, goal, Caps(max_turns=1, max_rounds=None))

    @asynccontextmanager
    async def scripted_project(
        self, storage: Storage | None = None
    ) -> AsyncGenerator[ScriptedProject]:
        async with scripted_project(self.folder, storage, more=[Solo()]) as it:
            it.engine = replace(it.engine, services=self.services)
            yield it

    async def run(self, death: CrashPoint | None = None) -> tuple[ResultRecord | None, int]:
        """Run one process; return its result (None if it died) and its number of store calls."""
        real = await SqliteStorage.open(self.folder / "coterie.db")
        crashing = CrashingStorage(real, death)
        try:
            async with self.scripted_project(crashing) as it:
                try:
                    with anyio.fail_after(SLOWEST):
                        return await self.carry_out(it, crashing), crashing.calls
                except Crashed:
                    return None, crashing.calls
        finally:
            with anyio.CancelScope(shield=True):
                await real.close()

    async def carry_out(
        self, it: ScriptedProject, storage: Storage, wait: float | None = 0.0
    ) -> ResultRecord:
        pool = ChannelPool()

        def channels(fence: Fence, task: TaskCreated) -> SessionChannels:
            return SessionChannels(
                session=task.task_id,
                pool=pool,
                children=self.log,
                adapter_of=lambda member, log: self._adapter(log, storage),
                workspace_of=self._workspace,
                folder_of=lambda member: str(self.folder / member.id),
            )

        try:
            return await it.engine.run(TASK, channels, it.recorder, wait)
        finally:
            with anyio.CancelScope(shield=True):
                await pool.close_all()

    def _adapter(self, log: ChildLog, storage: Storage) -> BuiltinAdapter:
        agent = AgentDefinition(name="builtin", command="builtin")
        return self.make(agent, log, "auto", 120.0, storage.conversation.thread, (0.0,))

    def _workspace(self, member: Member) -> Workspace:
        passed = {"PATH": os.environ["PATH"]}
        made = open_workspace(self.project, "pair", member, passed)
        return replace(made, rehearsal=self.server.url)

    async def answer(
        self, choice: str | None = "approve", text: str | None = None
    ) -> list[Question]:
        """Answer all open questions, from another process."""
        async with self.scripted_project() as it:
            found = await it.storage.inbox.questions()
            for one in found:
                typed = one.interaction.kind == "Input"
                said = ("left" if typed else None) if text is None else text
                picked = None if typed else choice
                await steering.answer(it.look, one.interaction.interaction_id, picked, said, "max")
            return found

    async def to_the_end(self, limit: int = 30) -> ResultRecord:
        """Run it and answer its questions until the task has ended."""
        for _ in range(limit):
            result, _ = await self.run()
            if result is not None and result.status in ENDED:
                return result
            await self.answer()
        raise AssertionError("it does not end")

    async def audit(self) -> list[AuditEntry]:
        async with self.scripted_project() as it:
            return await it.storage.audit.of_task(TASK)

    async def kinds(self) -> list[str]:
        """Return the kinds of the entries in the member's thread."""
        async with self.scripted_project() as it:
            threads = [turn.thread for turn in await it.storage.journal.turns(TASK)]
            kept = await it.storage.conversation.thread(str(threads[-1]))
        return [json.loads(entry)["kind"] for entry in kept]

    async def questions(self) -> list[Question]:
        async with self.scripted_project() as it:
            return await it.storage.inbox.questions(only_open=False)


def member(name: str = "ann", **more: Any) -> Member:
    return Member(id=name, name=name, display_name=name.title(), agent="builtin", **more)


@asynccontextmanager
async def builtin_harness(
    folder: Path, *steps: Calls, members: Sequence[Member] = (member(),), **team: Any
) -> AsyncGenerator[tuple[BuiltinHarness, Plan]]:
    (folder / "project").mkdir()
    plan = Plan(steps)
    async with RehearsalServer(plan) as server:
        it = BuiltinHarness(folder, server, Team(name="pair", members=tuple(members), **team))
        await it.start()
        yield it, plan


async def test_a_task_on_record(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, [look("a"), do("b")], [do("c")]) as (it, plan):
        result, _ = await it.run()
        assert result is not None
        assert (result.status, result.reason) == ("waiting", "question")
        assert it.counted == ["a"]
        (asked,) = await it.answer()
        assert asked.interaction.permission is not None
        assert (asked.interaction.permission.command, asked.interaction.permission.said) == (
            "count b",
            "I go on.",
        )
        result = await it.to_the_end()
        assert (result.status, it.counted) == ("completed", ["a", "b", "c"])
        rows = [(row.kind, row.tool_name, row.is_error) for row in await it.audit()]
        assert rows == [
            ("ToolCallRequested", "look", None),
            ("ToolCallRequested", "do", None),
            ("ToolCallCompleted", "look", False),
            ("ToolCallCompleted", "do", False),
            ("ToolCallRequested", "do", None),
            ("ToolCallCompleted", "do", False),
        ]
        assert len(await it.questions()) == 2
        assert plan.results == ["counted: a", "counted: b", "counted: c"]
        assert result.usage is not None
        assert result.usage.source == "rehearsal"


# -- crashes at any point ----------------------------------------------------------------------

FULL = (member(permissions=Permissions(mode="full")),)
DEATHS = ((False, False), (True, True))
"""Before the call took effect, losing what was queued; and after it, keeping that."""


async def check(it: BuiltinHarness, plan: Plan, result: ResultRecord, calls: Calls) -> list[str]:
    """Check that nothing is lost or doubled; return the arguments of calls with unknown outcome."""
    assert (result.status, result.reason) == ("completed", "max_turns")
    async with it.scripted_project() as at:
        assert await at.conversation() == [("you", "do it"), ("ann", "It is done.")]
    rows = await it.audit()
    requested = [row for row in rows if row.kind == "ToolCallRequested"]
    completed = {row.tool_call_id: row for row in rows if row.kind == "ToolCallCompleted"}
    assert [(row.tool_name, row.input) for row in requested] == list(calls)
    assert len(completed) == len(requested) == len(rows) / 2
    unknown: list[str] = []
    for row, told in zip(requested, plan.results, strict=True):
        what = str((row.input or {}).get("what", ""))
        output = completed[row.tool_call_id].output or {}
        if output.get("outcome") == "unknown":
            assert (row.tool_name, it.counted.count(what) <= 1) == ("do", True)
            assert told.startswith("outcome: unknown")
            unknown.append(what)
        elif row.tool_name == "do":
            assert it.counted.count(what) == 1
            assert told == f"counted: {what}"
        elif row.tool_name == "look":
            assert it.counted.count(what) >= 1
    return unknown


async def test_dying_at_every_use_of_the_store(memory_path: Path) -> None:
    steps = ([look("a"), do("b")], [do("c"), do("d")], [look("e")])
    calls = [call for step in steps for call in step]
    unknown: set[str] = set()
    plan = Plan(steps)
    async with RehearsalServer(plan) as server:
        for took_effect, queued_kept in DEATHS:
            for number in range(1, 100):
                (folder := memory_path / f"{number}-{took_effect}").mkdir()
                (folder / "project").mkdir()
                it = BuiltinHarness(folder, server, Team(name="pair", members=FULL))
                await it.start()
                ended, used = await it.run(CrashPoint(number, took_effect, queued_kept))
                if ended is not None:
                    # It has died at every store call, and each tool call makes two of them.
                    assert used == number - 1 > 2 * len(calls)
                    break
                unknown.update(await check(it, plan, await it.to_the_end(), calls))
    assert unknown == {"b", "c", "d"}


async def test_dying_between_a_yes_and_what_it_was_for(memory_path: Path) -> None:
    """A question is asked again only if nobody knows whether its answer was acted upon."""
    steps = ([do("b"), do("b")], [("askUser", {"question": "How much is left?"})])
    plan, unknown = Plan(steps), 0
    (memory_path / "project").mkdir()
    async with RehearsalServer(plan) as server:
        it = BuiltinHarness(memory_path, server, Team(name="pair", members=(member(),)))
        await it.start()
        for answered in (1, 2, 3):
            await it.run()
            await it.answer()
            (before := memory_path.parent / f"{memory_path.name}-{answered}").mkdir()
            copied(memory_path, before)
            # All crash points after the first answer; later only those where an answer matters.
            numbers, deaths = (
                (range(1, 100), DEATHS) if answered == 1 else (range(9, 100, 2), DEATHS[1:])
            )
            for number, (took_effect, queued_kept) in itertools.product(numbers, deaths):
                copied(before, memory_path)
                ended, _ = await it.run(CrashPoint(number, took_effect, queued_kept))
                result = ended if ended and ended.status in ENDED else await it.to_the_end()
                assert result.status == "completed"
                unknown += await check_questions(it, plan)
                if ended is not None:
                    break
            copied(before, memory_path)
    assert unknown >= 2


def copied(source: Path, target: Path) -> None:
    """Replace a folder with a copy of another."""
    shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True)


async def check_questions(it: BuiltinHarness, plan: Plan) -> int:
    """Check that every question was answered once; return the number of unknown calls."""
    rows = [row for row in await it.audit() if row.kind == "ToolCallCompleted"]
    unknown = [row for row in rows if (row.output or {}).get("outcome") == "unknown"]
    assert len(rows) == len(plan.results) == 3
    assert 2 - len(unknown) <= len(it.counted) <= 2
    questions = await it.questions()
    answers = [one.interaction.purpose for one in questions if one.state == "answered"]
    # However often it died, and although two questions are about the very same call.
    assert sorted(answers) == ["confirm_risky_action"] * 2 + ["request_info"]
    assert [one.interaction.purpose for one in questions].count("request_info") == 1
    assert plan.results[2] == "answer: left"
    return len(unknown)


async def test_what_is_unknown_is_asked_about_with_a_warning(memory_path: Path) -> None:
    """The call had begun when the process died; the model is told so and makes it again."""
    async with builtin_harness(memory_path, [do("b")], [do("b")]) as (it, plan):
        await it.run()
        await it.answer()
        (before := memory_path.parent / f"{memory_path.name}-before").mkdir()
        copied(memory_path, before)
        for number in range(1, 100):
            copied(before, memory_path)
            await it.run(CrashPoint(number, took_effect=True, queued_kept=True))
            if (await it.kinds())[-1:] == ["begun"]:
                break
        await it.run()
        (asked,) = [one for one in await it.questions() if one.state == "open"]
        permission = asked.interaction.permission
        assert permission is not None
        assert permission.may_have_run_at is not None
        assert [told.startswith("outcome: unknown") for told in plan.results] == [True]


# -- budgets, subtasks, steering ---------------------------------------------------------------


async def test_a_budget_refuses_the_next_call_of_the_model(tmp_path: Path) -> None:
    async with builtin_harness(
        tmp_path, [look("a")], [look("b")], members=FULL, budget=Budget(tokens=100)
    ) as (it, plan):
        result, _ = await it.run()
        assert result is not None
        assert (result.status, result.reason) == ("waiting", "question")
        assert (len(plan.asked), it.counted) == (1, [])
        # The cost is not forgotten: without an increase, a run calls no model.
        for _ in range(2):
            await it.answer(text="stop")
            result, _ = await it.run()
            assert result is not None
            assert result.status == "waiting"
        assert len(plan.asked) == 1
        assert result.usage is not None
        assert (result.usage.input_tokens or 0) > 100
        (asked,) = await it.answer(text="+1000k")
        assert "of 100" in asked.interaction.display.title
        result = await it.to_the_end()
        assert (result.status, it.counted, len(plan.asked)) == ("completed", ["a", "b"], 3)


async def test_a_part_of_the_work_is_done_by_another_member(tmp_path: Path) -> None:
    hand_out = ("assignSubtask", {"goal": "Count to three.", "member": "bob"})
    async with builtin_harness(tmp_path, [hand_out], members=(member(), member("bob"))) as (
        it,
        plan,
    ):
        await it.run()
        (asked,) = await it.answer("bob")
        assert asked.interaction.purpose == "assign_subtask"
        # Bob's own model hands it on too: to nobody, as he is alone in his task.
        result = await it.to_the_end()
        assert result.status == "completed"
        assert plan.results == ["member: bob\nreport: It is done."]
        (row,) = [row for row in await it.audit() if row.kind == "ToolCallCompleted"]
        assert row.output == {"member": "bob", "report": "It is done."}


async def test_a_secret_is_kept_out_of_the_memory_and_breaks_nothing_in_it(tmp_path: Path) -> None:
    secret = "-----BEGIN RSA PRIVATE KEY-----\nabc"
    async with builtin_harness(tmp_path, [do(secret), do("sesame-sesame")], members=FULL) as (
        it,
        plan,
    ):
        it.services = RunServices(Redactor(["sesame-sesame"]))
        await it.to_the_end()
        assert it.counted[-1] == "sesame-sesame"
        async with it.scripted_project() as at:
            (turn,) = await at.storage.journal.turns(TASK)
            kept = await at.storage.conversation.thread(str(turn.thread))
        assert "sesame-sesame" not in "".join(kept)
        assert await it.kinds() == [
            *("prompt", "reply", "begun", "result", "begun", "result", "reply"),
        ]
        assert plan.results[1] == "counted: sesame-sesame"


async def test_a_task_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    """A denial, then a stop with a question open, then the rest."""
    async with builtin_harness(tmp_path, [do("a")], [do("b"), look("c")]) as (it, plan):
        await it.run()
        await it.answer("reject", text="not this")
        result, _ = await it.run()
        assert result is not None
        assert result.status == "waiting"
        result = await it.to_the_end()
        assert (result.status, it.counted) == ("completed", ["b", "c"])
        assert plan.results == [
            "error: It was not run; permission was denied: not this",
            "counted: b",
            "counted: c",
        ]
        starts = [json.dumps(asked.conversation[0].text) for asked in plan.asked]  # type: ignore[union-attr]
        assert len(set(starts)) == 1
        assert "RESUMED" not in starts[0]


@pytest.mark.parametrize("step", [do("a"), ("askUser", {"question": "How much is left?"})])
async def test_breaking_off_takes_the_question_back(
    tmp_path: Path, step: tuple[str, Mapping[str, object]]
) -> None:
    async with builtin_harness(tmp_path, [step]) as (it, _), it.scripted_project() as at:
        watcher = Watcher()
        at.recorder = watcher
        results: list[ResultRecord] = []

        async def run() -> None:
            results.append(await it.carry_out(at, at.storage, None))

        with anyio.fail_after(SLOWEST):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await watcher.asked.wait()
                await at.storage.inbox.request(TASK, "interrupt", "max", "")
        assert [result.status for result in results] == ["completed"]
        assert await at.conversation() == [("you", "do it"), ("ann", "I go on.")]
        (question,) = await at.storage.inbox.questions(only_open=False)
        assert question.state == "closed"
        (row,) = [row for row in await it.audit() if row.kind == "ToolCallCompleted"]
        assert (row.is_error, it.counted) == (True, [])


class Watcher(Recorder):
    """Sets an event when a question is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    def saw(self, record: Record) -> None:
        super().saw(record)
        if isinstance(record, InteractionRecord):
            self.asked.set()


class UnconfinedAdapter(CountingAdapter):
    """The same, without a sandbox that confines commands."""

    async def toolbox(
        self, member: Member, workspace: Workspace, versions: FileVersions
    ) -> Toolbox:
        toolbox = await super().toolbox(member, workspace, versions)
        tools = (Count("look", True, toolbox.root), Count("do", False, toolbox.root))
        return Toolbox(toolbox.root, Sandbox("none"), tools)


async def test_a_rule_is_not_enough_where_nothing_holds_a_command(tmp_path: Path) -> None:
    allowed = (member(permissions=Permissions(allow=("run(count *)",))),)
    for make, asked in ((CountingAdapter, 0), (UnconfinedAdapter, 1)):
        (folder := tmp_path / make.__name__).mkdir()
        async with builtin_harness(folder, [do("a")], members=allowed) as (it, _):
            it.make = make
            result = await it.to_the_end()
            assert (result.status, it.counted) == ("completed", ["a"])
            questions = await it.questions()
            assert len(questions) == asked


class DoubtfulModel:
    """Writes out a call instead of making it, until told that this is not a call."""

    async def answer(self, request: CompletionRequest) -> Answer:
        told = "looks like a tool call but is not one" in request.newest
        return reply("It is done." if told else 'look(what="a")')


async def test_dying_around_what_only_looks_like_a_call(memory_path: Path) -> None:
    """Wherever it dies, the model is told, and its first reply never ends the task."""
    deaths = 0
    async with RehearsalServer(DoubtfulModel()) as server:
        for number in range(1, 100):
            (folder := memory_path / str(number)).mkdir()
            (folder / "project").mkdir()
            it = BuiltinHarness(folder, server, Team(name="pair", members=FULL))
            await it.start()
            ended, _ = await it.run(CrashPoint(number, took_effect=True, queued_kept=True))
            result = ended or await it.to_the_end()
            assert (result.status, result.summary) == ("completed", "It is done.")
            assert await it.kinds() == ["prompt", "reply", "note", "reply"]
            if ended is not None:
                break
            deaths = number
    assert deaths > 5
