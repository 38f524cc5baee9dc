"""`kill -9` of Coterie with the real CLIs: nothing survives, and the turn ends once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from coterie.app import App
from coterie.errors import AnswerRefused
from coterie.model.record import MessageRecord
from coterie.model.team import Member, Mode, Permissions, Team
from coterie.rehearsal.dialogue import (
    Answer,
    Asked,
    Reply,
    Said,
    Silence,
    ToolCall,
    in_pieces,
    reply,
)
from coterie.rehearsal.received import Received
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import House
from tests.live.owner import Line, Owner, owner

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
GONE_WITHIN = 5
GOAL = "Look after the garden, word KIWI."
FIRST = "The word is heliotrope."


def claude(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "try"})


def codex(command: str) -> ToolCall:
    """Outside its sandbox, which would keep it from writing elsewhere."""
    asks = {"sandbox_permissions": "require_escalated", "justification": "It is needed."}
    return ToolCall("exec_command", {"cmd": command, "yield_time_ms": 30_000, **asks})


def gemini(command: str) -> ToolCall:
    return ToolCall("run_shell_command", {"command": command, "description": "try"})


SHELLS: dict[str, Callable[[str], ToolCall]] = {"claude": claude, "codex": codex, "gemini": gemini}


NAMES = {"claude": "Bash", "codex": "shell", "gemini": "run_shell_command"}
"""What our record calls the tool."""
THREADS = {"claude": ".claude/projects", "codex": ".codex/sessions"}
LOST = "Your own history of this conversation was lost; the past is given below."
UNKNOWN = "whether it ran is unknown; look before you do it again."


@dataclass
class Script:
    """A model with answers for the time before the kill and for the time after it.

    A CLI whose owner died may ask once more before it ends (Claude, when nobody is there to
    give it leave); then it is told to do what nobody would record.
    """

    before: list[Answer]
    after: list[Answer]
    dying: Answer = Silence()
    look: Callable[[], list[str]] = list
    alive: list[list[str]] = field(default_factory=list[list[str]])
    """Who was left of the first run, at each request of the second."""

    async def answer(self, asked: Asked) -> Answer:
        if not is_resumed(asked):
            return self.before.pop(0) if self.before else self.dying
        self.alive.append(await anyio.to_thread.run_sync(self.look))
        return self.after.pop(0)


def is_resumed(asked: Asked) -> bool:
    said = (item.text for item in asked.conversation if isinstance(item, Said))
    return any("[RESUMED]" in text for text in said)


def team_of(house: House, cli: str, mode: Mode) -> str:
    """A team of one on a real CLI."""
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {cli: {"command": str(BINS / cli)}}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))
    member = Member(
        id="ada",
        name="ada",
        display_name="Ada",
        agent=cli,
        order=1,
        permissions=Permissions(mode=mode),
    )
    return Team(name="garden", members=(member,)).model_dump_json()


# -- who lives ---------------------------------------------------------------------------------


def running(task: str, token: str) -> list[str]:
    """What carries a mark of the task's first owner, or the token as an argument."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            mark = process.environ().get("COTERIE_MARK", "")
            ours = mark.startswith(f"{task}.1.") or token in words
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {shlex.join(words)[:100]}")
        except psutil.Error:
            continue
    return found


def carrying(token: str) -> list[int]:
    """The processes that have the token as an argument."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if token in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def begun(line: Line, what: str) -> bool:
    """Whether a line tells that a tool call with this in it has begun, and is on record."""
    return line["type"] == "tool_call" and what in str(line["input"])


async def until(true: Callable[[], object], seconds: float) -> float:
    """Wait for what nobody tells of; how long it took."""
    began = time.monotonic()
    while not await anyio.to_thread.run_sync(true):
        assert time.monotonic() - began < seconds, "it did not come true"
        await anyio.sleep(0.02)
    return time.monotonic() - began


@dataclass
class Scene:
    """A garden with one gardener."""

    house: House
    server: RehearsalServer
    script: Script
    cli: str
    token: str = field(default_factory=lambda: f"token-{uuid.uuid4().hex}")

    @property
    def project(self) -> Path:
        return self.house.project

    def start(self, mode: Mode, turns: int) -> AbstractAsyncContextManager[Owner]:
        team = team_of(self.house, self.cli, mode)
        words = (str(self.project), self.server.url, "start", team, GOAL, str(turns))
        return owner(*words)

    def resume(self, task: str) -> AbstractAsyncContextManager[Owner]:
        return owner(str(self.project), self.server.url, "resume", task)

    async def kill(self, held: Owner, task: str) -> None:
        """The owner dies in the middle of something, with its children alive."""
        alive = await anyio.to_thread.run_sync(running, task, self.token)
        assert alive, "its agent runs"
        self.script.look = lambda: running(task, self.token)
        os.kill(held.process.pid, signal.SIGKILL)
        assert await held.process.wait() == -signal.SIGKILL

    @property
    def resumed(self) -> list[Received]:
        """What the model was asked by the second run."""
        return [turn for turn in self.server.turns if turn.asked and is_resumed(turn.asked)]

    def check_it_ended_once(self, requests: int) -> Received:
        """Nothing was alive, nothing was asked twice; the first request after the kill."""
        assert self.script.alive == [[]] * requests
        assert (self.script.before, self.script.after) == ([], [])
        return self.resumed[0]

    async def messages(self, task: str) -> list[tuple[str, int, str]]:
        async with App.open(self.project, None, self.server.url) as app:
            records = [entry.record for entry in await app.timeline(task)]
        said = [record for record in records if isinstance(record, MessageRecord)]
        return [(record.member, record.turn, record.text) for record in said]


def told(request: Received) -> str:
    """The newest thing that the model was told, and not by its CLI."""
    assert request.asked is not None
    return request.asked.newest


def check_the_past(resumed: Received, *, lost: bool) -> None:
    """Its thread is held, or lost and then the past came from our store; never a plain re-send."""
    text, body = told(resumed), json.dumps(resumed.body)
    assert text.startswith("[RESUMED]\n"), text
    assert (LOST in text) == lost
    assert (f"[CONTEXT]\nyou: {GOAL}\n" in text) == lost
    assert body.count(GOAL) == 1


@pytest.fixture(params=list(SHELLS))
def cli(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_in_the_middle_of_a_turn(house: House, cli: str) -> None:
    long = Reply(in_pieces("one two three four five six seven eight nine ten"), breaks="stall")
    script = Script([reply(FIRST), long], [reply("All is well.")])
    async with RehearsalServer(script) as server:
        scene = Scene(house, server, script, cli)
        async with scene.start("ask", 2) as held:
            task = (await held.said(lambda line: line["type"] == "started"))["task"]
            await held.said(lambda line: line["type"] == "delta" and "one" in line["text"])
            await scene.kill(held, task)
        async with scene.resume(task) as held:
            assert (await held.result())["status"] == "completed"
        resumed = scene.check_it_ended_once(1)
        assert await scene.messages(task) == [
            ("you", 0, GOAL),
            ("ada", 1, FIRST),
            ("ada", 2, "All is well."),
        ]
        check_the_past(resumed, lost=cli == "gemini")
        assert "\nNo tool call of it is on record.\n" in told(resumed)


@pytest.mark.parametrize("keeper", ["bubblewrap", "subreaper"])
async def test_in_the_middle_of_a_command(house: House, cli: str, keeper: str) -> None:
    """Of two commands one has ended; the other began what left its session and its environment."""
    house.coterie_home.mkdir()
    (house.coterie_home / "settings.json").write_text(json.dumps({"keeper": keeper}))
    shell = SHELLS[cli]
    script = Script([reply(FIRST)], [reply("All is well.")])
    async with RehearsalServer(script) as server:
        scene = Scene(house, server, script, cli)
        os.mkfifo(scene.project / "never")
        ended = "echo once >> ended.txt"
        daemon = f"setsid sh -c 'sleep 600; :' {scene.token} >never.log 2>&1 </dev/null &"
        cut = f"echo once >> cut.txt; {daemon} env -i {daemon} cat never"
        script.before += [reply("", [shell(ended)]), reply("", [shell(cut)])]
        async with scene.start("full", 2) as held:
            task = (await held.said(lambda line: line["type"] == "started"))["task"]
            await held.said(lambda line: begun(line, "cut.txt"))
            await until(lambda: len(carrying(scene.token)) == 2, 30)
            await scene.kill(held, task)
        # Before anybody resumes.
        await until(lambda: not running(task, scene.token), GONE_WITHIN)
        async with scene.resume(task) as held:
            assert (await held.result())["status"] == "completed"
        resumed = scene.check_it_ended_once(1)
        assert [line["text"] for line in held.of("message")] == ["All is well."]
        assert await scene.messages(task) == [
            ("you", 0, GOAL),
            ("ada", 1, FIRST),
            ("ada", 2, "All is well."),
        ]
        check_the_past(resumed, lost=cli == "gemini")
        fates = told(resumed).splitlines()
        assert f"- {NAMES[cli]} {ended}: it ran to its end; do not run it again." in fates
        assert f"- {NAMES[cli]} {cut[:200]}: {UNKNOWN}" in fates
        for name in ("ended.txt", "cut.txt"):
            assert (scene.project / name).read_text() == "once\n"


async def test_with_a_question_open(house: House, cli: str) -> None:
    """In the first turn, of which Claude has nothing on disk yet; and resumed at once."""
    command = f"echo once >> {shlex.quote(str(house.home / 'asked.txt'))}"
    asking = reply("", [SHELLS[cli](command)])
    late = reply("", [SHELLS[cli](f"echo late >> {shlex.quote(str(house.home / 'late.txt'))}")])
    script = Script(
        [asking], [replace(asking, calls=(SHELLS[cli](command),)), reply("All is well.")]
    )
    script.dying = late
    async with RehearsalServer(script) as server:
        scene = Scene(house, server, script, cli)
        async with scene.start("ask", 1) as held:
            task = (await held.said(lambda line: line["type"] == "started"))["task"]
            asked = await held.said(lambda line: line["type"] == "interaction")
            assert command in str(asked["content"])
            await scene.kill(held, task)
        async with scene.resume(task) as held, App.open(house.project, None, server.url) as app:
            again = await held.said(lambda line: line["type"] == "interaction")
            assert again["id"] != asked["id"]
            assert "may already have run" not in again["title"]
            with pytest.raises(AnswerRefused, match="the turn that asked was cut"):
                await app.answer(asked["id"], choice="approve", text=None, author="you")
            assert not (house.home / "asked.txt").exists()
            await app.answer(again["id"], choice="approve", text=None, author="you")
            assert (await held.result())["status"] == "completed"
        resumed = scene.check_it_ended_once(2)
        assert await scene.messages(task) == [("you", 0, GOAL), ("ada", 1, "All is well.")]
        assert (house.home / "asked.txt").read_text() == "once\n"
        assert not (house.home / "late.txt").exists()
        assert f"- {NAMES[cli]} {command}: it was not run." in told(resumed).splitlines()
        assert told(resumed).endswith(f"[MESSAGE]\n{GOAL}")
        lost = LOST in told(resumed)
        assert lost or cli != "gemini"
        assert json.dumps(resumed.body).count(GOAL) == (1 if lost else 2)


@pytest.mark.parametrize("cli", ["claude", "codex"])
async def test_a_thread_that_is_lost_meanwhile(house: House, cli: str) -> None:
    """Gemini's is lost every time; theirs we take away."""
    script = Script([reply(FIRST)], [reply("All is well.")])
    async with RehearsalServer(script) as server:
        scene = Scene(house, server, script, cli)
        os.mkfifo(scene.project / "never")
        cut = "echo once >> cut.txt; cat never"
        script.before += [reply("", [SHELLS[cli](cut)])]
        async with scene.start("full", 2) as held:
            task = (await held.said(lambda line: line["type"] == "started"))["task"]
            await held.said(lambda line: begun(line, "cut.txt"))
            await until((scene.project / "cut.txt").exists, 30)
            await scene.kill(held, task)
        await until(lambda: not running(task, scene.token), GONE_WITHIN)
        home = scene.project / ".coterie" / "teams" / "garden" / "ada" / "home"
        shutil.rmtree(home / THREADS[cli])
        async with scene.resume(task) as held:
            assert (await held.result())["status"] == "completed"
        resumed = scene.check_it_ended_once(1)
        check_the_past(resumed, lost=True)
        assert f"- {NAMES[cli]} {cut}: {UNKNOWN}" in told(resumed).splitlines()
        assert (scene.project / "cut.txt").read_text() == "once\n"


@dataclass
class Late(Script):
    """One that has its last answer ready when the owner is dead."""

    dead: anyio.Event = field(default_factory=anyio.Event)

    async def answer(self, asked: Asked) -> Answer:
        if not is_resumed(asked) and len(self.before) == 1:
            await self.dead.wait()
        return await super().answer(asked)


async def test_an_answer_that_comes_after_the_kill(house: House, cli: str) -> None:
    """Nobody is there to record what it calls for, so it is not done."""
    call = SHELLS[cli]("echo once >> late.txt")
    script = Late([reply(FIRST), reply("", [call])], [reply("All is well.")])
    async with RehearsalServer(script) as server:
        scene = Scene(house, server, script, cli)
        async with scene.start("full", 2) as held:
            task = (await held.said(lambda line: line["type"] == "started"))["task"]
            await server.turn(2)
            await scene.kill(held, task)
            script.dead.set()
        await until(lambda: not running(task, scene.token), GONE_WITHIN)
        async with scene.resume(task) as held:
            assert (await held.result())["status"] == "completed"
        assert not (scene.project / "late.txt").exists()
        scene.check_it_ended_once(1)
