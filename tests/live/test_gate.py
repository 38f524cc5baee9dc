"""One gate for every CLI: what a person is asked, what not, and what the agent is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.model.interaction import Interaction
from coterie.model.record import InteractionRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.model.tool_call import AuditEntry
from coterie.rehearsal.model_api import Answer, CompletionRequest, ModelReply, ToolCall, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 90


@dataclass(frozen=True)
class Cli:
    """How to call a CLI's shell tool, and our own."""

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
class QueuedModel:
    """A model that gives the queued answers in order."""

    answers: list[Answer]

    async def answer(self, request: CompletionRequest) -> Answer:
        return self.answers.pop(0)


@dataclass
class QuestionForwarder:
    """Passes on every question."""

    questions: MemoryObjectSendStream[Interaction]

    def saw(self, record: Record) -> None:
        if isinstance(record, InteractionRecord) and record.state == "open":
            self.questions.send_nowait(record.interaction)


def set_up_team(user: IsolatedUser, cli: str) -> Team:
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {cli: {"command": str(BINS / cli)}}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    member = Member(id="ada", name="ada", display_name="Ada", agent=cli)
    return Team(name="one", members=(member,))


@dataclass
class FinishedRun:
    """A finished run: its outcome, its questions, what reached the model, and the audit."""

    status: str
    turns: int
    asked: list[Interaction]
    bodies: list[str]
    audit: list[AuditEntry]


Answers = Mapping[str, tuple[str | None, str | None]]


async def run(
    user: IsolatedUser, team: Team, script: list[Answer], answers: Answers
) -> FinishedRun:
    """Run two turns of a team; questions are answered by their content, others with `blue`."""
    send, questions = anyio.create_memory_object_stream[Interaction](10)
    asked: list[Interaction] = []
    ended: list[FinishedRun] = []

    async def answering(app: App, heard: MemoryObjectReceiveStream[Interaction]) -> None:
        async with heard:
            async for one in heard:
                asked.append(one)
                choice, text = answers.get(one.display.content, (None, "blue"))
                await app.answer(one.interaction_id, choice=choice, text=text, author="you")

    async with (
        RehearsalServer(QueuedModel(script)) as server,
        App.open(user.project, None, server.url) as app,
        anyio.create_task_group() as group,
    ):
        group.start_soon(answering, app, questions)
        caps = Caps(max_turns=2, max_rounds=None)
        task = await app.create(StartRequest(team, "Try it.", caps, rehearsal=True))
        result = await app.run(task, QuestionForwarder(send), wait=None)
        send.close()
        bodies = [json.dumps(turn.body) for turn in server.turns]
        audit = [one.entry for one in await app.storage.audit.chain()]
        ended.append(FinishedRun(result.status, result.turns, asked, bodies, audit))
    return ended[0]


@pytest.mark.parametrize("cli", list(CLIS))
async def test_one_gate(user: IsolatedUser, cli: str) -> None:
    """A rejection with a comment; then approval for the whole task, and a question by the agent."""
    team = await anyio.to_thread.run_sync(set_up_team, user, cli)
    shell, ask = CLIS[cli].shell, f"{CLIS[cli].prefix}ask_human"

    def runs(*lines: str) -> list[Answer]:
        return [ModelReply(("I try.",), (shell(line),)) for line in lines]

    script = [
        *runs("ls", "touch a.txt"),
        reply("Then not."),
        *runs("touch b.txt", "touch b.txt"),
        ModelReply((), (ToolCall(ask, {"question": "Which colour?"}),)),
        reply("Done."),
    ]
    answers = {"touch a.txt": ("reject", "take b.txt"), "touch b.txt": ("task", None)}
    with anyio.fail_after(SLOWEST):
        ran = await run(user, team, script, answers)
    assert (ran.status, ran.turns, script) == ("completed", 2, [])

    # Three questions, the same for every agent: what would be done, where, and what was said.
    assert [one.display.content or one.display.title for one in ran.asked] == [
        "touch a.txt",
        "touch b.txt",
        "Which colour?",
    ]
    first, _, own = ran.asked
    assert [option.id for option in first.options] == ["approve", "reject", "task", "rule"]
    assert first.permission is not None
    risk = first.permission
    assert (risk.tool, risk.command, risk.said) == (CLIS[cli].name, "touch a.txt", "I try.")
    assert Path(risk.cwd).resolve() == user.project.resolve()
    assert (own.kind, own.purpose, own.permission) == ("Input", "request_info", None)

    # The denied call was not made, and the model was told why; the answer reached it.
    assert sorted(path.name for path in user.project.iterdir()) == [".coterie", "b.txt"]
    # At once, or with the next message if the protocol has no field for a comment.
    told = [number for number, body in enumerate(ran.bodies) if "take b.txt" in body]
    assert told[0] == (3 if cli == "gemini" else 2)
    assert "blue" in ran.bodies[-1]

    # Everything is in the audit, including what nobody was asked about.
    begun = [one for one in ran.audit if one.kind == "ToolCallRequested"]
    ended = {one.tool_call_id: one.is_error for one in ran.audit if one.kind == "ToolCallCompleted"}
    assert [one.tool_name for one in begun] == [*[CLIS[cli].name] * 4, ask]
    assert [ended[one.tool_call_id] for one in begun] == [False, True, False, False, False]
