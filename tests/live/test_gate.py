"""One gate for every CLI: what a person is asked, what not, and what the agent hears of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from coterie.app import App
from coterie.model.interaction import Interaction
from coterie.model.record import InteractionRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.dialogue import Answer, Asked, Reply, ToolCall, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import House

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 90


@dataclass(frozen=True)
class Cli:
    """How a CLI's shell tool is called, and our own."""

    shell: Callable[[str], ToolCall]
    name: str
    prefix: str


CLIS = {
    "claude": Cli(lambda line: ToolCall("Bash", {"command": line}), "Bash", "mcp__coterie__"),
    "codex": Cli(lambda line: ToolCall("exec_command", {"cmd": line}), "shell", ""),
    "gemini": Cli(
        lambda line: ToolCall("run_shell_command", {"command": line, "description": "try"}),
        "run_shell_command",
        "discovered_tool_",
    ),
}


@dataclass
class Lines:
    """A model that says one thing after the other."""

    answers: list[Answer]

    async def answer(self, asked: Asked) -> Answer:
        return self.answers.pop(0)


@dataclass
class Told:
    """Hands on every question, and keeps the record of tool calls."""

    questions: MemoryObjectSendStream[Interaction]
    seen: list[Record] = field(default_factory=list[Record])

    def saw(self, record: Record) -> None:
        self.seen.append(record)
        if isinstance(record, InteractionRecord) and record.state == "open":
            self.questions.send_nowait(record.interaction)


def furnished(house: House, cli: str) -> Team:
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {cli: {"command": str(BINS / cli)}}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    member = Member(id="ada", name="ada", display_name="Ada", agent=cli)
    return Team(name="one", members=(member,))


@pytest.mark.parametrize("cli", list(CLIS))
async def test_one_gate(house: House, cli: str) -> None:
    """Two turns: a no with a word; then a yes for the whole task, and a question of its own."""
    team = await anyio.to_thread.run_sync(furnished, house, cli)
    shell, ask = CLIS[cli].shell, f"{CLIS[cli].prefix}ask_human"

    def runs(*lines: str) -> list[Answer]:
        return [Reply(("I try.",), (shell(line),)) for line in lines]

    script = [
        *runs("ls", "touch a.txt"),
        reply("Then not."),
        *runs("touch b.txt", "touch b.txt"),
        Reply((), (ToolCall(ask, {"question": "Which colour?"}),)),
        reply("Done."),
    ]
    send, questions = anyio.create_memory_object_stream[Interaction](10)
    asked: list[Interaction] = []
    answers = {"touch a.txt": ("reject", "take b.txt"), "touch b.txt": ("task", None)}

    async def answering(app: App, heard: MemoryObjectReceiveStream[Interaction]) -> None:
        async with heard:
            async for one in heard:
                asked.append(one)
                choice, text = answers.get(one.display.content, (None, "blue"))
                await app.answer(one.interaction_id, choice=choice, text=text, author="you")

    async with (
        RehearsalServer(Lines(script)) as server,
        App.open(house.project, None, server.url) as app,
        anyio.create_task_group() as group,
    ):
        group.start_soon(answering, app, questions)
        with anyio.fail_after(SLOWEST):
            task = await app.start(
                team, "Try it.", Caps(max_turns=2, max_rounds=None), rehearsal=True
            )
            told = Told(send)
            result = await app.run(task, told, patience=None)
        send.close()
        audit = [one.entry for one in await app.audit()]
    assert (result.status, result.turns, script) == ("completed", 2, [])

    # Three questions, the same for every agent: what would be done, where, and what was said.
    assert [one.display.content or one.display.title for one in asked] == [
        "touch a.txt",
        "touch b.txt",
        "Which colour?",
    ]
    first, risk = asked[0], asked[0].risk
    assert [option.id for option in first.options] == ["approve", "reject", "task", "rule"]
    assert risk is not None
    assert (risk.tool, risk.command, risk.said) == (CLIS[cli].name, "touch a.txt", "I try.")
    assert Path(risk.cwd).resolve() == house.project.resolve()
    assert asked[2].risk is None

    # What was denied was not done, and the model was told why; what was answered came back.
    assert sorted(path.name for path in house.project.iterdir()) == [".coterie", "b.txt"]
    bodies = [json.dumps(turn.body) for turn in server.turns]
    assert [body.count("take b.txt") > 0 for body in bodies].index(True) in (2, 3)
    assert "blue" in bodies[-1]

    # All of it is on record, also what nobody was asked about.
    begun = [one for one in audit if one.kind == "ToolCallRequested"]
    ended = {one.tool_call_id: one.is_error for one in audit if one.kind == "ToolCallCompleted"}
    assert [one.tool_name for one in begun] == [*[CLIS[cli].name] * 4, ask]
    assert [ended[one.tool_call_id] for one in begun] == [False, True, False, False, False]
