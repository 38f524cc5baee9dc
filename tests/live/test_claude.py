"""Claude Code itself, through its adapter, against the rehearsal server."""

from __future__ import annotations

import json
import os
import re
import signal
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest

from coterie.agents.claude.adapter import prepare
from coterie.errors import AgentMissing
from coterie.model.interaction import Display, Response
from coterie.model.team import Mode, Permissions
from coterie.model.tool_call import Action
from coterie.model.update import (
    Activity,
    Asked,
    PendingCall,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Waiting,
)
from coterie.rehearsal.model_api import Answer, ErrorReply, ModelReply, NoReply, ToolCall, in_pieces
from coterie.rehearsal.model_api import CompletionRequest as ModelAsked
from coterie.rehearsal.server import RehearsalServer
from tests.contract.acp.harness import run_until_timeout
from tests.contract.claude.harness import (
    ROLE,
    TEAM,
    ClaudeHarness,
    answered,
    no_answer,
    reject,
    reply,
    turn,
)
from tests.contract.gate import Answering, Gate, shown, yes
from tests.contract.gate import answer as given
from tests.unit.process.children import token, until

Kind = TypeVar("Kind")

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"


def says(text: str, *calls: ToolCall, pause: float = 0.0) -> ModelReply:
    return ModelReply(in_pieces(text), calls, pause=pause)


def bash(command: str, **more: object) -> ToolCall:
    return ToolCall("Bash", {"command": command, **more})


@dataclass
class QueuedModel:
    """A model that gives the queued answers in order."""

    answers: list[Answer] = field(default_factory=list[Answer])

    async def answer(self, request: ModelAsked) -> Answer:
        return self.answers.pop(0) if self.answers else says("Nothing more to say.")


@dataclass
class ScriptedClaude:
    """Claude in a project of its own, with a scripted model."""

    harness: ClaudeHarness
    server: RehearsalServer
    model: QueuedModel
    channel: Any = None
    """The channel to the one member shared by all tests, if there is one."""

    def reset(self) -> None:
        """Clear script, server and project files for the next test."""
        self.expect()
        self.server.requests.clear()
        for path in self.harness.project.iterdir():
            if path.name != ".coterie":
                path.unlink()

    def expect(self, *answers: Answer) -> None:
        self.model.answers = list(answers)

    def gate(self, mode: Mode = "ask", person: Answering = yes, **rules: tuple[str, ...]) -> Gate:
        return Gate(Permissions(mode=mode, **rules), self.harness.project, person)

    @property
    def bodies(self) -> list[str]:
        return [json.dumps(turn.body) for turn in self.server.turns]

    @property
    def newest_result(self) -> str:
        """The newest tool result sent to the model."""
        asked = self.server.turns[-1].asked
        assert asked is not None
        return asked.results[-1].text


@asynccontextmanager
async def open_claude(root: Path) -> AsyncIterator[ScriptedClaude]:
    program = BINS / "claude"
    if not program.exists():
        pytest.skip("claude is not installed: scripts/real-clis")
    project = root / "project"
    project.mkdir()
    lines = QueuedModel()
    async with RehearsalServer(lines) as server:
        harness = ClaudeHarness(project, str(program), more={"rehearsal": server.url})
        yield ScriptedClaude(harness, server, lines)


@pytest.fixture
async def claude(tmp_path: Path) -> AsyncIterator[ScriptedClaude]:
    """A harness without an open channel."""
    async with open_claude(tmp_path) as claude:
        yield claude


@pytest.fixture(scope="module")
async def long_lived(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedClaude]:
    async with open_claude(tmp_path_factory.mktemp("claude")) as claude:
        claude.harness.more["others"] = {"rex": "speed"}
        async with claude.harness.channel() as claude.channel:
            yield claude


@pytest.fixture
def shared_claude(long_lived: ScriptedClaude) -> Iterator[ScriptedClaude]:
    """A harness with one member, shared by all tests that leave it as they found it."""
    long_lived.reset()
    yield long_lived
    assert long_lived.channel.alive


def without_displayed(updates: list[Update]) -> list[Update]:
    """The updates without those that are only displayed."""
    return [update for update in updates if not isinstance(update, Activity | TextDelta)]


def kinds(updates: list[Update]) -> list[str]:
    return [type(update).__name__ for update in without_displayed(updates)]


def failure(updates: list[Update]) -> TurnFailed:
    end = updates[-1]
    assert isinstance(end, TurnFailed), end
    return end


def some(updates: list[Update], kind: type[Kind]) -> list[Kind]:
    return [update for update in updates if isinstance(update, kind)]


def files_in(folder: Path) -> set[str]:
    """All files except ours."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith((".coterie/", ".git/"))}


# -- conversations -----------------------------------------------------------------------------


async def test_turns_and_memory(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(says("Hello, I am Ann."))
    updates = await turn(channel, "[MESSAGE]\nhi")
    end = updates[-1]
    assert isinstance(end, TurnCompleted)
    assert end.text == "Hello, I am Ann."
    deltas = [update.text for update in some(updates, TextDelta)]
    assert "".join(deltas) == end.text
    assert len(deltas) > 1
    assert end.usage is not None
    assert (end.usage.output_tokens, end.usage.cost_usd, end.usage.source) == (
        4,
        None,
        "rehearsal",
    )
    for number in range(3):
        await reply(channel, f"again {number}")
    assert [body.count("Hello, I am Ann.") for body in claude.bodies] == [0, 1, 1, 1]
    assert [(body.count(ROLE), body.count(TEAM)) for body in claude.bodies] == [(1, 1)] * 4
    assert {request.token.reveal() for request in claude.server.requests} == {"rehearsal"}
    assert files_in(claude.harness.project) == set()


async def test_a_model_of_ones_own_and_a_team_that_names_people(claude: ScriptedClaude) -> None:
    claude.harness.more["team_instruction"] = "@rex and @/etc/hostname and a@b stay words."
    async with claude.harness.channel(
        model="haiku", additionalArgs=["-c", "--effort", "low"]
    ) as line:
        await reply(line, "hi")
    [seen] = claude.server.turns
    assert "haiku" in str(seen.body["model"])
    assert r"\\@rex and \\@/etc/hostname and a@b stay words." in claude.bodies[0]


# -- tools and permissions ---------------------------------------------------------------------


async def test_a_command_that_is_approved(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    project = claude.harness.project
    claude.expect(
        says("I need a file.", bash("touch made.txt", description="make it")), says("Made.")
    )
    updates = await turn(channel, "make it")
    begun, asked, ended, end = without_displayed(updates)
    assert isinstance(begun, ToolCallStarted)
    assert (begun.name, begun.input["command"]) == ("Bash", "touch made.txt")
    assert isinstance(asked, Asked)
    assert shown(asked) == Display(title="Run a command", content="touch made.txt")
    assert asked.call == PendingCall(
        begun.call_id,
        "Bash",
        {"command": "touch made.txt", "description": "make it"},
        str(project),
        action=Action(
            "run",
            "Bash",
            str(project),
            command="touch made.txt",
            read_only_sandbox=True,
            keeps_folder=True,
        ),
        why="make it",
        said="I need a file.",
    )
    assert isinstance(ended, ToolCallFinished)
    assert (ended.call_id, ended.is_error) == (begun.call_id, False)
    assert ended.output["permission"] == {"decision": "accept", "source": "user_temporary"}
    assert isinstance(end, TurnCompleted)
    assert end.text == "I need a file.\n\nMade."
    assert "".join(update.text for update in some(updates, TextDelta)) == end.text
    assert files_in(project) == {"made.txt"}


async def test_a_command_that_is_denied(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    for answering, words in (
        (reject, "The user said no: not today"),
        (no_answer, "Nobody answered"),
    ):
        claude.expect(says("", bash("touch made.txt")), says("Then not."))
        updates = await turn(channel, "make it", answering)
        assert kinds(updates) == ["ToolCallStarted", "Asked", "ToolCallFinished", "TurnCompleted"]
        [ended] = some(updates, ToolCallFinished)
        assert ended.is_error
        assert words in str(ended.output["content"])
        assert files_in(claude.harness.project) == set()
        assert words in claude.newest_result


async def test_calls_that_nobody_is_asked_about_are_reported_too(
    shared_claude: ScriptedClaude,
) -> None:
    claude, channel = shared_claude, shared_claude.channel
    (claude.harness.project / "note.txt").write_text("heliotrope\n")
    read = ToolCall("Read", {"file_path": str(claude.harness.project / "note.txt")})
    claude.expect(
        says("", bash("ls"), read), says("", ToolCall("NoSuchTool", {"a": 1})), says("ok")
    )
    gate = claude.gate()
    updates = await turn(channel, "look", gate)
    begun = some(updates, ToolCallStarted)
    assert [call.name for call in begun] == ["Bash", "Read", "NoSuchTool"]
    assert [call.effect for call in begun] == ["run", "read", "other"]
    ends = some(updates, ToolCallFinished)
    assert [end.is_error for end in ends] == [False, False, True]
    said = " ".join(str(end.output["content"]) for end in ends)
    assert all(word in said for word in ("note.txt", "heliotrope", "No such tool")), said
    assert gate.asked == []


async def test_what_only_looks_is_held_to_that(
    shared_claude: ScriptedClaude, tmp_path: Path
) -> None:
    """Including anything a command does that cannot be told from its text."""
    claude, channel = shared_claude, shared_claude.channel
    project = claude.harness.project
    (tmp_path / "secret").write_text("heliotrope\n")
    (project / "note.txt").write_text("one\n")
    (project / "out.txt").symlink_to(tmp_path / "secret")
    (project / "-exec").write_text("")
    lines = [
        "cat *.txt | sort",  # one of them is a link to another folder
        f"jq -Rn 'input' note.txt; jq -R . --slurpfile x {tmp_path}/secret note.txt",
        "env | sort",
        "git -C . status; pwd",
        "cd .. && git status",
    ]
    claude.expect(says("", *map(bash, lines)), says("ok"))
    gate = claude.gate("read", person=reject)
    updates = await turn(channel, "look", gate)
    assert [call.input["command"] for call in some(updates, ToolCallStarted)] == lines
    [cats, jqs, envs, gits, above] = some(updates, ToolCallFinished)
    contents = [shown(asked).content for asked in gate.asked]
    assert contents == [lines[1], lines[4]]  # those that access other folders
    assert "one" in str(cats.output["content"])
    assert "No such file" in str(cats.output["content"])
    assert "heliotrope" not in str([one.output for one in (cats, jqs, envs, gits, above)])
    assert "HOME=/tmp" in str(envs.output["content"])
    assert "ANTHROPIC" not in str(envs.output["content"])


async def test_a_folder_that_is_entered_is_entered(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    below = claude.harness.project / "below"
    below.mkdir()
    lines = ["cd below && ls", "pwd", "cd .. && pwd", "cd .coterie"]
    claude.expect(*(says("", bash(line)) for line in lines), says("ok"))
    gate = claude.gate("ask", person=reject)
    updates = await turn(channel, "look", gate)
    ends = some(updates, ToolCallFinished)
    below.rmdir()
    assert [shown(asked).content for asked in gate.asked] == ["cd .coterie"]
    places = [str(end.output["content"]).strip() for end in ends[1:3]]
    assert places == [str(below), str(below.parent)]


async def test_an_edit_is_shown_as_a_diff(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    note = claude.harness.project / "note.txt"
    note.write_text("one\ntwo\n")
    change = {"file_path": str(note), "old_string": "two", "new_string": "three"}
    claude.expect(
        says("", ToolCall("Read", {"file_path": str(note)})),
        says("", ToolCall("Edit", change)),
        says("", ToolCall("Write", {"file_path": f"{note}.new", "content": "all\nnew\n"})),
        says("ok"),
    )
    gate = claude.gate()
    await turn(channel, "edit", gate)
    edit, write = gate.asked
    assert (shown(edit).title, shown(edit).content_kind) == (f"Change {note}", "Diff")
    hunk = "@@ -1,2 +1,2 @@\n one\n-two\n+three"
    assert shown(edit).content == f"--- {note}\n+++ {note}\n{hunk}"
    assert (shown(write).title, shown(write).content_kind) == (f"Change {note}.new", "Diff")
    assert shown(write).content == f"--- /dev/null\n+++ {note}.new\n@@ -0,0 +1,2 @@\n+all\n+new"
    assert note.read_text() == "one\nthree\n"


@pytest.mark.parametrize(
    ("mode", "asked", "made"),
    [
        ("read", [], set()),
        ("ask", ["Write", "Bash", "Bash"], {"a.txt", "b.txt", "c.txt"}),
        ("accept-edits", ["Bash", "Bash"], {"a.txt", "b.txt", "c.txt"}),
        ("full", [], {"a.txt", "b.txt", "c.txt"}),
    ],
)
async def test_modes(claude: ScriptedClaude, mode: Mode, asked: list[str], made: set[str]) -> None:
    """Even with everything that a person could permit Claude by flag."""
    write = ToolCall("Write", {"file_path": str(claude.harness.project / "a.txt"), "content": "x"})
    run = bash('python3 -c \'open("b.txt", "w")\'')
    claude.expect(says("", bash("ls")), says("", write), says("", run, bash("touch c.txt")))
    gate = claude.gate(mode)
    words = ["--allowedTools", "Write", "Bash(touch *)", "Bash(python3 *)"]
    permissions = {"mode": mode}
    async with claude.harness.channel(permissions=permissions, additionalArgs=words) as channel:
        updates = await turn(channel, "do it", gate)
    assert gate.names == asked
    assert files_in(claude.harness.project) == made
    assert len(some(updates, ToolCallStarted)) == len(some(updates, ToolCallFinished)) == 4
    tools = set(claude.server.turns[0].asked.tools)  # type: ignore[union-attr]
    assert ("Write" in tools) == (mode != "read")
    assert tools & {"CronCreate", "ScheduleWakeup", "EnterWorktree"} == set()


async def test_rules(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    (claude.harness.project / "secret.txt").write_text("sesame\n")
    read = ToolCall("Read", {"file_path": str(claude.harness.project / "secret.txt")})
    claude.expect(says("", bash("touch a.txt"), bash("rm a.txt"), read), says("ok"))
    gate = claude.gate(allow=("run(touch *)", "run(rm *)"), deny=("run(rm *)", "read(secret.txt)"))
    updates = await turn(channel, "do it", gate)
    assert gate.asked == []
    assert [end.is_error for end in some(updates, ToolCallFinished)] == [False, True, True]
    assert files_in(claude.harness.project) == {"a.txt", "secret.txt"}
    assert "not permitted here: deny run(rm *)" in claude.bodies[-1]
    assert "sesame" not in claude.bodies[-1]


async def test_a_helper_of_claudes_is_asked_about_too(claude: ScriptedClaude) -> None:
    """Also about a helper in the background, after the turn seems to have ended."""

    helper = {"description": "help", "prompt": "HELPER: do it", "run_in_background": True}
    calls = [bash("touch helped.txt")]

    async def answer(request: ModelAsked) -> Answer:
        if "HELPER" in request.newest:
            return says("", calls.pop()) if calls else says("I could not.")
        first = len(claude.server.turns) == 1
        call = ToolCall("Agent", {**helper, "subagent_type": "general-purpose"})
        return says("", call) if first else says("ok")

    claude.model.answer = answer
    gate = claude.gate(person=lambda asked: given("reject", "not today"))
    async with claude.harness.channel() as channel:
        updates = await turn(channel, "get help", gate)
    assert [shown(one).content for one in gate.asked] == ["touch helped.txt"]
    assert [call.name for call in some(updates, ToolCallStarted)] == ["Agent", "Bash"]
    assert [end.is_error for end in some(updates, ToolCallFinished)] == [False, True]
    assert files_in(claude.harness.project) == set()


# -- tools of Coterie --------------------------------------------------------------------------


async def test_asking_the_human_and_handing_over(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    ask, hand = "mcp__coterie__ask_human", "mcp__coterie__hand_over"
    claude.expect(
        says("", ToolCall(ask, {"question": "Which colour?", "options": ["Red", "Blue"]})),
        says("", ToolCall(hand, {"to": "rex", "message": "Your turn."})),
        says("Done."),
    )
    gate = claude.gate(person=lambda asked: given("blue", "like the sea"))
    updates = await turn(channel, "ask me", gate)
    assert [(one.kind, shown(one).title) for one in gate.asked] == [("Select", "Which colour?")]
    assert set(claude.server.turns[0].asked.tools) >= {ask, hand}  # type: ignore[union-attr]
    results = [turn.asked.results[-1].text for turn in claude.server.turns[1:] if turn.asked]
    assert results == ["Blue (like the sea)", "ok, your turn ends here"]
    begun, ends = some(updates, ToolCallStarted), some(updates, ToolCallFinished)
    assert [(call.name, call.effect) for call in begun] == [(ask, "read"), (hand, "read")]
    assert [end.is_error for end in ends] == [False, False]
    assert isinstance(updates[-1], TurnCompleted)
    assert updates[-1].text == "Done.\n\nYour turn.\n\n[NEXT: rex]"


# -- questions ---------------------------------------------------------------------------------

DATABASE = {
    "question": "Which database?",
    "header": "DB",
    "multiSelect": False,
    "options": [
        {"label": "SQLite", "description": "one file"},
        {"label": "Postgres", "description": "a server"},
    ],
}
COLOURS = {
    "question": "Which colours?",
    "header": "Colours",
    "multiSelect": True,
    "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
}


async def test_questions_to_the_user(claude: ScriptedClaude) -> None:
    claude.expect(
        says("", ToolCall("AskUserQuestion", {"questions": [DATABASE, COLOURS]})), says("ok")
    )

    def answering(asked: Asked) -> Response:
        if asked.kind == "Select":
            return answered(asked, "sqlite", comment="it is enough")
        return answered(asked, said="Red, Blue")

    async with claude.harness.channel(permissions={"mode": "full"}) as channel:
        updates = await turn(channel, "ask me", answering)
    which, colours = some(updates, Asked)
    assert (which.kind, shown(which).title, which.call) == ("Select", "Which database?", None)
    assert [option.id for option in which.options] == ["sqlite", "postgres"]
    assert shown(which).content == "SQLite: one file\nPostgres: a server"
    assert (colours.kind, shown(colours).title) == ("Input", "Which colours?")
    assert 'Which database?\\"=\\"SQLite (it is enough)' in claude.bodies[-1]
    assert 'Which colours?\\"=\\"Red, Blue' in claude.bodies[-1]


async def test_a_question_that_nobody_answers(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(says("", ToolCall("AskUserQuestion", {"questions": [DATABASE]})), says("ok"))
    assert await reply(channel, "ask me", no_answer) == "ok"
    assert "Nobody answered" in claude.newest_result


async def test_a_plan_is_approved(claude: ScriptedClaude) -> None:
    async def answer(request: ModelAsked) -> Answer:
        number = len(claude.server.turns)
        if number == 1:
            return says("", ToolCall("EnterPlanMode", {}))
        if number == 2:
            [file] = set(re.findall(r"[^\s\"'`]+/plans/[\w.-]+\.md", str(request)))
            return says("", ToolCall("Write", {"file_path": file, "content": "1. water them\n"}))
        return says("", ToolCall("ExitPlanMode", {})) if number == 3 else says("Planned.")

    claude.model.answer = answer
    async with claude.harness.channel() as channel:
        updates = await turn(channel, "plan")
    asked = some(updates, Asked)[-1]
    assert (asked.kind, asked.purpose) == ("Confirm", "choose_strategy")
    assert (shown(asked).title, shown(asked).content) == ("Approve a plan", "1. water them\n")
    assert kinds(updates)[-1] == "TurnCompleted"


# -- interrupting ------------------------------------------------------------------------------


async def test_interrupts(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(says("one two three four five six seven eight nine ten", pause=0.2))

    def speaking(update: Update) -> object:
        return channel.interrupt() if isinstance(update, TextDelta) else None

    end = (await turn(channel, "count", then=speaking))[-1]
    assert isinstance(end, TurnInterrupted)
    assert end.text.startswith("one")
    assert "ten" not in end.text

    claude.expect(says("Now.", bash("touch late.txt")))

    def running(update: Update) -> object:
        return channel.interrupt() if isinstance(update, Asked) else None

    updates = await turn(channel, "sleep", then=running)
    assert updates[-1] == TurnInterrupted("Now.")
    [ended] = some(updates, ToolCallFinished)
    assert ended.is_error

    claude.expect(NoReply())
    async with anyio.create_task_group() as group:

        async def interrupt() -> None:
            await claude.server.turn(3)
            await channel.interrupt()

        group.start_soon(interrupt)
        assert (await turn(channel, "hang"))[-1] == TurnInterrupted("")

    claude.expect(says("Still here."))
    assert await reply(channel, "are you there?") == "Still here."
    await channel.interrupt()  # between turns it has no effect
    assert await reply(channel, "and now?") == "Nothing more to say."
    assert files_in(claude.harness.project) == set()


async def test_an_interrupt_in_the_middle_of_a_command(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    project = claude.harness.project
    claude.expect(says("", bash("touch begun; sleep 60; touch late")))
    async with anyio.create_task_group() as group:

        async def interrupt() -> None:
            await until((project / "begun").exists, 30)
            await channel.interrupt()

        group.start_soon(interrupt)
        updates = await turn(channel, "sleep")
        assert updates[-1] == TurnInterrupted("")
        assert kinds(updates)[-2] == "ToolCallFinished"
        assert await reply(channel, "go on") == "Nothing more to say."
    assert files_in(project) == {"begun"}


# -- in the background -------------------------------------------------------------------------


async def test_a_turn_goes_on_until_its_background_is_done(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(
        says("", bash("sleep 1; echo done", run_in_background=True)),
        says("Started it."),
        says("It has ended."),
    )
    updates = await turn(channel, "start it")
    end = updates[-1]
    assert isinstance(end, TurnCompleted)
    assert end.text == "Started it.\n\nIt has ended."
    assert some(updates, Waiting) == [Waiting("command", "sleep 1; echo done")]
    assert end.usage is not None
    assert end.usage.output_tokens is not None
    claude.expect(says("Next."))
    assert await reply(channel, "and now?") == "Next."


async def test_a_server_in_the_background_is_not_waited_for_forever(
    claude: ScriptedClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.claude.channel.BACKGROUND", 0.2)
    word = token()
    serve = bash(f"sleep 600 # {word}", run_in_background=True)
    claude.expect(says("", serve), says("It runs."), says("Next."))
    async with claude.harness.channel() as channel:
        assert await reply(channel, "serve") == "It runs."
        assert await reply(channel, "and now?") == "Next."
    assert len(claude.server.turns) == 3


async def test_an_interrupt_stops_what_runs_in_the_background(
    shared_claude: ScriptedClaude,
) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(says("", bash("sleep 600", run_in_background=True)), says("It runs."))

    def waiting(update: Update) -> object:
        return channel.interrupt() if isinstance(update, Waiting) else None

    assert (await turn(channel, "serve", then=waiting))[-1] == TurnInterrupted("It runs.")
    claude.expect(says("Next."))
    assert await reply(channel, "and now?") == "Next."


# -- threads -----------------------------------------------------------------------------------


async def test_a_thread_is_taken_up_after_a_kill(claude: ScriptedClaude) -> None:
    claude.expect(says("The word is heliotrope."))
    channel = await claude.harness.open()
    await reply(channel, "remember it")
    claude.expect(says("one two three four five six seven eight nine ten", pause=0.2))

    def kill(update: Update) -> None:
        if isinstance(update, TextDelta) and channel.alive:
            os.kill(channel._process.child.agent_pid, signal.SIGKILL)

    failed = failure(await turn(channel, "and now?", then=kill))
    assert (failed.kind, failed.exit_code, channel.alive) == ("exit", 137, False)
    await channel.close()
    async with claude.harness.channel(
        channel.thread, systemInstruction="You are another."
    ) as again:
        assert again.thread == channel.thread
        claude.expect(says("Heliotrope."))
        assert await reply(again, "what was the word?") == "Heliotrope."
    body = claude.bodies[-1]
    assert [body.count(word) for word in ("The word is heliotrope.", TEAM, ROLE)] == [1, 1, 0]
    assert body.count("You are another.") == 1


async def test_a_thread_that_is_lost_and_a_model_that_hangs(claude: ScriptedClaude) -> None:
    lost = str(uuid.uuid4())
    async with claude.harness.channel(lost) as channel:
        assert channel.thread not in (None, lost)
        assert await reply(channel, "hi") == "Nothing more to say."
        claude.expect(NoReply())
        await run_until_timeout(claude.server, turn(channel, "hi"))


# -- when the model fails ----------------------------------------------------------------------


async def test_a_rate_limit_is_waited_out(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(ErrorReply(429, "slow down", retry_after=0.1), says("Now."))
    updates = await turn(channel, "hi")
    assert some(updates, Waiting) == [Waiting("model", "429, retry 1 of 10")]
    assert isinstance(updates[-1], TurnCompleted)


@pytest.fixture(scope="module")
async def retrying_once(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedClaude]:
    """A harness whose one member retries once only."""
    async with open_claude(tmp_path_factory.mktemp("hasty")) as claude:
        claude.harness.more["env"] = {"CLAUDE_CODE_MAX_RETRIES": "1"}
        async with claude.harness.channel() as claude.channel:
            yield claude


@pytest.mark.parametrize(
    ("status", "kind", "retry", "words"),
    [
        (429, "rate_limit", True, "the model's rate limit is reached (429)"),
        (500, "model", True, "the model service is failing (500)"),
        (529, "model", True, "the model service is failing (529)"),
        (400, "model", False, "the model service refused the request (400)"),
        (403, "model", False, "the account has no access to this model (403)"),
        (404, "model", False, "the model is unknown, or not available to this account (404)"),
    ],
)
async def test_failures(
    retrying_once: ScriptedClaude, status: int, kind: str, retry: bool, words: str
) -> None:
    failed = await failing(retrying_once, status)
    assert (failed.kind, failed.retry) == (kind, retry)
    assert failed.message.startswith(words)
    assert (failed.hint is None) == (status == 400)


async def test_a_login_that_is_refused(shared_claude: ScriptedClaude) -> None:
    failed = await failing(shared_claude, 401)
    assert (failed.kind, failed.retry) == ("signed_out", False)
    assert failed.message.startswith("the key or login given to claude was rejected (401)")
    assert failed.hint is not None


async def failing(claude: ScriptedClaude, status: int) -> TurnFailed:
    """Return how a turn fails while the model refuses; check that the next one is unaffected."""
    claude.expect(*[ErrorReply(status, "vendor words", retry_after=0.1)] * 9)
    failed = failure(await turn(claude.channel, "hi"))
    claude.expect(says("Better."))
    assert await reply(claude.channel, "and now?") == "Better."
    return failed


async def test_a_refusal(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(*[ModelReply((), stop="refusal")] * 2)
    failed = failure(await turn(channel, "hi"))
    assert (failed.kind, failed.retry) == ("refused", False)


async def test_a_stream_that_is_cut_is_sent_again(shared_claude: ScriptedClaude) -> None:
    claude, channel = shared_claude, shared_claude.channel
    claude.expect(ModelReply(in_pieces("one two three four"), breaks="cut"), says("All of it."))
    updates = await turn(channel, "hi")
    end = updates[-1]
    assert isinstance(end, TurnCompleted)
    assert end.text == "All of it."


# -- signing in --------------------------------------------------------------------------------


async def test_signed_out(claude: ScriptedClaude, tmp_path: Path) -> None:
    written(claude.harness.project / ".claude" / "settings.json", '{"apiKeyHelper": "echo key"}')
    claude.harness.more = {
        "user_home": tmp_path / "nobody",
        "env": {"ANTHROPIC_BASE_URL": claude.server.url},
    }
    async with claude.harness.channel() as channel:
        assert (channel.pid, channel.thread) == (None, None)
        [failed] = await turn(channel, "hi")
    assert failed == TurnFailed(
        "signed_out",
        "claude is not signed in",
        retry=False,
        hint="In another terminal: claude auth login (it serves every claude member). "
        "Then try again.",
    )
    # A member that has spoken before is not checked again: Claude itself reports it then.
    async with claude.harness.channel(str(uuid.uuid4())) as channel:
        failed = failure(await turn(channel, "hi"))
    assert (failed.kind, failed.retry) == ("signed_out", False)
    assert failed.message.startswith("claude is not signed in. It says:")
    assert claude.server.turns == []


@pytest.mark.parametrize("given", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
async def test_a_key_serves(claude: ScriptedClaude, tmp_path: Path, given: str) -> None:
    env = {"ANTHROPIC_BASE_URL": claude.server.url, given: "sk-given"}
    claude.harness.more = {"user_home": tmp_path / "nobody", "env": env}
    async with claude.harness.channel() as channel:
        await reply(channel, "hi")
    assert [seen.token.reveal() for seen in claude.server.turns] == ["sk-given"]


@pytest.mark.parametrize("way", ["subscription", "console"])
async def test_signing_in_once_serves_all(claude: ScriptedClaude, tmp_path: Path, way: str) -> None:
    secret = f"sk-ant-oat01-{uuid.uuid4().hex}"
    home = tmp_path / "user"
    credentials = {
        "accessToken": secret,
        "refreshToken": "refresh",
        "expiresAt": 4_102_444_800_000,
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    if way == "subscription":
        kept = home / ".claude" / ".credentials.json"
        written(kept, json.dumps({"claudeAiOauth": credentials}))
    else:
        kept = home / ".claude.json"
        written(kept, json.dumps({"primaryApiKey": secret}))
    claude.harness.more = {"user_home": home, "env": {"ANTHROPIC_BASE_URL": claude.server.url}}
    for name in ("ann", "bob"):
        async with claude.harness.channel(id=name) as channel:
            await reply(channel, "hi")
    assert [turn.token.reveal() == secret for turn in claude.server.turns] == [True] * 2
    ours = [path for path in claude.harness.project.rglob("*") if path.is_file()]
    assert [path for path in ours if secret in path.read_text(errors="replace")] == []
    assert [path for path in home.rglob("*") if path.is_file()] == [kept]


# -- a hostile repository ----------------------------------------------------------------------


def plant(project: Path, canaries: Path) -> None:
    """Everything by which a repository can have something of its own run or read."""
    canaries.mkdir()

    def runs(name: str) -> dict[str, object]:
        return {"type": "command", "command": f"touch {canaries / name}"}

    for name in ("settings.json", "settings.local.json"):
        events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
        hooks = {event: [{"matcher": "", "hooks": [runs(f"{name}-{event}")]}] for event in events}
        helper = f"touch {canaries / name}-helper; echo key"
        allowed = {"allow": ["Bash", "Write"]}
        settings = {"hooks": hooks, "apiKeyHelper": helper, "permissions": allowed}
        written(project / ".claude" / name, json.dumps(settings))
    server = {"command": "touch", "args": [str(canaries / "server")]}
    written(project / ".mcp.json", json.dumps({"mcpServers": {"evil": server}}))
    about = "---\nname: evil\ndescription: HOSTILE text\n---\nHOSTILE"
    for name in ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude/rules/evil.md"):
        written(project / name, f"HOSTILE words of {name}\n")
    for name in ("agents/evil.md", "commands/evil.md", "skills/evil/SKILL.md"):
        written(project / ".claude" / name, about)
    written(project / "sub" / "CLAUDE.md", "HOSTILE below\n")
    written(project / "sub" / "note.txt", "heliotrope\n")


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_hostile_repository_runs_nothing(claude: ScriptedClaude, tmp_path: Path) -> None:
    project, canaries = claude.harness.project, tmp_path / "canaries"
    plant(project, canaries)
    read = ToolCall("Read", {"file_path": str(project / "sub" / "note.txt")})

    # The bare program with its defaults triggers nearly all of it.
    claude.expect(says("", read), says("ok"))
    bare = dict(await anyio.to_thread.run_sync(prepared, claude.harness))
    command = [claude.harness.command, "-p", "--output-format=stream-json", "--verbose", "look"]
    await anyio.run_process(command, cwd=project, env=bare)
    fired = {path.name for path in canaries.iterdir()}
    assert {"server", "settings.json-SessionStart", "settings.local.json-PreToolUse"} <= fired
    assert "HOSTILE" in claude.bodies[0]
    for path in canaries.iterdir():
        path.unlink()
    before = len(claude.bodies)

    claude.expect(says("", read), says("", bash("touch owned.txt")), says("ok"))
    gate = claude.gate(person=reject)
    async with claude.harness.channel() as channel:
        await turn(channel, "look", gate)
    assert list(canaries.iterdir()) == []
    assert [body for body in claude.bodies[before:] if "HOSTILE" in body] == []
    assert [shown(one).content for one in gate.asked] == ["touch owned.txt"]
    assert not (project / "owned.txt").exists()

    claude.harness.more["trusted"] = True
    async with claude.harness.channel() as channel:
        await reply(channel, "look")
    assert list(canaries.iterdir()) == []
    assert claude.bodies[-1].count("HOSTILE") == 1
    assert "HOSTILE words of CLAUDE.md" in claude.bodies[-1]


def prepared(harness: ClaudeHarness) -> Mapping[str, str]:
    member = harness.member()
    return prepare(member, harness.workspace(member))


# -- starting ----------------------------------------------------------------------------------


async def test_a_program_that_is_not_there_or_does_not_start(claude: ScriptedClaude) -> None:
    for command, words in (
        ("no-such-claude", "no-such-claude"),
        (claude.harness.command, "unknown option '--no-such-flag'"),
    ):
        claude.harness.command = command
        with pytest.raises(AgentMissing) as caught:
            await claude.harness.open(additionalArgs=["--no-such-flag"])
        assert words in str(caught.value)
        assert claude.harness.log.running == {}
