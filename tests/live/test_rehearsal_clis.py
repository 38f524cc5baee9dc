"""The five real CLIs, unmodified, take their turns against the rehearsal server."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from coterie.rehearsal.model_api import ModelReply, ToolCall
from coterie.rehearsal.script import Script, ScriptedResponder
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.simulation import Simulation
from tests.unit.rehearsal.setups import SETUPS, CliSetup, codex_signed_in

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"

ROLE = "You are Alice. You look at security only."
PROMPT = "Read note.txt, please."
NOTE = "the note says heliotrope\n"
DONE = "done-42\n"
SHOW = "cat note.txt done.txt"
SLOWEST = 100


@dataclass(frozen=True)
class Cli:
    """One CLI: how to run it for one turn, and how to call its own tools."""

    name: str
    args: tuple[str, ...]
    role_file: str | None
    """The path of its role file, below its home."""
    final: Callable[[list[dict[str, Any]]], str]
    """Extracts its answer from the JSON lines it printed."""
    shell: Callable[[str], ToolCall]
    env: Mapping[str, str] = field(default_factory=dict)
    shows: ToolCall | None = None
    """A tool of its own that shows what is in a file; None: its shell."""


@dataclass(frozen=True)
class CliRun:
    """The results of a run."""

    code: int
    lines: list[dict[str, Any]]
    stderr: str
    answer: str


def result_line(lines: list[dict[str, Any]]) -> str:
    return next((line.get("result", "") for line in lines if line.get("type") == "result"), "")


def last_item(lines: list[dict[str, Any]]) -> str:
    items = [line["item"] for line in lines if line.get("type") == "item.completed"]
    return next((item["text"] for item in reversed(items) if item["type"] == "agent_message"), "")


def assistant_deltas(lines: list[dict[str, Any]]) -> str:
    said = (line for line in lines if line.get("type") == "message")
    return "".join(line["content"] for line in said if line["role"] == "assistant")


def text_parts(lines: list[dict[str, Any]]) -> str:
    return "".join(line["part"]["text"] for line in lines if line.get("type") == "text")


def tool(name: str, **given: object) -> ToolCall:
    return ToolCall(name, given)


CLIS = [
    Cli(
        name="claude",
        args=(
            *("-p", "--output-format", "stream-json", "--verbose", "--setting-sources", "user"),
            *("--strict-mcp-config", "--append-system-prompt", ROLE, "--allowedTools", "Bash,Read"),
        ),
        role_file=None,
        final=result_line,
        shell=lambda command: tool("Bash", command=command, description="try"),
    ),
    Cli(
        name="codex",
        args=("exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-"),
        role_file="AGENTS.md",
        final=last_item,
        shell=lambda command: tool("exec_command", cmd=command),
    ),
    Cli(
        name="gemini",
        args=("--output-format", "stream-json", "--approval-mode", "yolo"),
        role_file=".gemini/GEMINI.md",
        final=assistant_deltas,
        shell=lambda command: tool("run_shell_command", command=command, description="try"),
        env={"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
    ),
    Cli(
        name="qwen",
        args=("--output-format", "stream-json", "--approval-mode", "yolo"),
        role_file=".qwen/QWEN.md",
        final=result_line,
        shell=lambda command: tool("run_shell_command", command=command, is_background=False),
        env={"QWEN_CODE_NO_RELAUNCH": "true"},
        # Its shell takes seconds to start; test_acp.py runs commands in it.
        shows=tool("grep_search", pattern="heliotrope|done-"),
    ),
    Cli(
        name="opencode",
        args=("run", "--format", "json"),
        role_file=".config/opencode/AGENTS.md",
        final=text_parts,
        shell=lambda command: tool("bash", command=command, description="try"),
    ),
]


@pytest.fixture(params=CLIS, ids=lambda cli: cli.name)
def cli(request: pytest.FixtureRequest) -> Cli:
    found: Cli = request.param
    if not (BINS / found.name).exists():
        pytest.skip(f"{found.name} is not installed: scripts/real-clis")
    return found


@dataclass(frozen=True)
class CliHome:
    """A separate machine for one CLI."""

    cli: Cli
    root: Path
    setup: Callable[[str], CliSetup]

    @property
    def work(self) -> Path:
        return self.root / "work"

    def prepare(self, url: str) -> dict[str, str]:
        """Write what the CLI needs in its home; return the environment."""
        setup = self.setup(url)
        home = self.root / "home"
        for folder in (home, self.work, self.root / "tmp"):
            folder.mkdir()
        if setup.config_file:
            written(home / setup.config_file, setup.config_text)
        if self.cli.role_file:
            written(home / self.cli.role_file, ROLE)
        written(self.work / "note.txt", NOTE)
        written(self.work / "done.txt", DONE)
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "HOME": str(home),
            "TMPDIR": str(self.root / "tmp"),
            "CLAUDE_CODE_TMPDIR": str(self.root / "tmp"),
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CODEX_HOME": str(home),
            **self.cli.env,
            **setup.env,
        }

    async def run(self, url: str, prompt: str, env: dict[str, str] | None = None) -> CliRun:
        """Run one turn, preparing the home unless that was done."""
        command = [str(BINS / self.cli.name), *self.setup(url).args, *self.cli.args]
        code, out, err = await finished(command, prompt, env or self.prepare(url), self.work)
        lines = list(json_lines(out))
        return CliRun(code, lines, err, self.cli.final(lines))


async def finished(
    command: list[str], given: str, env: dict[str, str], cwd: Path
) -> tuple[int, str, str]:
    """Run to the end; on timeout, kill it with everything it started."""
    said = {"out": b"", "err": b""}

    async def keep(name: str, stream: ByteReceiveStream) -> None:
        async for data in stream:
            said[name] += data

    started = await anyio.open_process(command, env=env, cwd=cwd, start_new_session=True)
    assert started.stdin
    assert started.stdout
    assert started.stderr
    async with started:
        try:
            with anyio.fail_after(SLOWEST):
                async with anyio.create_task_group() as group:
                    group.start_soon(keep, "out", started.stdout)
                    group.start_soon(keep, "err", started.stderr)
                    await started.stdin.send(given.encode())
                    await started.stdin.aclose()
                code = await started.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
    return code, said["out"].decode(), said["err"].decode()


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def json_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


@pytest.fixture
def home(cli: Cli, tmp_path: Path) -> Iterator[CliHome]:
    yield CliHome(cli, tmp_path, SETUPS[cli.name])
    shutil.rmtree(tmp_path, ignore_errors=True)


def scripted(cli: Cli, *replies: dict[str, Any]) -> ScriptedResponder:
    """The replies for this CLI in this role; any other request is refused, to be noticed."""
    when = {"client": cli.name, "message": "please"}
    rules = [{"when": when, "replies": list(replies)}]
    return ScriptedResponder(
        Script.model_validate({"rules": rules, "otherwise": "refuse"}), Simulation()
    )


def call(one: ToolCall) -> dict[str, Any]:
    return {"tools": [{"name": one.name, "input": one.input}]}


# ----------------------------------------------------------------------------------------------


async def test_a_turn_with_all_that_a_wire_carries(cli: Cli, home: CliHome) -> None:
    """A temporary rate limit, a file read by the stand-in, a scripted tool call, an answer."""
    ours = {"client": cli.name, "message": "please"}
    limit = {"fault": 429, "retryAfter": 0.1}
    rules = [
        {"when": {**ours, "request": 1}, "replies": [limit]},
        {
            "when": {**ours, "toolResult": "heliotrope"},
            "replies": [call(cli.shows or cli.shell(SHOW))],
            "then": "next",
        },
    ]
    script = Script.model_validate({"rules": rules, "otherwise": "simulate"})
    async with RehearsalServer(ScriptedResponder(script, Simulation())) as server:
        ran = await home.run(server.url, PROMPT)
    assert ran.code == 0, ran
    asked = [turn.asked for turn in server.turns if turn.asked]
    shown = ["".join(result.text for result in each.results) for each in asked]
    assert [("heliotrope" in text, "done-42" in text) for text in shown] == [
        (False, False),
        (False, False),
        (True, False),
        (True, True),
    ], shown
    # Complete, and in the role recognized from what the CLI sends along.
    last = await Simulation().answer(asked[-1])
    assert isinstance(last, ModelReply)
    assert "Alice: I am a stand-in for a model" in last.text
    assert ran.answer.strip().endswith(last.text)
    for turn in server.turns:
        assert turn.asked is not None
        assert turn.asked.newest.strip('"') == PROMPT
        assert json.dumps(turn.body).count(ROLE) == 1
        assert turn.token.reveal() == "rehearsal"
    assert {request.side_call for request in server.requests} <= {None, "title"}


# -- more Codex modes --------------------------------------------------------------------------

CODEX = next(cli for cli in CLIS if cli.name == "codex")
only_codex = pytest.mark.parametrize("cli", [CODEX], ids=["codex"], indirect=True)
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+made by a patch\n*** End Patch"


@only_codex
async def test_codex_patches(cli: Cli, home: CliHome) -> None:
    patch = {"thinking": "A new file.", "tools": [{"name": "apply_patch", "input": PATCH}]}
    async with RehearsalServer(scripted(cli, patch, {"text": "Patched."})) as server:
        ran = await home.run(server.url, "please make a file")
    assert (ran.code, ran.answer) == (0, "Patched."), ran
    assert (home.work / "new.txt").read_text() == "made by a patch\n"


@only_codex
async def test_codex_in_code_mode(cli: Cli, home: CliHome) -> None:
    home = replace(home, cli=replace(cli, args=(*cli.args[:-1], "--model", "gpt-6.1-sol", "-")))
    program = 'const r = await tools.exec_command({cmd: "cat note.txt"}); text(r.output);'
    run = {"tools": [{"name": "exec", "input": program}]}
    async with RehearsalServer(scripted(cli, run, {"text": "Seen."})) as server:
        ran = await home.run(server.url, "please read the note")
    assert (ran.code, ran.answer) == (0, "Seen."), ran
    asked = server.turns[1].asked
    assert asked is not None
    assert "heliotrope" in asked.results[0].text


@only_codex
async def test_codex_signed_in_gives_up_websocket_at_once(cli: Cli, home: CliHome) -> None:
    home = replace(home, setup=codex_signed_in)
    signed_in = json.dumps({"OPENAI_API_KEY": "sk-planted"})
    async with RehearsalServer(scripted(cli, {"text": "Fine."})) as server:
        env = home.prepare(server.url)
        written(home.root / "home" / "auth.json", signed_in)
        ran = await home.run(server.url, "please go", env)
    assert (ran.code, ran.answer) == (0, "Fine."), ran
    came = [(each.method, each.path, each.token.reveal()) for each in server.requests]
    assert came == [
        ("GET", "/v1/responses", "sk-planted"),
        ("POST", "/v1/responses", "sk-planted"),
    ]
