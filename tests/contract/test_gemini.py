"""The Gemini adapter on recordings of the real program, played by a real child process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from coterie.agents.acp.calls import action_of
from coterie.agents.acp.channel import AcpChannel
from coterie.agents.gemini import FACTS
from coterie.agents.gemini.adapter import GeminiAdapter, OneShotChannel
from coterie.agents.gemini.calls import GeminiCall
from coterie.errors import AgentMissing
from coterie.model.conversation import Limits
from coterie.model.tool_call import Action
from coterie.model.update import (
    Activity,
    Asked,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Usage,
)
from tests.contract.acp.harness import Log, TurnUpdates, response, take_turn
from tests.contract.acp.timeline_agent import (
    NOISE,
    Json,
    TimelineHarness,
    recorded_steps,
    text_block,
)
from tests.contract.gate import shown

NO_PROTOCOL: list[Json] = [{"err": "Unknown argument: acp\nUsage: gemini\n"}, {"exit": 1}]


@pytest.fixture
def harness(tmp_path: Path) -> TimelineHarness:
    return TimelineHarness.create(tmp_path, GeminiAdapter, "gemini")


def reported_updates(taken: TurnUpdates) -> list[Any]:
    """All updates except signs of life and questions."""
    return [update for update in taken.updates if not isinstance(update, Activity | Asked)]


def test_limits(harness: TimelineHarness) -> None:
    adapter = harness.adapter()
    assert adapter.limits(harness.member()) == Limits(30 * 60, 120)
    assert adapter.limits(harness.member(quiet_after_ms=5000, timeout_ms=9000)) == Limits(9, 5)


def test_arguments_that_are_the_adapters_own() -> None:
    given = ("--yolo", "-p", "x", "--output-format=json", "--debug", "-r", "latest", "--skip-trust")
    assert FACTS.flags.passed_on((*given, "--include-directories", "../lib")) == (
        "--debug",
        "--include-directories",
        "../lib",
    )


async def test_talking(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/talk"))
    member = harness.member(model="gemini-2.5-pro", additional_args=("--debug",))
    async with harness.open(member) as channel:
        assert isinstance(channel, AcpChannel)
        assert channel.thread == "9253dac9-0281-4ea2-84d2-869b74d5cfad"
        assert reported_updates(await take_turn(channel, "one")) == snapshot(
            [
                TextDelta(text="one "),
                TextDelta(text="two "),
                TextDelta(text="three "),
                TextDelta(text="four"),
                TurnCompleted(
                    text="one two three four",
                    usage=Usage(input_tokens=12318, output_tokens=20, source="gemini"),
                ),
            ]
        )
        assert reported_updates(await take_turn(channel, "two")) == snapshot(
            [
                TextDelta(text="after thinking"),
                TurnCompleted(
                    text="after thinking",
                    usage=Usage(input_tokens=12347, output_tokens=21, source="gemini"),
                ),
            ]
        )
    assert harness.arguments() == ["--acp", "--model", "gemini-2.5-pro", "--debug"]
    first, new, *prompts = harness.received()
    assert first["params"]["protocolVersion"] == 1
    assert first["params"]["clientCapabilities"] == {}
    assert new["params"] == {"cwd": str(harness.project.resolve()), "mcpServers": []}
    # Its role is in a file in its home, and therefore not in front of the message.
    assert [prompt["params"]["prompt"] for prompt in prompts] == [
        [{"type": "text", "text": "one"}],
        [{"type": "text", "text": "two"}],
    ]


@pytest.mark.parametrize(
    ("tool", "title", "place"),
    [
        ("list_directory", ".", "."),
        ("list_directory", "src/app", "src/app"),
        ("list_directory", "../lib", "../lib"),
        ("list_directory", "/etc", "/etc"),
        ("list_directory", "src/.../handlers", "/"),
        # The end of a longer path.
        ("list_directory", "a" * 32, "/"),
        ("list_directory", "", "/"),
        ("glob", "'*.py'", "."),
        ("glob", "'src/**/*.py'", "src"),
        ("glob", "'*.py' within src", "src"),
        ("glob", "'../**'", "/"),
        ("glob", "'{..,a}/**'", "/"),
        ("glob", "'/etc/*'", "/etc"),
        ("glob", "'.coterie/members/*' within .", ".coterie/members"),
        ("grep_search", "'token' within ./", "."),
        ("grep_search", "'token'", "."),
        ("grep_search", "'token' in *.py within src", "src"),
        (
            "grep_search",
            "'token' within .coterie/members/claude",
            ".coterie/members/claude",
        ),
        ("grep_search", "'token' in ../** within ./", "/"),
        ("grep_search", "'token' across all workspace directories", "/"),
        # What the model searches for must not look like where it searches.
        ("grep_search", "'a' within src' within .coterie", "/"),
        ("grep_search", "'a' in b within src within .coterie", "/"),
        ("grep_search", "'a' in {.env,b within src}", "/"),
        ("list_mcp_resources", "List MCP resources", "/"),
    ],
)
def test_where_it_searches_is_only_in_the_title(tool: str, title: str, place: str) -> None:
    told = GeminiCall(f"{tool}__{tool}_1_0")
    told.learn({"kind": "search", "title": title, "locations": []})
    names_only = tool in ("glob", "list_directory")
    assert action_of(told, "/w") == Action(
        "read", tool, "/w", paths=(place,), names_only=names_only
    )


def test_searching_the_web_is_no_reading() -> None:
    told = GeminiCall("google_web_search__google_web_search_1_0")
    told.learn({"kind": "search", "title": 'Searching the web for: "x"', "locations": []})
    assert action_of(told, "/w") == Action("fetch", "google_web_search", "/w")


@pytest.mark.parametrize(
    ("said", "folder", "why"),
    [
        ("[current working directory /w] (to see)", "/w", "to see"),
        ("[in sub] (to (really) see) [background]", "/w/sub", "to (really) see"),
        ("[current working directory /w]", "/w", ""),
        ("because", "/w", "because"),
    ],
)
def test_where_a_command_runs_and_why(said: str, folder: str, why: str) -> None:
    told = GeminiCall("c1")
    told.learn({"kind": "execute", "title": "ls", "content": [text_block(said)]})
    assert action_of(told, "/w") == Action("run", "execute", folder, command="ls")
    assert told.why == why


async def test_a_search_in_another_members_home_is_asked(harness: TimelineHarness) -> None:
    request = {
        "toolCallId": "grep_search__grep_search_1_0",
        "status": "pending",
        "title": "'token' within .coterie/members",
        "content": [],
        "locations": [],
        "kind": "search",
    }
    steps = recorded_steps("gemini/write")
    (asking,) = (step for step in steps if "toolCall" in step.get("out", {}).get("params", {}))
    asking["out"]["params"]["toolCall"] = request
    harness.play(steps)
    gate = harness.gate("ask")
    async with harness.open() as channel:
        await take_turn(channel, choice=gate)
    assert gate.names == ["grep_search"]


async def test_an_edit(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/write"))
    async with harness.open() as channel:
        taken = await take_turn(channel, choice="approve")
    assert reported_updates(taken) == snapshot(
        [
            ToolCallStarted(
                call_id="write_file__write_file_1794723762318_0",
                name="write_file",
                input={
                    "title": "Writing to out.txt",
                    "diff": """\
--- /dev/null
+++ /lab/work/acp2nofs/out.txt
@@ -0,0 +1 @@
+written by fake\
""",
                    "path": "/lab/work/acp2nofs/out.txt",
                },
                effect="write",
            ),
            ToolCallFinished(
                call_id="write_file__write_file_1794723762318_0",
                is_error=False,
                output={"changed": ["/lab/work/acp2nofs/out.txt"]},
            ),
            TextDelta(text="write done"),
            TurnCompleted(
                text="write done",
                usage=Usage(input_tokens=25597, output_tokens=33, source="gemini"),
            ),
        ]
    )
    (asked,) = taken.of(Asked)
    project = str(harness.project.resolve())
    assert (asked.call.cwd, asked.call.why, asked.takes_words) == (project, "", False)
    path = "/lab/work/acp2nofs/out.txt"
    assert asked.call.action == Action("write", "write_file", project, paths=(path,))
    assert (shown(asked).title, shown(asked).content_kind, shown(asked).content) == snapshot(
        (
            "Change /lab/work/acp2nofs/out.txt",
            "Diff",
            """\
--- /dev/null
+++ /lab/work/acp2nofs/out.txt
@@ -0,0 +1 @@
+written by fake\
""",
        )
    )
    assert asked.call.input == snapshot(
        {
            "title": "Writing to out.txt",
            "diff": """\
--- /dev/null
+++ /lab/work/acp2nofs/out.txt
@@ -0,0 +1 @@
+written by fake\
""",
            "path": "/lab/work/acp2nofs/out.txt",
        }
    )
    assert harness.replies() == [{"outcome": {"outcome": "selected", "optionId": "proceed_once"}}]


async def test_commands(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/shell"))
    async with harness.open() as channel:
        assert reported_updates(await take_turn(channel)) == snapshot(
            [
                ToolCallStarted(
                    call_id="run_shell_command__run_shell_command_1794724835261_0",
                    name="run_shell_command",
                    input={
                        "command": "echo A",
                        "description": "[current working directory /lab/work/m1] (d)",
                    },
                    effect="run",
                ),
                ToolCallFinished(
                    call_id="run_shell_command__run_shell_command_1794724835261_0", is_error=False
                ),
                TextDelta(text="ok"),
                TurnCompleted(
                    text="ok", usage=Usage(input_tokens=25617, output_tokens=29, source="gemini")
                ),
            ]
        )
        # After a rejection nothing more is reported about the call.
        taken = await take_turn(channel, choice="reject")
        assert reported_updates(taken) == snapshot(
            [
                ToolCallStarted(
                    call_id="run_shell_command__run_shell_command_1794724837472_0",
                    name="run_shell_command",
                    input={
                        "command": "touch x",
                        "description": "[current working directory /lab/work/m1] (d)",
                    },
                    effect="run",
                ),
                ToolCallFinished(
                    call_id="run_shell_command__run_shell_command_1794724837472_0",
                    is_error=True,
                    output={"status": "rejected"},
                ),
                TextDelta(text="ok"),
                TurnCompleted(
                    text="ok", usage=Usage(input_tokens=27280, output_tokens=29, source="gemini")
                ),
            ]
        )
        assert [shown(asked).content for asked in taken.of(Asked)] == ["touch x"]
    assert harness.replies() == [{"outcome": {"outcome": "selected", "optionId": "cancel"}}]


async def test_what_needed_no_leave(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/unasked"))
    async with harness.open() as channel:
        assert reported_updates(await take_turn(channel)) == snapshot(
            [
                ToolCallStarted(
                    call_id="run_shell_command__run_shell_command_1794724022205_0",
                    name="run_shell_command",
                    input={
                        "command": "echo SHELL_RAN_42 && pwd",
                        "description": "[current working directory /lab/work/acp5] (t)",
                    },
                    effect="run",
                ),
                ToolCallFinished(
                    call_id="run_shell_command__run_shell_command_1794724022205_0",
                    is_error=False,
                    output={
                        "text": """\
SHELL_RAN_42
/lab/work/acp5\
"""
                    },
                ),
                TextDelta(text="shell done"),
                TurnCompleted(
                    text="shell done",
                    usage=Usage(input_tokens=25532, output_tokens=36, source="gemini"),
                ),
            ]
        )
        assert reported_updates(await take_turn(channel))[:2] == snapshot(
            [
                ToolCallStarted(
                    call_id="write_file__write_file_1794724023650_0",
                    name="write_file",
                    input={"title": "Writing to out.txt", "path": "/lab/work/acp5/out.txt"},
                    effect="write",
                ),
                ToolCallFinished(
                    call_id="write_file__write_file_1794724023650_0",
                    is_error=False,
                    output={"changed": ["/lab/work/acp5/out.txt"]},
                ),
            ]
        )


async def test_breaking_off(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/cancel"))
    async with harness.open() as channel:

        def at_the_third(update: object) -> Any:
            third = isinstance(update, TextDelta) and update.text == "tick2 "
            return channel.interrupt() if third else None

        assert reported_updates(await take_turn(channel, hook=at_the_third))[-1] == TurnInterrupted(
            "tick0 tick1 tick2 "
        )

        async def answer_and_stop(asked: Asked) -> None:
            await channel.answer(asked.key, response("approve"))
            await channel.interrupt()

        def at_the_question(update: object) -> Any:
            return answer_and_stop(update) if isinstance(update, Asked) else None

        assert reported_updates(
            await take_turn(channel, choice="", hook=at_the_question)
        ) == snapshot(
            [
                ToolCallStarted(
                    call_id="run_shell_command__run_shell_command_1794723528128_0",
                    name="run_shell_command",
                    input={
                        "command": "sleep 30; echo late",
                        "description": "[current working directory /lab/work/acp1] (t)",
                    },
                    effect="run",
                ),
                ToolCallFinished(
                    call_id="run_shell_command__run_shell_command_1794723528128_0",
                    is_error=True,
                    output={"text": "Command cancelled by user."},
                ),
                TurnInterrupted(),
            ]
        )


async def test_failing(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/errors"))
    async with harness.open() as channel:
        ends = [(await take_turn(channel)).end for _ in range(4)]
        assert channel.alive
    assert ends == snapshot(
        [
            TurnFailed(
                kind="model",
                message='the model service refused the request. It says: "fake error 400"',
                retry=False,
            ),
            TurnFailed(
                kind="rate_limit",
                message="the model's quota is used up. It says: "
                '"You have exhausted your daily quota on this model."',
                retry=False,
                hint="Wait until it resets, or give the member another model.",
            ),
            TurnFailed(
                kind="model",
                message="gemini got an empty or blocked reply from its model",
            ),
            TurnFailed(
                kind="model",
                message='the connection to the model was cut. It says: "terminated"',
                hint="Try again.",
            ),
        ]
    )


async def test_signed_out(harness: TimelineHarness) -> None:
    harness.play(recorded_steps("gemini/signed_out"))
    async with harness.open() as channel:
        assert (await take_turn(channel)).end == snapshot(
            TurnFailed(
                kind="signed_out",
                message="gemini is not signed in. It says: "
                '"Gemini API key is missing or not configured."',
                retry=False,
                hint="Start gemini in a terminal and sign in, or set GEMINI_API_KEY.",
            )
        )
        assert channel.thread is None


# -- unexpected output -------------------------------------------------------------------------


def noisy(steps: list[Json]) -> list[Json]:
    """The same steps with unknown messages in between, and unknown fields."""
    noise = [{"raw": line} for line in NOISE]
    spread: list[Json] = []
    for step in steps:
        said = {"out": {**step["out"], "unheard": {"of": 1}}} if "out" in step else step
        spread += [*noise, said] if "out" in step else [said]
    return spread


def halved(steps: list[Json]) -> list[Json]:
    """The same steps with every notification in two pieces."""
    spread: list[Json] = []
    for step in steps:
        line = json.dumps(step.get("out"), ensure_ascii=False) + "\n"
        whole = "out" not in step or "{{" in line
        middle = len(line) // 2
        spread += [step] if whole else [{"raw": line[:middle]}, {"raw": line[middle:]}]
    return spread


@pytest.mark.parametrize("change", [noisy, halved])
@pytest.mark.parametrize("recording", ["talk", "write", "shell", "unasked"])
async def test_noise_and_halves_change_nothing(
    harness: TimelineHarness, recording: str, change: Any
) -> None:
    plain = recorded_steps(f"gemini/{recording}")
    harness.play(plain, change(plain))
    async with harness.open() as channel:
        expected = [
            reported_updates(await take_turn(channel)) for _ in range(1 + (recording != "write"))
        ]
    async with harness.open() as channel:
        assert [reported_updates(await take_turn(channel)) for _ in expected] == expected


@pytest.mark.parametrize("kept", range(5, 9))
async def test_an_exit_in_the_middle(harness: TimelineHarness, kept: int) -> None:
    steps = recorded_steps("gemini/talk")[: kept + 1]
    steps += [{"raw": '{"jsonrpc": "2.0", "met'}, {"err": "it broke\n"}, {"exit": 3}]
    harness.play(steps)
    async with harness.open() as channel:
        failure = (await take_turn(channel)).failure
        assert failure == TurnFailed(
            "exit",
            "gemini ended with exit code 3 in the middle of the turn",
            exit_code=3,
            stderr_tail='{"jsonrpc": "2.0", "met\nit broke',
        )
        assert not channel.alive


async def test_an_exit_before_anything(harness: TimelineHarness) -> None:
    harness.play([{"err": "Invalid auth method selected.\n"}, {"exit": 41}])
    with pytest.raises(AgentMissing) as raised:
        async with harness.open():
            pass
    assert raised.value.problem == "it ended with exit code 41\nInvalid auth method selected."
    assert harness.log.living == {}


# -- the fallback ------------------------------------------------------------------------------


async def headless(harness: TimelineHarness, recording: str) -> TurnUpdates:
    harness.play(NO_PROTOCOL, recorded_steps(f"gemini/headless_{recording}"))
    async with harness.open() as channel:
        assert isinstance(channel, OneShotChannel)
        assert (channel.pid, channel.alive, channel.holds_past) == (None, True, False)
        assert channel.thread is None
        return await take_turn(channel)


async def test_without_the_protocol(harness: TimelineHarness) -> None:
    assert reported_updates(await headless(harness, "stream")) == snapshot(
        [
            TextDelta(text="one "),
            TextDelta(text="two "),
            TextDelta(text="three "),
            TextDelta(text="four"),
            TurnCompleted(
                text="one two three four",
                usage=Usage(input_tokens=8119, output_tokens=20, source="gemini"),
            ),
        ]
    )
    assert harness.arguments(1) == ["--output-format", "stream-json"]


async def test_tools_without_the_protocol(harness: TimelineHarness) -> None:
    assert reported_updates(await headless(harness, "default_read"))[:2] == snapshot(
        [
            ToolCallStarted(
                call_id="read_file__read_file_1794723410322_0",
                name="read_file",
                input={"file_path": "in.txt"},
                effect="read",
            ),
            ToolCallFinished(call_id="read_file__read_file_1794723410322_0", is_error=False),
        ]
    )


async def test_tools_that_are_not_there(harness: TimelineHarness) -> None:
    taken = await headless(harness, "default_shell")
    assert [type(update) for update in reported_updates(taken)[:2]] == [
        ToolCallStarted,
        ToolCallFinished,
    ]
    (ended,) = taken.of(ToolCallFinished)
    assert (ended.is_error, ended.output["error"]["type"]) == (True, "tool_not_registered")


@pytest.mark.parametrize(
    ("recording", "kind", "words"),
    [
        ("400_stream", "model", 'the model service refused the request. It says: "fake error 400"'),
        ("cut_stream", "model", 'the connection to the model was cut. It says: "terminated"'),
        (
            "safety_stream",
            "model",
            "gemini got an empty or blocked reply from its model. It says: "
            '"The model response was blocked due to safety settings."',
        ),
        ("sigterm_mid", "exit", "gemini ended with exit code 0 in the middle of the turn"),
    ],
)
async def test_failing_without_the_protocol(
    harness: TimelineHarness, recording: str, kind: str, words: str
) -> None:
    failure = (await headless(harness, recording)).failure
    assert (failure.kind, failure.message) == (kind, words)


class _HookedLog(Log):
    """Do something while a process is being started."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], Awaitable[None]] | None = None

    async def starting(self, member: str, agent: str) -> str:
        if self.then is not None:
            await self.then()
        return await super().starting(member, agent)


@pytest.mark.parametrize("way", ["interrupt", "close"])
async def test_stopped_while_it_is_starting_without_the_protocol(
    harness: TimelineHarness, way: str
) -> None:
    harness.log = log = _HookedLog()
    harness.play(NO_PROTOCOL, recorded_steps("gemini/headless_stream"))
    async with harness.open() as channel:
        log.then = getattr(channel, way)
        end = (await take_turn(channel)).end
    assert isinstance(end, TurnInterrupted if way == "interrupt" else TurnFailed)


async def test_odd_ends_without_the_protocol(harness: TimelineHarness) -> None:
    empty = [{"raw": '{"type": "result", "status": "success"}\n'}]
    asks = [{"err": "Please set an Auth method\n"}, {"exit": 41}]
    harness.play(NO_PROTOCOL, empty, asks)
    async with harness.open() as channel:
        assert (await take_turn(channel)).failure.kind == "model"
        failure = (await take_turn(channel)).failure
        assert (failure.kind, failure.retry) == ("signed_out", False)
        Path(harness.agent.command).unlink()
        failure = (await take_turn(channel)).failure
        assert (failure.kind, failure.retry, failure.hint) == ("missing", False, "coterie doctor")
        await channel.answer("nobody asked", response("approve"))
        await channel.interrupt()
