"""A turn of the real CLIs: through Coterie, directly on the same long-lived CLI, and respawned.

All three use one rehearsal server whose model answers at once, in blocks that alternate within one
run, so that each sees the same machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.agents.claude import adapter as claude_home
from coterie.agents.claude.adapter import arguments as claude_arguments
from coterie.agents.codex import home as codex_home
from coterie.agents.gemini import home as gemini_home
from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.config.project import passthrough
from coterie.model.agent import AgentDefinition
from coterie.model.record import MessageRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.model.workspace import Workspace
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from coterie.rehearsal.server import RehearsalServer
from coterie.workspace.folder import open_workspace

ROOT = Path(__file__).parents[1]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
BLOCKS, TURNS = 3, 10
LIMIT = 64 * 1024 * 1024


class Prompt:
    """A model that answers at once."""

    async def answer(self, request: CompletionRequest) -> Answer:
        """Return the same reply every time."""
        return reply("Yes.")


@dataclass
class Timing:
    """When each message was stored."""

    at: list[float] = field(default_factory=list[float])

    def saw(self, record: Record) -> None:
        """Note the time of each message."""
        if isinstance(record, MessageRecord):
            self.at.append(time.perf_counter())

    @property
    def turns(self) -> list[float]:
        """How long each turn took, except the first, in which the CLI starts."""
        return [later - earlier for earlier, later in zip(self.at, self.at[1:], strict=False)]


@dataclass(frozen=True)
class BenchMember:
    """One member of one CLI, in a project of its own."""

    folder: Path
    kind: str
    url: str

    @property
    def member(self) -> Member:
        """The member."""
        return Member(id="m", name="m", display_name="M", agent=self.kind, order=1)

    @property
    def command(self) -> str:
        """The CLI's program."""
        return str(BINS / self.kind)

    def workspace(self) -> Workspace:
        """Create the member's folder as Coterie does."""
        made = open_workspace(self.folder, "bench", self.member, passthrough())
        return Workspace(**{**vars(made), "rehearsal": self.url})

    async def through_coterie(self) -> list[float]:
        """Run a chat of one member."""
        home = self.folder / "user"
        (home / "agents").mkdir(parents=True, exist_ok=True)
        registry = {"schemaVersion": "1.2", "agents": {self.kind: {"command": self.command}}}
        (home / "agents" / "config.json").write_text(json.dumps(registry))
        timing = Timing()
        async with App.open(self.folder, home, self.url) as app:
            caps = Caps(max_turns=TURNS + 1, max_rounds=None)
            team = Team(name="bench", members=(self.member,))
            task = await app.create(StartRequest(team, "Say yes.", caps, rehearsal=True))
            await app.run(task, timing, wait=0)
        return timing.turns


# -- without Coterie ---------------------------------------------------------------------------


@asynccontextmanager
async def _process(
    words: list[str], cwd: Path, env: Mapping[str, str]
) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LIMIT,
    )
    try:
        yield process
    finally:
        # Closing its input ends each CLI, and what its launcher started with it.
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _send(process: asyncio.subprocess.Process, message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")


async def _until(process: asyncio.subprocess.Process, wanted: Callable[[Any], bool]) -> Any:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        message = json.loads(line) if line.startswith(b"{") else {}
        if wanted(message):
            return message
    raise RuntimeError("the CLI ended")


async def _timed(turn: Callable[[], Awaitable[object]]) -> list[float]:
    await turn()
    times: list[float] = []
    for _ in range(TURNS):
        began = time.perf_counter()
        await turn()
        times.append(time.perf_counter() - began)
    return times


async def bare_claude(place: BenchMember) -> list[float]:
    """Use one process, with JSON lines both ways."""
    workspace = place.workspace()
    env = claude_home.prepare(place.member, workspace)
    agent = AgentDefinition(name="claude", command=place.command)
    choice = f"--session-id={uuid.uuid4()}"
    chosen = claude_arguments(agent, place.member, choice)
    # Coterie itself serves its own MCP server: here nobody would answer for it.
    words = [place.command, *(word for word in chosen if not word.startswith("--mcp-config"))]
    async with _process(words, workspace.execution_dir, env) as process:

        async def turn() -> object:
            content = {"role": "user", "content": "Say yes."}
            _send(process, {"type": "user", "uuid": str(uuid.uuid4()), "message": content})
            return await _until(process, lambda message: message.get("type") == "result")

        hello = {"subtype": "initialize", "hooks": None}
        _send(process, {"type": "control_request", "request_id": "r", "request": hello})
        await _until(process, lambda message: message.get("type") == "control_response")
        return await _timed(turn)


async def respawned_claude(place: BenchMember) -> list[float]:
    """Start a process per turn, on one thread."""
    workspace = place.workspace()
    env = claude_home.prepare(place.member, workspace)
    thread = str(uuid.uuid4())
    shape = ["-p", "--output-format=stream-json", "--verbose", "--setting-sources=user"]
    choices = iter([f"--session-id={thread}"])

    async def turn() -> object:
        choice = next(choices, f"--resume={thread}")
        words = [place.command, *shape, "--strict-mcp-config", choice]
        return await _one_shot(words, workspace.execution_dir, env)

    return await _timed(turn)


async def bare_codex(place: BenchMember) -> list[float]:
    """Use one app-server and one thread."""
    workspace = place.workspace()
    home = codex_home.prepare(place.member, workspace)
    async with _process([place.command, "app-server"], home.cwd, home.env) as process:
        client = {"clientInfo": {"name": "bench", "title": "bench", "version": "1"}}
        _send(process, {"id": 1, "method": "initialize", "params": client})
        await _until(process, lambda message: message.get("id") == 1)
        _send(process, {"method": "initialized"})
        _send(process, {"id": 2, "method": "thread/start", "params": {"cwd": str(home.cwd)}})
        opened = await _until(process, lambda message: message.get("id") == 2)
        thread = opened["result"]["thread"]["id"]

        async def turn() -> object:
            content = [{"type": "text", "text": "Say yes."}]
            params = {"threadId": thread, "input": content}
            _send(process, {"id": 3, "method": "turn/start", "params": params})
            return await _until(process, lambda m: m.get("method") == "turn/completed")

        return await _timed(turn)


async def respawned_codex(place: BenchMember) -> list[float]:
    """Start `codex exec` per turn, on one thread."""
    workspace = place.workspace()
    home = codex_home.prepare(place.member, workspace)
    words = [place.command, "exec", "--json", "--skip-git-repo-check"]
    threads: list[str] = []

    async def turn() -> object:
        again = ["resume", threads[0]] if threads else []
        out = await _one_shot([*words, *again, "-"], home.cwd, home.env)
        if not threads:
            first = json.loads(out.splitlines()[0])
            threads.append(first["thread_id"])
        return out

    return await _timed(turn)


async def bare_gemini(place: BenchMember) -> list[float]:
    """Use one process, through the Agent Client Protocol."""
    home = gemini_home.prepare(place.member, place.workspace())
    words = [place.command, "--acp", *(home.args or ("--model", "gemini-2.5-pro"))]
    async with _process(words, home.cwd, home.env) as process:

        async def called(number: int, method: str, params: Mapping[str, Any]) -> Any:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            _send(process, message)
            return (await _until(process, lambda m: m.get("id") == number))["result"]

        await called(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        opened = await called(2, "session/new", {"cwd": str(home.cwd), "mcpServers": []})

        async def turn() -> object:
            content = [{"type": "text", "text": "Say yes."}]
            return await called(
                3, "session/prompt", {"sessionId": opened["sessionId"], "prompt": content}
            )

        return await _timed(turn)


async def respawned_gemini(place: BenchMember) -> list[float]:
    """Start a headless process per turn, in one session."""
    home = gemini_home.prepare(place.member, place.workspace())
    env = {**home.env, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    words = [place.command, *(home.args or ("--model", "gemini-2.5-pro")), "-o", "stream-json"]
    thread = str(uuid.uuid4())
    choices = iter([["--session-id", thread]])

    async def turn() -> object:
        choice = next(choices, ["--resume", thread])
        return await _one_shot([*words, *choice], home.cwd, env)

    return await _timed(turn)


async def _one_shot(words: list[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    out, _ = await process.communicate(b"Say yes.\n")
    if process.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}: {out[-500:]!r}")
    return out


Way = Callable[[BenchMember], Awaitable[list[float]]]
WAYS: Mapping[str, tuple[Way, Way]] = {
    "claude": (bare_claude, respawned_claude),
    "codex": (bare_codex, respawned_codex),
    "gemini": (bare_gemini, respawned_gemini),
}
LEAST_FASTER = {"claude": 5.0, "codex": 4.0, "gemini": 5.0}


@dataclass(frozen=True)
class Medians:
    """Seconds per turn."""

    coterie: float
    bare: float
    respawned: float


async def measure(kind: str, folder: Path) -> Medians:
    """Measure thirty turns each way, in alternating blocks."""
    bare, respawned = WAYS[kind]
    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    async with RehearsalServer(Prompt()) as server:
        for block in range(BLOCKS):
            for number in range(3):
                place = BenchMember(folder / f"{kind}-{block}-{number}", kind, server.url)
                place.folder.mkdir()
                way = (BenchMember.through_coterie, bare, respawned)[number]
                times[number].extend(await way(place))
    return Medians(*(statistics.median(each) for each in times))
