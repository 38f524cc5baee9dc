"""`kill -9` of Coterie with the real CLIs: nothing survives, and the turn ends once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from coterie import open_project
from coterie.errors import AnswerRefused
from coterie.model.record import MessageRecord
from coterie.model.team import Member, Mode, Permissions, Team
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ModelReply,
    NoReply,
    ToolCall,
    in_pieces,
    reply,
)
from coterie.rehearsal.server import RecordedRequest, RehearsalServer
from tests.conftest import IsolatedUser
from tests.live.owner import Line, Owner, owner

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
GONE_WITHIN = 5
GOAL = "Look after the garden, word KIWI."
FIRST = "The word is heliotrope."


def claude(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "try"})


def codex(command: str) -> ToolCall:
    """Run outside of its sandbox, which would keep it from writing elsewhere."""
    asks = {"sandbox_permissions": "require_escalated", "justification": "It is needed."}
    return ToolCall("exec_command", {"cmd": command, "yield_time_ms": 30_000, **asks})


def gemini(command: str) -> ToolCall:
    return ToolCall("run_shell_command", {"command": command, "description": "try"})


SHELLS: dict[str, Callable[[str], ToolCall]] = {"claude": claude, "codex": codex, "gemini": gemini}


NAMES = {"claude": "Bash", "codex": "shell", "gemini": "run_shell_command"}
"""What our audit calls the tool."""
THREADS = {"claude": ".claude/projects", "codex": ".codex/sessions"}
LOST = "Your own history of this conversation was lost; the conversation so far follows."
UNKNOWN = "whether it ran is unknown; check before repeating it."


@dataclass
class Script:
    """A model's answers to one owner and, once that is dead, to what is left of its CLI.

    A CLI whose owner died may send one more request before it exits (Claude, when it cannot get a
    permission); then it is told to do something that nobody would record.
    """

    answers: list[Answer]
    dying: Answer = NoReply()
    last: anyio.Event | None = None
    """The last answer is held back until this is set."""
    look: Callable[[], list[str]] = list
    alive: list[list[str]] = field(default_factory=list[list[str]])
    """The surviving processes of previous owners, at each request."""

    async def answer(self, request: CompletionRequest) -> Answer:
        self.alive.append(await anyio.to_thread.run_sync(self.look))
        if self.last is not None and len(self.answers) == 1:
            await self.last.wait()
        return self.answers.pop(0) if self.answers else self.dying


def team_of(user: IsolatedUser, cli: str, mode: Mode) -> str:
    """A team with one member on a real CLI."""
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
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


# -- surviving processes -----------------------------------------------------------------------


def running(task: str, owners: int, token: str) -> list[str]:
    """The processes with a mark of the task's owners so far, or with the token as an argument."""
    # The first number was used for creating the task, and nothing runs under it.
    marks = tuple(f"{task}.{number}." for number in range(2, owners + 2))
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            ours = process.environ().get("COTERIE_MARK", "").startswith(marks) or token in words
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {shlex.join(words)[:100]}")
        except psutil.Error:
            continue
    return found


def pids_with_argument(token: str) -> list[int]:
    """The processes with the token as an argument."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if token in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def begun(line: Line, what: str) -> bool:
    """Whether a line reports a started tool call with this in its input; it is on record then."""
    return line["type"] == "tool_call" and what in str(line["input"])


async def until(true: Callable[[], object], seconds: float) -> float:
    """Poll until true; return how long it took."""
    began = time.monotonic()
    while not await anyio.to_thread.run_sync(true):
        assert time.monotonic() - began < seconds, "it did not come true"
        await anyio.sleep(0.02)
    return time.monotonic() - began


@dataclass
class KillHarness:
    """A team with one member, and the owners that its task has had so far."""

    user: IsolatedUser
    cli: str
    mode: Mode
    stack: AsyncExitStack
    """Keeps the models running: what is left of a dead owner's CLI may still send requests."""
    task: str = ""
    scripts: list[Script] = field(default_factory=list[Script])
    servers: list[RehearsalServer] = field(default_factory=list[RehearsalServer])
    token: str = field(default_factory=lambda: f"token-{uuid.uuid4().hex}")

    @property
    def project(self) -> Path:
        return self.user.project

    @asynccontextmanager
    async def owned(self, script: Script, turns: int = 0) -> AsyncGenerator[Owner]:
        """An owner that starts or resumes the task, with its own model."""
        script.look = partial(running, self.task, len(self.servers), self.token)
        server = await self.stack.enter_async_context(RehearsalServer(script))
        self.scripts.append(script)
        self.servers.append(server)
        words = ["resume", self.task]
        if not self.task:
            words = ["start", team_of(self.user, self.cli, self.mode), str(turns), GOAL]
        async with owner(str(self.project), server.url, *words) as held:
            if not self.task:
                self.task = (await held.wait_for(lambda line: line["type"] == "started"))["task"]
            yield held

    def left(self) -> list[str]:
        """The processes of all owners so far that still run."""
        return running(self.task, len(self.servers), self.token)

    async def kill(self, held: Owner) -> None:
        """Kill the owner in the middle of something, while its children are alive."""
        assert await anyio.to_thread.run_sync(self.left), "its agent runs"
        os.kill(held.process.pid, signal.SIGKILL)
        assert await held.process.wait() == -signal.SIGKILL

    @property
    def resumed(self) -> RecordedRequest:
        """The first request of the newest owner to the model."""
        return self.servers[-1].turns[0]

    async def check_it_ended_once(self, requests: int, *said: str) -> None:
        """Nothing survived, nothing was asked twice, and every turn is recorded once."""
        assert [script.answers for script in self.scripts] == [[]] * len(self.scripts)
        assert [left for script in self.scripts for left in script.alive if left] == []
        assert len(self.scripts[-1].alive) == requests
        async with open_project(self.project, stand_in=self.servers[-1].url) as app:
            records = [entry.record for entry in await app.timeline(self.task)]
        messages = [record for record in records if isinstance(record, MessageRecord)]
        assert [(one.member, one.turn, one.text) for one in messages] == [
            ("you", 0, GOAL),
            *(("ada", turn, text) for turn, text in enumerate(said, 1)),
        ]

    def check_the_past(self, *, lost: bool) -> None:
        """Its thread is intact, or lost and restored from our store; never a plain re-send."""
        text, body = newest_message(self.resumed), json.dumps(self.resumed.body)
        assert text.startswith("[RESUMED]\n"), text
        assert (LOST in text) == lost
        assert (f"[CONTEXT]\nyou: {GOAL}\n" in text) == lost
        before = json.dumps(self.servers[-2].turns[-1].body).count(GOAL)
        assert body.count(GOAL) == (1 if lost else before)


def newest_message(request: RecordedRequest) -> str:
    """The newest message to the model that is not from its CLI."""
    assert request.asked is not None
    return request.asked.newest


@asynccontextmanager
async def kill_harness(user: IsolatedUser, cli: str, mode: Mode) -> AsyncGenerator[KillHarness]:
    async with AsyncExitStack() as stack:
        yield KillHarness(user, cli, mode, stack)


@pytest.fixture(params=list(SHELLS))
def cli(request: pytest.FixtureRequest) -> str:
    return request.param


# -- with a question open, and in the middle of a reply ----------------------------------------


async def killed_with_a_question_open(harness: KillHarness, command: str) -> str:
    """Kill the first turn, when Claude has nothing on disk yet; return the question's id."""
    shell = SHELLS[harness.cli]
    late = f"echo late >> {shlex.quote(str(harness.user.home / 'late.txt'))}"
    script = Script([reply("", [shell(command)])], dying=reply("", [shell(late)]))
    async with harness.owned(script, turns=2) as held:
        asked = await held.wait_for(lambda line: line["type"] == "interaction")
        assert command in str(asked["content"])
        await harness.kill(held)
    return asked["id"]


async def asked_again(harness: KillHarness, held: Owner, first: str) -> None:
    """A new question is asked at once, and the first can no longer be answered."""
    asked = harness.user.home / "asked.txt"
    async with open_project(harness.project, stand_in=harness.servers[-1].url) as app:
        again = await held.wait_for(lambda line: line["type"] == "interaction")
        assert again["id"] != first
        assert "may already have run" not in again["title"]
        with pytest.raises(AnswerRefused, match="the turn that asked was interrupted"):
            await app.answer(first, choice="approve", text=None, author="you")
        assert not asked.exists()
        await app.answer(again["id"], choice="approve", text=None, author="you")
    await held.wait_for(lambda line: line["type"] == "message")
    assert asked.read_text() == "once\n"


@pytest.mark.timeout(240)
async def test_with_a_question_open_and_in_the_middle_of_a_turn(
    user: IsolatedUser, cli: str
) -> None:
    command = f"echo once >> {shlex.quote(str(user.home / 'asked.txt'))}"
    long = ModelReply(in_pieces("one two three four five six seven eight nine ten"), breaks="stall")
    async with kill_harness(user, cli, "ask") as harness:
        first = await killed_with_a_question_open(harness, command)
        answers: list[Answer] = [reply("", [SHELLS[cli](command)]), reply(FIRST), long]
        async with harness.owned(Script(answers)) as held:
            await asked_again(harness, held, first)
            resumed = harness.resumed
            assert (
                f"- {NAMES[cli]} {command}: it was not run." in newest_message(resumed).splitlines()
            )
            assert newest_message(resumed).endswith(f"[MESSAGE]\n{GOAL}")
            lost = LOST in newest_message(resumed)
            assert lost or cli != "gemini"
            assert json.dumps(resumed.body).count(GOAL) == (1 if lost else 2)
            await held.wait_for(lambda line: line["type"] == "delta" and "one" in line["text"])
            await harness.kill(held)
        async with harness.owned(Script([reply("All is well.")])) as held:
            assert (await held.result())["status"] == "completed"
        harness.check_the_past(lost=cli == "gemini")
        assert "\nNo tool calls of this turn are recorded.\n" in newest_message(harness.resumed)
        await harness.check_it_ended_once(1, FIRST, "All is well.")
        assert (user.home / "asked.txt").read_text() == "once\n"
        assert not (user.home / "late.txt").exists()


# -- in the middle of a command, and before an answer ------------------------------------------


def held_by(user: IsolatedUser, keeper: str) -> None:
    """Set the keeper of all further owners."""
    user.coterie_home.mkdir(exist_ok=True)
    (user.coterie_home / "settings.json").write_text(json.dumps({"keeper": keeper}))


@dataclass(frozen=True)
class Commands:
    """Two commands: one finishes; the other starts processes that leave session and environment."""

    harness: KillHarness
    name: str

    @property
    def ended(self) -> str:
        return f"echo once >> {self.name}-ended.txt"

    @property
    def cut(self) -> str:
        token = self.harness.token
        daemon = f"setsid sh -c 'sleep 600; :' {token} >never.log 2>&1 </dev/null &"
        return f"echo once >> {self.name}-cut.txt; {daemon} env -i {daemon} cat never"

    @property
    def answers(self) -> list[Answer]:
        shell = SHELLS[self.harness.cli]
        return [reply("", [shell(self.ended)]), reply("", [shell(self.cut)])]

    async def kill_in_the_second(self, held: Owner) -> None:
        """Kill the owner, and wait until all processes are gone before anybody resumes."""
        harness = self.harness
        await held.wait_for(lambda line: begun(line, f"{self.name}-cut.txt"))
        await until(lambda: len(pids_with_argument(harness.token)) == 2, 30)
        await harness.kill(held)
        await until(lambda: not harness.left(), GONE_WITHIN)

    def check(self) -> None:
        """Check what the newest owner reported about the commands; each ran once."""
        harness, fates = self.harness, newest_message(self.harness.resumed).splitlines()
        tool = NAMES[harness.cli]
        assert f"- {tool} {self.ended}: it completed; do not run it again." in fates
        assert f"- {tool} {self.cut[:200]}: {UNKNOWN}" in fates
        self.check_once()

    def check_once(self) -> None:
        for name in ("ended.txt", "cut.txt"):
            assert (self.harness.project / f"{self.name}-{name}").read_text() == "once\n"


def lose_the_thread(harness: KillHarness) -> None:
    """Gemini's is always lost; the others' are deleted."""
    home = harness.project / ".coterie" / "teams" / "garden" / "ada" / "home"
    if harness.cli in THREADS:
        shutil.rmtree(home / THREADS[harness.cli])


@pytest.mark.timeout(240)
async def test_in_the_middle_of_commands_and_before_an_answer(user: IsolatedUser, cli: str) -> None:
    """Kill twice during a command, once under each keeper, losing the thread the second time.

    Then a reply arrives after the kill: nobody is there to record the calls in it, so they are not
    made.
    """
    dead = anyio.Event()
    async with kill_harness(user, cli, "full") as harness:
        os.mkfifo(harness.project / "never")
        one, two = Commands(harness, "one"), Commands(harness, "two")
        held_by(user, "bubblewrap")
        async with harness.owned(Script([reply(FIRST), *one.answers]), turns=4) as held:
            await one.kill_in_the_second(held)
        held_by(user, "subreaper")
        async with harness.owned(Script([reply("Second."), *two.answers])) as held:
            await two.kill_in_the_second(held)
            assert [line["text"] for line in held.of("message")] == ["Second."]
        harness.check_the_past(lost=cli == "gemini")
        one.check()
        await anyio.to_thread.run_sync(lose_the_thread, harness)
        late = reply("", [SHELLS[cli]("echo once >> late.txt")])
        async with harness.owned(Script([reply("Third."), late], last=dead)) as held:
            await harness.servers[-1].turn(2)
            await harness.kill(held)
            dead.set()
        harness.check_the_past(lost=True)
        two.check()
        await until(lambda: not harness.left(), GONE_WITHIN)
        async with harness.owned(Script([reply("All is well.")])) as held:
            assert (await held.result())["status"] == "completed"
            assert [line["text"] for line in held.of("message")] == ["All is well."]
        assert not (harness.project / "late.txt").exists()
        await harness.check_it_ended_once(1, FIRST, "Second.", "Third.", "All is well.")
        one.check_once()
        two.check_once()
