"""The Claude adapter on recordings of the real program, and on anything it could print."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import external_file, snapshot

from coterie.agents.claude.turn import ClaudeTurn
from coterie.errors import AgentMissing
from coterie.model import instant
from coterie.model.conversation import Limits
from coterie.model.interaction import Display, Option, Response, Validation
from coterie.model.team import Permissions
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
from tests.contract.claude.harness import (
    ROLE,
    Answering,
    ClaudeHarness,
    answered,
    approve,
    no_answer,
    reject,
    reply,
    turn,
)
from tests.contract.claude.timeline import HELLO
from tests.contract.gate import Gate, shown

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures" / "claude"

Json = dict[str, Any]


@dataclass
class RecordedClaude:
    """A project whose Claude is the recordings player."""

    harness: ClaudeHarness
    folder: Path
    status: str = "exit 0"
    """A shell script for the player's reply when asked whether anybody is signed in."""

    def play(self, *timelines: Sequence[Json] | str) -> ClaudeHarness:
        """Make the player play these: steps, or the name of a recording."""
        paths: list[Path] = []
        for number, timeline in enumerate(timelines):
            path = self.folder / f"timeline-{number}.jsonl"
            path.write_text(
                (FIXTURES / f"{timeline}.jsonl").read_text()
                if isinstance(timeline, str)
                else "".join(json.dumps(step) + "\n" for step in timeline)
            )
            paths.append(path)
        heard = self.folder / "heard"
        heard.mkdir()
        words = [sys.executable, "-I", "-S", HERE / "recordings_player.py", heard, *paths, "--"]
        program = Path(self.harness.command)
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *"auth status") {self.status} ;; esac\n'
            f'exec {shlex.join(map(str, words))} "$@"\n'
        )
        program.chmod(0o700)
        return self.harness

    def arguments(self, start: int = 0) -> list[str]:
        return json.loads(self._received(start)[0])

    def received(self, start: int = 0) -> list[Json]:
        return [json.loads(line) for line in self._received(start)[1:] if line]

    def _received(self, start: int) -> list[str]:
        return (self.folder / "heard" / f"{start}.jsonl").read_text().splitlines()


@pytest.fixture
def claude(tmp_path: Path) -> RecordedClaude:
    project = tmp_path / "project"
    project.mkdir()
    return RecordedClaude(ClaudeHarness(project, str(tmp_path / "claude")), tmp_path)


def short(update: Update) -> str:
    match update:
        case TextDelta(text):
            return f"says {text!r}"
        case ToolCallStarted(_, name, given):
            return f"begins {name} {json.dumps(given)[:80]}"
        case ToolCallFinished(_, is_error, output):
            more = {key: value for key, value in output.items() if key != "content"}
            said = f"{'fails' if is_error else 'ends'} {str(output['content'])[:50]!r}"
            return f"{said} {json.dumps(more)}" if more else said
        case Asked():
            display = shown(update)
            return f"asks {update.kind} {display.title!r} {display.content!r}"
        case Waiting(waits_for, detail):
            return f"waits for {waits_for}: {detail}"
        case _:
            return ended(update)


def ended(update: Update) -> str:
    match update:
        case TurnCompleted(text, usage):
            return f"completed {text!r}\n  {usage}"
        case TurnInterrupted(text):
            return f"interrupted {text!r}"
        case TurnFailed():
            retry = "" if update.retry else " (no retry)"
            return f"failed {update.kind}{retry}: {update.message}\n  hint: {update.hint}"
        case _:
            return "lives"


def shorts(updates: list[Update]) -> list[str]:
    return [short(update) for update in updates if not isinstance(update, Activity)]


# -- steps of a timeline -----------------------------------------------------------------------

PROMPTED: Json = {"in": {"type": "user"}, "as": {"message": "uuid"}}


def out(**line: object) -> Json:
    return {"out": line}


def state(word: str) -> Json:
    return out(type="system", subtype="session_state_changed", state=word)


def lifecycle(word: str) -> Json:
    return out(type="command_lifecycle", command_uuid="{{message}}", state=word)


def assistant_text(text: str) -> Json:
    return out(type="assistant", message={"content": [{"type": "text", "text": text}]})


def request(request_id: str, **request: object) -> list[Json]:
    asked = out(type="control_request", request_id=request_id, request=request)
    return [asked, {"in": {"type": "control_response", "response": {"request_id": request_id}}}]


def permission(request_id: str, tool: str, **given: object) -> list[Json]:
    more = {"tool_name": tool, "input": given, "tool_use_id": f"call-{request_id}"}
    return request(request_id, subtype="can_use_tool", **more)


RESULT = out(type="result", subtype="success", is_error=False, result="ok")
BEGINS = [PROMPTED, state("running"), lifecycle("queued"), lifecycle("started")]
ENDS = [RESULT, lifecycle("completed"), state("idle")]


def one_turn(*steps: Json) -> list[Json]:
    return [*HELLO, *BEGINS, *steps, *ENDS]


# -- recordings --------------------------------------------------------------------------------


RETOLD = sorted(path.stem for path in FIXTURES.glob("*.txt"))
"""The recordings whose expected updates are in a text file beside them."""


@pytest.mark.parametrize("name", RETOLD)
async def test_recordings(claude: RecordedClaude, name: str) -> None:
    turns = (FIXTURES / f"{name}.jsonl").read_text().count('"in":{"type":"user"}')

    def answering(asked: Asked) -> Response:
        return answered(asked, asked.options[0].id)

    told: list[str] = []
    async with claude.play(name).channel() as channel:
        for number in range(1, turns + 1):
            told += [f"turn {number}", *shorts(await turn(channel, "go", answering))]
    assert "\n".join(told) + "\n" == external_file(str(FIXTURES / f"{name}.txt"))


async def test_a_recorded_interrupt_and_a_question_that_is_withdrawn(
    claude: RecordedClaude,
) -> None:
    async with claude.play("d7_perm_error_and_cancel").channel() as channel:
        await turn(channel, "go")
        asked: list[Asked] = []

        async def interrupting(update: Asked) -> None:
            asked.append(update)
            await channel.interrupt()

        told = await turn(
            channel,
            "again",
            then=lambda update: interrupting(update) if isinstance(update, Asked) else None,
        )
        assert told[-1] == TurnInterrupted("")
        await channel.answer(asked[0].key, approve(asked[0]))  # too late: no longer awaited
    answers = [line["response"] for line in claude.received() if line["type"] == "control_response"]
    assert len(answers) == 2  # both of the first turn


async def test_a_recorded_interrupt_while_it_speaks(claude: RecordedClaude) -> None:
    async with claude.play("e1_interrupt_streaming").channel() as channel:
        said: list[str] = []

        def interrupting(update: Update) -> object:
            said.append(short(update))
            return channel.interrupt() if said.count("says 'w5 '") == 1 else None

        assert (await turn(channel, "count", then=interrupting))[-1] == TurnInterrupted(
            "w0 w1 w2 w3 w4 w5 "
        )
        assert await reply(channel, "and now?") == "script done"


# -- starting ----------------------------------------------------------------------------------


async def test_what_it_is_started_with(claude: RecordedClaude) -> None:
    harness = claude.play(one_turn())
    harness.base_args = (
        "-p",
        "--output-format",
        "text",
        "--setting-sources=project",
        "--effort=low",
    )
    words = ["--resume", "x", "--dangerously-skip-permissions", "--add-dir", "/else", "-c"]
    async with harness.channel(model="opus", additionalArgs=words) as channel:
        assert (channel.holds_past, channel.alive) == (True, True)
        assert channel.pid is not None
        assert await reply(channel, "hi") == "ok"
        thread = channel.thread
    assert claude.arguments() == [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--setting-sources=user",
        "--strict-mcp-config",
        '--mcp-config={"mcpServers":{"coterie":{"type":"sdk","name":"coterie"}}}',
        "--permission-mode=default",
        f"--session-id={thread}",
        "--disallowedTools=CronCreate,CronDelete,CronList,ScheduleWakeup,EnterWorktree,ExitWorktree",
        f"--append-system-prompt={ROLE}",
        "--model=opus",
        "--effort=low",
        "--add-dir",
        "/else",
    ]
    hello, prompt = claude.received()
    assert hello["request"]["hooks"]["PreToolUse"][0]["onFailure"] == "block"
    assert prompt["message"] == {"role": "user", "content": "hi"}


async def test_a_reader_without_a_role(claude: RecordedClaude) -> None:
    harness = claude.play(one_turn())
    async with harness.channel(permissions={"mode": "read"}, systemInstruction="") as channel:
        await reply(channel, "hi")
    words = claude.arguments()
    assert [word for word in words if "Edit,NotebookEdit,Write" in word]
    assert [word for word in words if "system-prompt" in word] == []


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits", "full"])
async def test_what_may_be_done_unasked_is_never_for_claude_to_say(
    claude: RecordedClaude, mode: str
) -> None:
    harness = claude.play(one_turn())
    words = ["--permission-mode", "bypassPermissions", "--dangerously-skip-permissions"]
    async with harness.channel(permissions={"mode": mode}, additionalArgs=words) as channel:
        await reply(channel, "hi")
    chosen = [word for word in claude.arguments() if "ermission" in word]
    assert chosen == ["--permission-prompt-tool=stdio", "--permission-mode=default"]


def test_clocks(claude: RecordedClaude) -> None:
    adapter = claude.harness.adapter
    assert adapter.limits(claude.harness.member()) == Limits(1800, 120)
    assert adapter.limits(claude.harness.member(timeoutMs=500, quietAfterMs=100)) == Limits(
        0.5, 0.1
    )


@pytest.mark.parametrize(
    "told",
    [
        {"err": "No conversation found with session ID: old\n"},
        {"out": {"type": "result", "subtype": "error_during_execution", "is_error": True}},
    ],
    ids=["words", "result"],
)
async def test_a_lost_thread_is_replaced_by_a_new_one(claude: RecordedClaude, told: Json) -> None:
    lost = [told, {"exit": 1}]
    async with claude.play(lost, one_turn()).channel("old") as channel:
        assert channel.thread != "old"
        assert f"--session-id={channel.thread}" in claude.arguments(1)
    assert "--resume=old" in claude.arguments(0)
    assert claude.harness.log.seen == 2


REFUSED = {"type": "result", "is_error": True, "num_turns": 0}


@pytest.mark.parametrize("thread", ["old", None])
@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {"subtype": "success", "api_error_status": 401, "result": "Invalid API key"},
            r'the key or login given to claude was rejected \(401\). It says: "Invalid API key"',
        ),
        (
            {"subtype": "error_max_budget_usd", "errors": ["Reached maximum budget"]},
            'claude stopped at a limit .* It says: "Reached maximum budget"',
        ),
    ],
    ids=["key", "budget"],
)
async def test_another_failure_is_not_a_lost_thread(
    claude: RecordedClaude, thread: str | None, result: Json, words: str
) -> None:
    claude.play([{"out": {**REFUSED, **result}}, {"in": {"type": "never"}}], one_turn())
    with pytest.raises(AgentMissing, match=words):
        await claude.harness.open(thread)
    assert claude.harness.log.running == {}
    assert claude.harness.log.seen == (1 if thread else 2)  # a new member's login is checked first


async def test_a_result_that_is_no_error_changes_nothing(claude: RecordedClaude) -> None:
    done = out(type="result", subtype="success", is_error=False, num_turns=1)
    async with claude.play([done, *HELLO]).channel("old") as channel:
        assert channel.thread == "old"


async def test_one_that_does_not_start(claude: RecordedClaude) -> None:
    claude.play([{"err": "error: unknown option\n"}, {"exit": 1}])
    with pytest.raises(AgentMissing, match="it ended with exit code 1\nerror: unknown option"):
        await claude.harness.open("old")
    assert claude.harness.log.running == {}


async def test_one_that_starts_and_says_nothing(
    claude: RecordedClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.START", 0.5)
    claude.play([{"err": "busy\n"}, out(type="news"), {"in": {"type": "never"}}])
    with pytest.raises(AgentMissing, match=r"it did not respond within 0\.5 s"):
        await claude.harness.open()
    assert claude.harness.log.running == {}


async def test_a_start_that_is_cancelled_leaves_nothing(claude: RecordedClaude) -> None:
    claude.play([{"in": {"type": "never"}}])
    with anyio.move_on_after(1):
        await claude.harness.open()
    assert claude.harness.log.running == {}


# -- signing in --------------------------------------------------------------------------------

NO = """printf '{\\n  "loggedIn": false,\\n  "authMethod": "none"\\n}\\n'; exit 1"""


async def test_nobody_signed_in(claude: RecordedClaude) -> None:
    told = claude.folder / "told"
    words = "$CLAUDE_CONFIG_DIR $PWD $*"
    claude.status = f'echo "{words}" >> {told}; [ -e {told}.login ] && exit 0; {NO}'
    async with claude.play(one_turn()).channel() as channel:
        assert (channel.thread, channel.pid, channel.alive) == (None, None, False)
        assert await turn(channel, "hi") == [
            TurnFailed(
                "signed_out",
                "claude is not signed in",
                retry=False,
                hint="In another terminal: claude auth login (it serves every claude member). "
                "Then try again.",
            )
        ]
        await channel.interrupt()
    assert claude.harness.log.seen == 1
    (claude.folder / "told.login").touch()
    async with claude.harness.channel() as channel:
        assert await reply(channel, "hi") == "ok"
        thread = channel.thread
    async with claude.harness.channel(
        thread
    ) as channel:  # it has replied before: not checked again
        assert await reply(channel, "hi") == "ok"
    home = claude.harness.project / ".coterie" / "teams" / "garden" / "ann" / "home"
    asked = f"{home}/.claude {home} --setting-sources=user --strict-mcp-config auth status\n"
    assert told.read_text() == asked * 2
    assert claude.harness.log.seen == 4


@pytest.mark.parametrize(
    "status",
    [
        "exit 1",
        "echo error: unknown command >&2; exit 1",
        "echo Not logged in; exit 1",
        NO.replace("exit 1", "exit 0"),
        NO.replace("exit 1", "sleep 60"),
    ],
)
async def test_an_unclear_login_status_is_left_to_the_turn(
    claude: RecordedClaude, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr("coterie.agents.claude.adapter.TIMEOUT", 1.0)
    claude.status = status
    async with claude.play(one_turn()).channel() as channel:
        assert await reply(channel, "hi") == "ok"


async def test_where_its_own_login_status_would_be_wrong_it_is_not_asked(
    claude: RecordedClaude,
) -> None:
    claude.status = NO
    harness = claude.play(one_turn())
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"rehearsal": "http://127.0.0.1:9"}, {}),
        ({"env": {"ANTHROPIC_CUSTOM_HEADERS": "x-api-key: given"}}, {}),
        ({}, {"additionalArgs": ["--settings", "key.json"]}),
        ({}, {"additionalArgs": ["--settings=key.json"]}),
    ]
    for harness.more, member in cases:
        async with harness.channel(**member) as channel:
            assert await reply(channel, "hi") == "ok"
    assert harness.log.seen == len(cases)


# -- unexpected output -------------------------------------------------------------------------

STRANGE = [
    out(type="tomorrow", news={"deep": [1, 2]}),
    out(no="type"),
    out(type="system", subtype="tomorrow"),
    out(type="system"),
    out(type="assistant", message="not what it was"),
    out(type="assistant", message={"content": [{"type": "picture"}, "word", {"type": "text"}]}),
    out(type="user", message={"content": "[Request noted]"}),
    out(type="stream_event", event=7),
    out(type="stream_event", event={"type": "content_block_delta", "delta": {"type": "new"}}),
    out(type="command_lifecycle", command_uuid="another", state="completed"),
    out(type="control_response", response={"request_id": "unknown"}),
    out(type="control_cancel_request", request_id="unknown"),
    out(type="tool_progress"),
    out(type="rate_limit_event", rate_limit_info={"status": "allowed"}),
    {"raw": "this is no JSON\n{half\n\n\udcff\udcfe\n"},
    {"raw": '{"type": "system", "deep": ' + "[" * 5000 + "]" * 5000 + "}\n"},
    {"raw": '{"type":"assistant","message":{"content":[{"type":"te'},
    {"raw": 'xt","text":"A\\u0000B"}]},"new":1}\n'},
]


async def test_what_is_not_known_breaks_nothing(claude: RecordedClaude) -> None:
    async with claude.play(
        [*one_turn(*STRANGE, assistant_text("Two.")), *BEGINS, *ENDS]
    ).channel() as channel:
        told = await turn(channel, "go")
        assert shorts(told) == snapshot(
            [
                "waits for command: ",
                "says 'A�B'",
                "says '\\n\\nTwo.'",
                """\
completed 'A�B\\n\\nTwo.'
  Usage(input_tokens=0, output_tokens=0, cost_usd=None, source='claude')\
""",
            ]
        )
        assert await reply(channel, "again") == "ok"


Strange = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    [
        "assistant",
        "command_lifecycle",
        "rate_limit_event",
        "result",
        "stream_event",
        "system",
        "tool_progress",
        "user",
    ]
)
SYSTEM = st.sampled_from(
    [
        "api_retry",
        "background_tasks_changed",
        "init",
        "session_state_changed",
        "task_notification",
    ]
)
FIELDS = st.sampled_from(
    [
        "attempt",
        "command_uuid",
        "error",
        "error_status",
        "errors",
        "event",
        "is_error",
        "message",
        "model_usage_since_last_result",
        "rate_limit_info",
        "state",
        "status",
        "tasks",
        "tool_result_meta",
        "usage",
    ]
)


@given(
    st.lists(
        st.tuples(KNOWN, SYSTEM, st.dictionaries(FIELDS, Strange, max_size=6)),
        min_size=1,
        max_size=6,
    )
)
def test_no_field_of_any_type_harms(messages: list[tuple[str, str, Json]]) -> None:
    claude_turn = ClaudeTurn("message", "/w")
    for kind, subtype, fields in messages:
        assert list(claude_turn.handle({"type": kind, "subtype": subtype, **fields}))
    assert claude_turn.end()


async def test_it_ends_in_the_middle(claude: RecordedClaude) -> None:
    steps = [*HELLO, *BEGINS, assistant_text("One."), {"err": "out of memory\n"}, {"exit": 3}]
    async with claude.play(steps).channel() as channel:
        told = await turn(channel, "go")
        assert told[-1] == TurnFailed(
            "exit",
            "claude ended with exit code 3 in the middle of the turn",
            exit_code=3,
            stderr_tail="out of memory",
        )
        assert not channel.alive


async def test_it_says_that_it_is_done_and_gives_no_result(claude: RecordedClaude) -> None:
    steps = [*HELLO, *BEGINS, lifecycle("completed"), state("idle")]
    async with claude.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert end == TurnFailed("protocol", "claude accepted the message but gave no result")


async def test_it_breaks_off_by_itself(claude: RecordedClaude) -> None:
    why = ["why", 5]
    result = out(type="result", subtype="error_during_execution", is_error=True, errors=why)
    steps = [*HELLO, *BEGINS, result, lifecycle("cancelled"), state("idle")]
    async with claude.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    words = 'claude ended the turn by itself. It says: "why"'
    assert end == TurnFailed("protocol", words)


def limit_that_ends(seconds: float, **more: object) -> tuple[Json, str]:
    """A limit as Claude reports it, and the time of its end."""
    moment = int(datetime.fromisoformat(instant.now()).timestamp() + seconds)
    ends = instant.of(datetime.fromtimestamp(moment, UTC))
    return {"status": "rejected", "resetsAt": moment, "isUsingOverage": False, **more}, ends


def limited(*told: Json) -> list[Json]:
    result = out(
        type="result",
        subtype="success",
        is_error=True,
        api_error_status=429,
        result="You've hit your 5-hour limit",
    )
    return [*HELLO, *BEGINS, *told, result, lifecycle("cancelled"), state("idle")]


def limit_event(info: Json) -> Json:
    return out(type="rate_limit_event", rate_limit_info=info)


def limit_error(**more: object) -> Json:
    return out(type="assistant", error="rate_limit", message={}, **more)


@pytest.mark.parametrize("told_as", ["event", "error"])
async def test_a_limit_that_ends_at_a_time(claude: RecordedClaude, told_as: str) -> None:
    info, ends = limit_that_ends(7200)
    if told_as == "event":
        told = [limit_event(info), limit_error()]
    else:  # a limit that has not changed is only reported here
        params = {"rate_limit_info": info}
        told = [limit_error(api_error="usage_limit_reached", api_error_params=params)]
    async with claude.play(limited(*told)).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert end == TurnFailed(
        "rate_limit",
        f"the model's rate limit is reached (429) until {ends[:10]} {ends[11:16]} UTC. "
        'It says: "You\'ve hit your 5-hour limit"',
        hint="Wait, then try again.",
        until=ends,
    )


@pytest.mark.parametrize(
    "info",
    [
        limit_that_ends(-5)[0],
        limit_that_ends(9 * 24 * 3600)[0],
        limit_that_ends(7200, isUsingOverage=True)[0],
        limit_that_ends(7200, status="allowed_warning")[0],
        {"status": "rejected", "resetsAt": "soon"},
        {"status": "rejected"},
    ],
    ids=["past", "far", "paid-for", "allowed", "words", "untold"],
)
async def test_a_limit_whose_end_is_not_known(claude: RecordedClaude, info: Json) -> None:
    steps = limited(limit_event(limit_that_ends(60)[0]), limit_event(info), limit_error())
    async with claude.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert isinstance(end, TurnFailed)
    assert (end.kind, end.retry, end.until) == ("rate_limit", True, None)


def retrying(**more: object) -> Json:
    tries = {"attempt": 1, "max_retries": 10, "error_status": 429, "error": "rate_limit"}
    return out(type="system", subtype="api_retry", **{**tries, **more})


async def test_it_need_not_try_where_the_limit_ends_much_later(claude: RecordedClaude) -> None:
    info, ends = limit_that_ends(7200)
    broken = out(type="result", subtype="error_during_execution", is_error=True)
    steps = [
        *HELLO,
        *BEGINS,
        limit_event(info),
        retrying(),
        {"in": {"type": "control_request", "request": {"subtype": "interrupt"}}},
        broken,
        lifecycle("cancelled"),
        state("idle"),
    ]
    async with claude.play(steps).channel() as channel:
        told = await turn(channel, "go")
        assert channel.alive
    assert told[-2:] == [
        Activity(),
        TurnFailed(
            "rate_limit",
            f"the model's rate limit is reached (429) until {ends[:10]} {ends[11:16]} UTC",
            hint="Wait, then try again.",
            until=ends,
        ),
    ]


@pytest.mark.parametrize("seconds", [40, None], ids=["soon", "unknown"])
async def test_it_may_try_where_the_limit_ends_soon(
    claude: RecordedClaude, seconds: float | None
) -> None:
    told = [limit_event(limit_that_ends(seconds)[0])] if seconds else []
    steps = one_turn(*told, retrying(), assistant_text("Now."))
    async with claude.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert isinstance(end, TurnCompleted)


async def test_an_old_version_is_believed_at_its_result(claude: RecordedClaude) -> None:
    used = {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3}
    result = out(type="result", subtype="success", is_error=False, result="ok", usage=used)
    news = out(type="system", subtype="init", claude_code_version="2.1.197", cwd="/w")
    async with claude.play(
        [*HELLO, PROMPTED, news, assistant_text("Old."), result]
    ).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert short(end) == snapshot(
        """\
completed 'Old.'
  Usage(input_tokens=3, output_tokens=3, cost_usd=None, source='claude')\
"""
    )


async def test_what_it_asks_between_two_turns_is_refused(claude: RecordedClaude) -> None:
    stray = out(type="control_request", request_id="stray", request={"subtype": "hook_callback"})
    refusal = {"in": {"type": "control_response", "response": {"request_id": "stray"}}}
    steps = [*one_turn(), stray, refusal, *BEGINS, *ENDS]
    async with claude.play(steps).channel() as channel:
        await reply(channel, "one")
        while not channel._process._messages:  # noqa: ASYNC110 - until the stray has come
            await anyio.sleep(0.01)
        await reply(channel, "two")
    [response] = [line for line in claude.received() if line["type"] == "control_response"]
    assert response["response"]["subtype"] == "error"


# -- questions ---------------------------------------------------------------------------------


async def ask(
    claude: RecordedClaude, steps: list[Json], answering: Answering, mode: str = "ask"
) -> Json:
    """Play a question and return the answer that Claude received."""
    harness = claude.play(one_turn(*steps))
    async with harness.channel(permissions={"mode": mode}) as channel:
        await turn(channel, "go", answering)
    [line] = [line for line in claude.received() if line["type"] == "control_response"]
    return line["response"]


async def test_a_yes_is_for_what_was_asked_and_no_more(claude: RecordedClaude) -> None:
    suggested = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    steps = permission("r1", "Bash", command="ls", run_in_background=True)
    steps[0]["out"]["request"]["permission_suggestions"] = suggested
    assert await ask(claude, steps, approve) == {
        "subtype": "success",
        "request_id": "r1",
        "response": {
            "behavior": "allow",
            "updatedInput": {"command": "ls", "run_in_background": True},
        },
    }


@pytest.mark.parametrize(
    ("answering", "words"),
    [
        (reject, "The user said no: not today"),
        (no_answer, "Nobody answered, so permission was denied."),
    ],
)
async def test_a_no(claude: RecordedClaude, answering: Answering, words: str) -> None:
    given = await ask(claude, permission("r1", "WebFetch", url="http://x"), answering)
    assert given["response"] == {"behavior": "deny", "message": words}


async def test_full_permission_is_the_gates_yes(claude: RecordedClaude) -> None:
    gate = Gate(Permissions(mode="full"), claude.harness.project, no_answer)
    given = await ask(claude, permission("r1", "Bash", command="rm x"), gate, mode="full")
    assert given["response"] == {"behavior": "allow", "updatedInput": {"command": "rm x"}}
    assert gate.asked == []


async def test_a_rule_that_says_no_says_which(claude: RecordedClaude) -> None:
    gate = Gate(Permissions(mode="full", deny=("run(rm *)",)), claude.harness.project)
    given = await ask(claude, permission("r1", "Bash", command="rm x"), gate, mode="full")
    assert given["response"] == {
        "behavior": "deny",
        "message": "Permission was denied: not permitted here: deny run(rm *)",
    }


async def test_a_permission_holds_all_that_is_known_of_its_call(claude: RecordedClaude) -> None:
    asked: list[Asked] = []

    def answering(question: Asked) -> Response:
        asked.append(question)
        return approve(question)

    hook = {"tool_name": "Bash", "tool_use_id": "call-r1", "cwd": "/w/below"}
    steps = [
        assistant_text("One moment."),
        *request("h1", subtype="hook_callback", input=hook),
        *request("h2", subtype="hook_callback", input=hook | {"tool_use_id": "x", "cwd": "/w"}),
        *permission("r1", "Bash", command="touch x", description="make it"),
        *permission("r2", "Bash", command="serve", run_in_background=True),
    ]
    async with claude.play(one_turn(*steps)).channel() as channel:
        await turn(channel, "go", answering)
    assert shown(asked[0]) == Display(title="Run a command", content="touch x")
    assert asked[0].call == PendingCall(
        "call-r1",
        "Bash",
        {"command": "touch x", "description": "make it"},
        "/w/below",
        action=held("Bash", "/w/below", "touch x"),
        why="make it",
        said="One moment.",
    )
    assert asked[1].call is not None
    assert asked[1].call.note == "It would run in the background while Claude continues."


def held(tool: str, cwd: str, command: str) -> Action:
    """A command that could be run read-only, as the sandbox allows where tests run."""
    return Action("run", tool, cwd, command=command, read_only_sandbox=True, keeps_folder=True)


async def test_a_yes_to_look_rewrites_the_command_and_nothing_else(claude: RecordedClaude) -> None:
    def looking(question: Asked) -> Response:
        return approve(question).model_copy(update={"selected_option_id": "read_only"})

    line = "cat 'a b' \"$HOME\" | sort # it's \\ so\nwc -l"
    steps = [*permission("r1", "Bash", command=line, timeout=5)]
    async with claude.play(one_turn(*steps)).channel() as channel:
        updates = await turn(channel, "go", looking)
    [asked] = [one for one in updates if isinstance(one, Asked)]
    assert asked.call is not None
    assert (shown(asked).content, asked.call.input["command"]) == (line, line)
    [said_yes] = [line["response"] for line in claude.received() if "updatedInput" in str(line)]
    given = said_yes["response"]["updatedInput"]
    assert given["timeout"] == 5
    *words, shell, option, script = shlex.split(given["command"])
    assert ("/bwrap" in " ".join(words), shell, option, script) == (True, "/bin/sh", "-c", line)


async def test_claude_has_to_ask_about_whatever_it_would_do(claude: RecordedClaude) -> None:
    """Also about what its own settings would allow; calls without effect pass."""
    tools = ("Bash", "Read", "mcp__other__tool", "Tomorrow", "TodoWrite", "mcp__coterie__ask_human")
    steps = [
        step
        for tool in tools
        for step in request(tool, subtype="hook_callback", input={"tool_name": tool})
    ]
    async with claude.play(one_turn(*steps)).channel() as channel:
        updates = await turn(channel, "go")
    replies = [line["response"] for line in claude.received() if line["type"] == "control_response"]
    told = {reply["request_id"]: reply["response"].get("hookSpecificOutput") for reply in replies}
    ask = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    assert told == {
        **dict.fromkeys(tools[:4], ask),
        "TodoWrite": None,
        "mcp__coterie__ask_human": ask | {"permissionDecision": "allow"},
    }
    effects = [update.effect for update in updates if isinstance(update, ToolCallStarted)]
    assert effects == ["run", "read", "other", "other", "read", "read"]


async def test_calls_whose_end_is_never_reported(claude: RecordedClaude) -> None:
    begun = request("h1", subtype="hook_callback", input={"tool_name": "Bash", "tool_use_id": "c"})
    async with claude.play(one_turn(*begun)).channel() as channel:
        updates = await turn(channel, "go")
    assert updates[-2] == ToolCallFinished("c", True, {"status": "unknown"})


async def test_a_question_without_questions_is_a_permission(claude: RecordedClaude) -> None:
    given = await ask(claude, permission("r1", "AskUserQuestion", questions=[]), approve)
    assert given["response"] == {"behavior": "allow", "updatedInput": {"questions": []}}


async def test_choices_that_look_alike(claude: RecordedClaude) -> None:
    offered = [{"label": label, "description": "d"} for label in ("Yes!", "yes", "…")]
    question = {"question": "Sure?", "options": offered}

    def answering(asked: Asked) -> Response:
        assert [option.id for option in asked.options] == ["yes", "yes-2", "-3"]
        return answered(asked, "yes-2")

    given = await ask(claude, permission("r1", "AskUserQuestion", questions=[question]), answering)
    assert given["response"]["updatedInput"]["answers"] == {"Sure?": "yes"}


async def test_a_request_that_is_not_known_is_refused(claude: RecordedClaude) -> None:
    given = await ask(claude, request("r1", subtype="tomorrow"), no_answer)
    assert given == {
        "subtype": "error",
        "request_id": "r1",
        "error": "Coterie does not support tomorrow",
    }


async def test_what_comes_out_is_cut_and_what_goes_in_is_not(claude: RecordedClaude) -> None:
    long = "x" * 50_000
    hook = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": [{"a": long}]}}
    result = [{"type": "tool_result", "tool_use_id": "c1", "content": long}]
    steps = [
        *request("h1", subtype="hook_callback", input=hook),
        *permission("r1", "Bash", command=long),
        out(type="user", message={"content": result}),
    ]
    async with claude.play(one_turn(*steps)).channel() as channel:
        begun, asked, ended, _ = [
            update for update in await turn(channel, "go") if not isinstance(update, Activity)
        ]
    assert isinstance(begun, ToolCallStarted)
    assert isinstance(ended, ToolCallFinished)
    assert isinstance(asked, Asked)
    assert begun.input == {"command": [{"a": long}]}
    assert ended.output == {"content": f"{long[:20_000]}… (50000 characters)"}
    assert shown(asked).content == long
    assert asked.call is not None
    assert asked.call.input == {"command": long}


# -- tools of Coterie --------------------------------------------------------------------------


def to_server(request_id: str, method: str, **params: object) -> list[Json]:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return request(request_id, subtype="mcp_message", server_name="coterie", message=message)


def calling(request_id: str, tool: str, **given: object) -> list[Json]:
    return to_server(request_id, "tools/call", name=tool, arguments=given)


def from_server(claude: RecordedClaude) -> dict[str, Any]:
    """What our server replied, by request id."""
    replies = [line["response"] for line in claude.received() if line["type"] == "control_response"]
    messages = [reply["response"]["mcp_response"] for reply in replies if "response" in reply]
    return {message["id"]: message.get("result", message.get("error")) for message in messages}


def text_result(text: str, *, failed: bool = False) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


async def test_our_tools_are_met_before_the_first_turn(claude: RecordedClaude) -> None:
    meeting = [
        HELLO[0],
        *to_server("i", "initialize", protocolVersion="2025-06-18"),
        HELLO[1],
        *to_server("x", "resources/list"),
        *to_server("l", "tools/list"),
    ]
    claude.harness.more["others"] = {"rex": "speed"}
    async with claude.play([*meeting, *BEGINS, *ENDS]).channel() as channel:
        await reply(channel, "hi")
    replies = from_server(claude)
    assert replies["i"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in replies["l"]["tools"]] == ["ask_human", "hand_over"]
    assert "rex (speed)" in replies["l"]["tools"][1]["description"]
    assert replies["x"] == {"code": -32601, "message": "resources/list is not supported"}


async def test_asking_the_human_and_handing_over(claude: RecordedClaude) -> None:
    claude.harness.more["others"] = {"rex": "speed"}
    steps = [
        *calling("a", "ask_human", question="Which?", options=["Red", "Blue"]),
        *calling("b", "ask_human", question="Why?"),
        *calling("c", "hand_over", to="Rex", message="Look at it."),
        assistant_text("Done."),
    ]

    def answering(asked: Asked) -> Response:
        return answered(asked, "blue") if asked.options else answered(asked, said="So.")

    async with claude.play(one_turn(*steps)).channel() as channel:
        updates = await turn(channel, "go", answering)
    assert [update for update in updates if isinstance(update, Asked)] == [
        Asked(
            "ask.a",
            "Select",
            "request_info",
            Display(title="Which?"),
            (Option(id="red", label="Red"), Option(id="blue", label="Blue")),
        ),
        Asked(
            "ask.b",
            "Input",
            "request_info",
            Display(title="Why?"),
            validation=Validation(required=True),
        ),
    ]
    assert from_server(claude) == {
        "a": text_result("Blue"),
        "b": text_result("So."),
        "c": text_result("ok, your turn ends here"),
    }
    assert isinstance(updates[-1], TurnCompleted)
    assert updates[-1].text == "Done.\n\nLook at it.\n\n[NEXT: rex]"


async def test_nobody_answers_and_it_is_nobodys_turn(claude: RecordedClaude) -> None:
    between = calling("b", "ask_human", question="Now?")
    steps = [*one_turn(*calling("a", "ask_human", question="Why?")), *between, *BEGINS, *ENDS]
    async with claude.play(steps).channel() as channel:
        await turn(channel, "go", no_answer)
        while not channel._process._messages:  # noqa: ASYNC110 - until the stray has come
            await anyio.sleep(0.01)
        await reply(channel, "again")
    assert from_server(claude) == {
        "a": text_result("Nobody answered.", failed=True),
        "b": text_result("It is not your turn, so nobody can be asked.", failed=True),
    }


async def test_a_question_that_an_interrupt_takes_back(claude: RecordedClaude) -> None:
    asked = out(
        type="control_request",
        request_id="a",
        request=calling("a", "ask_human", question="Why?")[0]["out"]["request"],
    )
    late = calling("b", "ask_human", question="Why not?")
    interrupted = {"in": {"request": {"subtype": "interrupt"}}}
    broken = [interrupted, *late, lifecycle("cancelled"), state("idle")]
    async with claude.play([*HELLO, *BEGINS, asked, *broken]).channel() as channel:

        def interrupting(update: Update) -> object:
            return channel.interrupt() if isinstance(update, Asked) else None

        told = await turn(channel, "go", then=interrupting)
        assert told[-1] == TurnInterrupted("")
        assert len([update for update in told if isinstance(update, Asked)]) == 1
    not_now = text_result("It is not your turn, so nobody can be asked.", failed=True)
    assert from_server(claude) == {"b": not_now}


# -- interrupting ------------------------------------------------------------------------------


async def test_one_that_will_not_break_off_is_ended(
    claude: RecordedClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.claude.channel.AFTER_INTERRUPT", 0.3)
    steps = [*HELLO, *BEGINS, assistant_text("One."), {"in": {"type": "never"}}]
    async with claude.play(steps).channel() as channel:

        def interrupting(update: Update) -> object:
            return channel.interrupt() if isinstance(update, TextDelta) else None

        assert (await turn(channel, "go", then=interrupting))[-1] == TurnInterrupted("One.")
        assert not channel.alive


async def test_a_further_interrupt_postpones_nothing(
    claude: RecordedClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.claude.channel.AFTER_INTERRUPT", 0.3)
    more = {"repeat": {"type": "news"}}
    async with claude.play([*HELLO, *BEGINS, more]).channel() as channel:
        told = await turn(channel, "go", then=lambda update: channel.interrupt())
        assert told[-1] == TurnInterrupted("")
        assert not channel.alive


async def test_background_work_that_is_never_mentioned_again(
    claude: RecordedClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work has ended, but Claude never mentions it: the turn ends all the same."""
    monkeypatch.setattr("coterie.agents.claude.channel.BACKGROUND", 0.3)
    task = {"task_id": "t1", "description": "make"}
    steps = [
        out(type="system", subtype="background_tasks_changed", tasks=[task]),
        *ENDS,
        out(type="system", subtype="task_notification", task_id="t1", status="completed"),
        out(type="system", subtype="background_tasks_changed", tasks=[]),
    ]
    async with claude.play([*HELLO, *BEGINS, assistant_text("One."), *steps]).channel() as channel:
        assert await reply(channel, "go") == "One."
