"""Every adapter fulfills the contract of agents; CLIs are played by a child, step by step."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio.to_thread

from coterie.agents.acp.adapter import AcpAdapter
from coterie.agents.gemini.adapter import GeminiAdapter
from coterie.agents.generic import GenericAdapter
from coterie.agents.human import HumanAdapter
from coterie.agents.process import AgentProcess
from coterie.model.agent import AgentDefinition, Capabilities
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.process.child import Spawn
from coterie.process.streams import HIGH_WATER
from coterie.testing.contracts.agent import (
    AgentContract,
    AgentUnderTest,
    Behaviour,
)
from coterie.testing.scripted import ChildRecorder
from coterie.workspace.folder import open_workspace
from tests.contract import test_claude as claude
from tests.contract import test_codex as codex
from tests.contract.acp import timeline_agent
from tests.contract.acp.harness import MakeAdapter
from tests.contract.builtin import harness as builtin
from tests.contract.claude.harness import ClaudeHarness
from tests.contract.claude.timeline import HELLO
from tests.docs.test_docs import ROOT, files
from tests.unit.process.children import AGENT, until

Making = AbstractAsyncContextManager[AgentUnderTest]
ANN = Member(id="ann", name="ann", display_name="Ann", agent="scripted")


def own_folder(folder: Path) -> Workspace:
    return Workspace(folder, folder, folder, folder, {"PATH": os.environ["PATH"]})


async def workspace(project: Path, member: Member) -> Workspace:
    passed = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return await anyio.to_thread.run_sync(open_workspace, project, "pair", member, passed)


class TestGeneric(AgentContract):
    behaviours = frozenset({"reply", "fail", "hang"})
    acts: ClassVar[dict[Behaviour, tuple[str, ...]]] = {
        "reply": ("echo",),
        "fail": ("exit", "3"),
        "hang": ("hang",),
    }

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        told = {"completionDetection": "jsonl", "completionTypes": ["result"], **self.more()}
        agent = AgentDefinition(
            name="scripted",
            command=sys.executable,
            base_args=("-I", "-S", AGENT, *self.flags(), *self.acts[behaviour]),
            capabilities=Capabilities.model_validate(told),
        )
        yield AgentUnderTest(GenericAdapter(agent, children), ANN, own_folder(folder))

    def more(self) -> dict[str, object]:
        return {}

    def flags(self) -> tuple[str, ...]:
        return ()


class TestGenericThatStays(TestGeneric):
    def more(self) -> dict[str, object]:
        return {"persistent": True, "promptFormat": "jsonl"}

    def flags(self) -> tuple[str, ...]:
        return ("--persistent",)


class TestHuman(AgentContract):
    behaviours = frozenset({"reply"})

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        yield AgentUnderTest(HumanAdapter(), ANN, own_folder(folder))


class TestWords(AgentContract):
    """The example from the documentation."""

    behaviours = frozenset({"reply"})

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        made: dict[str, Any] = {}
        exec(files(ROOT / "docs" / "python.md")["words.py"], made)
        yield AgentUnderTest(made["Words"](), ANN, own_folder(folder))


class TestClaude(AgentContract):
    broken_off: ClassVar[list[claude.Json]] = [
        {"in": {"type": "control_request", "request": {"subtype": "interrupt"}}},
        claude.lifecycle("cancelled"),
        claude.state("idle"),
    ]
    steps: ClassVar[dict[Behaviour, list[claude.Json]]] = {
        "reply": [*claude.BEGINS, claude.assistant_text("Hello."), *claude.ENDS] * 2,
        "ask": [
            *claude.BEGINS,
            *claude.permission("r1", "Bash", command="make"),
            claude.assistant_text("Made."),
            *claude.ENDS,
        ],
        "fail": [*claude.BEGINS, {"err": "boom\n"}, {"exit": 3}],
        "hang": [*claude.BEGINS, claude.assistant_text("Well,"), *broken_off],
    }

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        (folder / "project").mkdir()
        run = ClaudeHarness(folder / "project", str(folder / "claude"), log=children)  # type: ignore[arg-type]
        player = claude.RecordedClaude(run, folder)
        player.play([*HELLO, *self.steps[behaviour]])
        member = run.member()
        made = await anyio.to_thread.run_sync(run.workspace, member)

        def answers() -> int:
            return sum(line.get("type") == "control_response" for line in player.received())

        yield AgentUnderTest(run.adapter, member, made, answers)


class TestCodex(AgentContract):
    says: codex.Row = codex.notification("item/agentMessage/delta", itemId="a", delta="Well.")
    rows: ClassVar[dict[Behaviour, list[codex.Row]]] = {
        "reply": [*codex.turn(says), *codex.turn(says)[len(codex.opening()) :]],
        "ask": codex.turn(*codex.asking(codex.COMMAND, itemId="c1", command="make", cwd="/w")),
        "fail": codex.turn(status="failed", error={"message": "boom"}),
        "hang": codex.turn(
            says, codex.asks("turn/interrupt", 2), codex.answers({}, 2), status="interrupted"
        ),
    }

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        (folder / "project").mkdir()
        harness = codex.CodexHarness(folder, children)  # type: ignore[arg-type]
        harness.play(self.rows[behaviour])
        made = await workspace(folder / "project", ANN)
        yield AgentUnderTest(harness.adapter(), ANN, made, lambda: len(harness.replies()))


class TestAcp(AgentContract):
    make: MakeAdapter = AcpAdapter
    name = "fake"
    steps: ClassVar[dict[Behaviour, list[timeline_agent.Json]]] = {
        "reply": [timeline_agent.PROMPT, timeline_agent.says("Hello."), timeline_agent.done()] * 2,
        "ask": [
            timeline_agent.PROMPT,
            timeline_agent.call("c1", title="make", rawInput={"command": "make"}),
            timeline_agent.asks(7, "c1"),
            timeline_agent.answered(7),
            timeline_agent.says("Made."),
            timeline_agent.done(),
        ],
        "fail": [timeline_agent.PROMPT, timeline_agent.broke(-32603, "boom")],
        "hang": [
            timeline_agent.PROMPT,
            timeline_agent.says("Well,"),
            {"in": {"method": "session/cancel"}},
            timeline_agent.done("cancelled"),
        ],
    }

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        harness = timeline_agent.TimelineHarness.create(folder, self.make, self.name)
        harness.log = children  # type: ignore[assignment]
        harness.play([*timeline_agent.hello(), *self.steps[behaviour]])
        made = await workspace(harness.project, harness.member())
        yield AgentUnderTest(
            harness.adapter(), harness.member(), made, lambda: len(harness.replies())
        )


class TestGemini(TestAcp):
    make = GeminiAdapter
    name = "gemini"


class TestBuiltin(AgentContract):
    replies: ClassVar[dict[Behaviour, list[Any]]] = {
        "reply": [builtin.says("Hello."), builtin.says("Again.")],
        "ask": [
            builtin.calls(builtin.call("runCommand", command="touch made")),
            builtin.says("Made."),
        ],
        "fail": [{"fault": 400}],
        "hang": [{"text": ["Well,", " so"], "fault": "stall"}],
    }

    @asynccontextmanager
    async def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AsyncGenerator[AgentUnderTest]:
        async with builtin.builtin_harness(
            folder, *self.replies[behaviour], model="openai:gpt-x"
        ) as harness:
            harness.log = children  # type: ignore[assignment]
            made = await workspace(harness.project, harness.member())
            made = Workspace(**{**vars(made), "rehearsal": harness.server.url})
            commands = lambda: len(list(harness.project.glob("made")))  # noqa: E731
            yield AgentUnderTest(harness.adapter(), harness.member(), made, commands, harness.keep)


async def test_an_agent_that_prints_without_end_between_turns_has_to_wait(tmp_path: Path) -> None:
    line, limit = json.dumps({"a": "b" * 4000}), 2 * HIGH_WATER
    spawn = Spawn("yes", (line,), str(tmp_path), dict(os.environ), "ann", str(tmp_path))
    process = await AgentProcess.open(spawn, "yes", ChildRecorder(), "auto")
    try:
        for _ in range(2):
            await until(lambda: process.child._output._paused)
            assert len(process.drop_pending()) * len(line) < limit
            assert await process.receive() == json.loads(line)
    finally:
        await process.close()
