"""The Claude adapter on recordings of the real program, and on what it could ever print."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import external_file, snapshot

from coterie.agents.claude.turn import Turn
from coterie.errors import AgentMissing
from coterie.model.interaction import Response
from coterie.model.prompt import Limits
from coterie.model.update import (
    Activity,
    Asked,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Waiting,
)
from tests.contract.claude.desk import (
    ROLE,
    Answering,
    Desk,
    answered,
    approve,
    nobody,
    reject,
    reply,
    turn,
)
from tests.contract.claude.timeline import HELLO

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures" / "claude"

Json = dict[str, Any]


@dataclass
class Stage:
    """A desk whose Claude is the recordings player."""

    desk: Desk
    folder: Path
    status: str = "exit 0"
    """What it does when it is asked whether somebody has signed in, in the words of a shell."""

    def play(self, *timelines: Sequence[Json] | str) -> Desk:
        """The player is to play these: steps, or the name of a recording."""
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
        program = Path(self.desk.command)
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *"auth status") {self.status} ;; esac\n'
            f'exec {shlex.join(map(str, words))} "$@"\n'
        )
        program.chmod(0o700)
        return self.desk

    def arguments(self, start: int = 0) -> list[str]:
        return json.loads(self._heard(start)[0])

    def heard(self, start: int = 0) -> list[Json]:
        return [json.loads(line) for line in self._heard(start)[1:] if line]

    def _heard(self, start: int) -> list[str]:
        return (self.folder / "heard" / f"{start}.jsonl").read_text().splitlines()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    project = tmp_path / "project"
    project.mkdir()
    return Stage(Desk(project, str(tmp_path / "claude")), tmp_path)


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
        case Asked(display=display):
            return f"asks {update.kind} {display.title!r} {display.content!r}"
        case Waiting(reason):
            return f"waits for {reason}"
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


def said(text: str) -> Json:
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
"""The recordings whose updates are written down beside them."""


@pytest.mark.parametrize("name", RETOLD)
async def test_recordings(stage: Stage, name: str) -> None:
    turns = (FIXTURES / f"{name}.jsonl").read_text().count('"in":{"type":"user"}')

    def answering(asked: Asked) -> Response:
        return answered(asked, asked.options[0].id)

    told: list[str] = []
    async with stage.play(name).channel() as channel:
        for number in range(1, turns + 1):
            told += [f"turn {number}", *shorts(await turn(channel, "go", answering))]
    assert "\n".join(told) + "\n" == external_file(str(FIXTURES / f"{name}.txt"))


async def test_a_recorded_interrupt_and_a_question_that_is_withdrawn(stage: Stage) -> None:
    async with stage.play("d7_perm_error_and_cancel").channel() as channel:
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
        await channel.answer(asked[0].key, approve(asked[0]))  # too late, and for nobody
    answers = [line["response"] for line in stage.heard() if line["type"] == "control_response"]
    assert len(answers) == 2  # of the first turn


async def test_a_recorded_interrupt_while_it_speaks(stage: Stage) -> None:
    async with stage.play("e1_interrupt_streaming").channel() as channel:
        said: list[str] = []

        def interrupting(update: Update) -> object:
            said.append(short(update))
            return channel.interrupt() if said.count("says 'w5 '") == 1 else None

        assert (await turn(channel, "count", then=interrupting))[-1] == TurnInterrupted(
            "w0 w1 w2 w3 w4 w5 "
        )
        assert await reply(channel, "and now?") == "script done"


# -- starting ----------------------------------------------------------------------------------


async def test_what_it_is_started_with(stage: Stage) -> None:
    desk = stage.play(one_turn())
    desk.base_args = ("-p", "--output-format", "text", "--setting-sources=project", "--effort=low")
    words = ["--resume", "x", "--dangerously-skip-permissions", "--add-dir", "/else", "-c"]
    async with desk.channel(model="opus", additionalArgs=words) as channel:
        assert (channel.version, channel.holds_past, channel.alive) == ("2.1.325", True, True)
        assert channel.pid is not None
        assert await reply(channel, "hi") == "ok"
        thread = channel.thread
    assert stage.arguments() == [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--setting-sources=user",
        "--strict-mcp-config",
        "--permission-mode=default",
        "--disallowedTools=CronCreate,CronDelete,CronList,ScheduleWakeup,EnterWorktree,ExitWorktree",
        f"--session-id={thread}",
        f"--append-system-prompt={ROLE}",
        "--model=opus",
        "--effort=low",
        "--add-dir",
        "/else",
    ]
    hello, prompt = stage.heard()
    assert hello["request"]["hooks"]["PreToolUse"][0]["onFailure"] == "block"
    assert prompt["message"] == {"role": "user", "content": "hi"}


async def test_a_reader_without_a_role(stage: Stage) -> None:
    desk = stage.play(one_turn())
    async with desk.channel(permissions={"mode": "read"}, systemInstruction="") as channel:
        await reply(channel, "hi")
    words = stage.arguments()
    assert "--permission-mode=dontAsk" in words
    assert [word for word in words if "Edit,NotebookEdit,Write" in word]
    assert [word for word in words if "system-prompt" in word] == []


def test_clocks(stage: Stage) -> None:
    adapter = stage.desk.adapter
    assert adapter.limits(stage.desk.member()) == Limits(1800, 120)
    assert adapter.limits(stage.desk.member(timeoutMs=500, quietAfterMs=100)) == Limits(0.5, 0.1)


async def test_a_thread_that_is_lost_is_begun_anew(stage: Stage) -> None:
    lost = [{"err": "No conversation found with session ID: old\n"}, {"exit": 1}]
    async with stage.play(lost, one_turn()).channel("old") as channel:
        assert channel.thread != "old"
        assert f"--session-id={channel.thread}" in stage.arguments(1)
    assert "--resume=old" in stage.arguments(0)
    assert stage.desk.log.seen == 2


async def test_one_that_does_not_start(stage: Stage) -> None:
    stage.play([{"err": "error: unknown option\n"}, {"exit": 1}])
    with pytest.raises(AgentMissing, match="it ended with exit code 1\nerror: unknown option"):
        await stage.desk.open("old")
    assert stage.desk.log.running == {}


async def test_one_that_starts_and_says_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.claude.adapter.START", 0.5)
    stage.play([{"err": "busy\n"}, out(type="news"), {"in": {"type": "never"}}])
    with pytest.raises(AgentMissing, match=r"it did not answer within 0\.5 s"):
        await stage.desk.open()
    assert stage.desk.log.running == {}


async def test_a_start_that_is_cancelled_leaves_nothing(stage: Stage) -> None:
    stage.play([{"in": {"type": "never"}}])
    with anyio.move_on_after(1):
        await stage.desk.open()
    assert stage.desk.log.running == {}


# -- signing in --------------------------------------------------------------------------------

NO = """printf '{\\n  "loggedIn": false,\\n  "authMethod": "none"\\n}\\n'; exit 1"""


async def test_nobody_signed_in(stage: Stage) -> None:
    told = stage.folder / "told"
    words = "$CLAUDE_CONFIG_DIR $PWD $*"
    stage.status = f'echo "{words}" >> {told}; [ -e {told}.login ] && exit 0; {NO}'
    async with stage.play(one_turn()).channel() as channel:
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
    assert stage.desk.log.seen == 1
    (stage.folder / "told.login").touch()
    async with stage.desk.channel() as channel:
        assert await reply(channel, "hi") == "ok"
        thread = channel.thread
    async with stage.desk.channel(thread) as channel:  # it has spoken: not asked again
        assert await reply(channel, "hi") == "ok"
    home = stage.desk.project / ".coterie" / "teams" / "garden" / "ann" / "home"
    asked = f"{home}/.claude {home} --setting-sources=user --strict-mcp-config auth status\n"
    assert told.read_text() == asked * 2
    assert stage.desk.log.seen == 4


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
async def test_what_is_no_clear_word_is_left_to_the_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr("coterie.agents.claude.status.PATIENCE", 1.0)
    stage.status = status
    async with stage.play(one_turn()).channel() as channel:
        assert await reply(channel, "hi") == "ok"


async def test_where_its_own_word_would_be_wrong_it_is_not_asked(stage: Stage) -> None:
    stage.status = NO
    desk = stage.play(one_turn())
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"rehearsal": "http://127.0.0.1:9"}, {}),
        ({"env": {"ANTHROPIC_CUSTOM_HEADERS": "x-api-key: given"}}, {}),
        ({}, {"additionalArgs": ["--settings", "key.json"]}),
        ({}, {"additionalArgs": ["--settings=key.json"]}),
    ]
    for desk.more, member in cases:
        async with desk.channel(**member) as channel:
            assert await reply(channel, "hi") == "ok"
    assert desk.log.seen == len(cases)


# -- whatever it prints ------------------------------------------------------------------------

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


async def test_what_is_not_known_breaks_nothing(stage: Stage) -> None:
    async with stage.play([*one_turn(*STRANGE, said("Two.")), *BEGINS, *ENDS]).channel() as channel:
        told = await turn(channel, "go")
        assert shorts(told) == snapshot(
            [
                "waits for command: , 0 s so far",
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
    heard = Turn("message", "/w")
    for kind, subtype, fields in messages:
        assert list(heard.hear({"type": kind, "subtype": subtype, **fields}))
    assert heard.end()


async def test_it_ends_in_the_middle(stage: Stage) -> None:
    steps = [*HELLO, *BEGINS, said("One."), {"err": "out of memory\n"}, {"exit": 3}]
    async with stage.play(steps).channel() as channel:
        told = await turn(channel, "go")
        assert told[-1] == TurnFailed(
            "exit",
            "claude ended with exit code 3 in the middle of the turn",
            exit_code=3,
            stderr_tail="out of memory",
        )
        assert not channel.alive


async def test_it_says_that_it_is_done_and_gives_no_result(stage: Stage) -> None:
    steps = [*HELLO, *BEGINS, lifecycle("completed"), state("idle")]
    async with stage.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert end == TurnFailed("protocol", "claude took the message and gave no result for it")


async def test_it_breaks_off_by_itself(stage: Stage) -> None:
    result = out(type="result", subtype="error_during_execution", is_error=True, errors=["why"])
    steps = [*HELLO, *BEGINS, result, lifecycle("cancelled"), state("idle")]
    async with stage.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    words = 'claude broke the turn off by itself. Claude says: "why"'
    assert end == TurnFailed("protocol", words)


async def test_a_limit_that_ends_at_a_time(stage: Stage) -> None:
    info = {"status": "rejected", "resetsAt": 1_800_000_000}
    failed = out(
        type="result",
        subtype="success",
        is_error=True,
        api_error_status=429,
        result="Limit reached",
    )
    limit = out(type="rate_limit_event", rate_limit_info=info)
    error = out(type="assistant", error="rate_limit", message={})
    steps = [*HELLO, *BEGINS, limit, error, failed, lifecycle("cancelled"), state("idle")]
    async with stage.play(steps).channel() as channel:
        end = (await turn(channel, "go"))[-1]
    assert isinstance(end, TurnFailed)
    assert end.message == (
        "the model's rate limit is reached (429) until 2027-01-15 08:00 UTC. "
        'Claude says: "Limit reached"'
    )


async def test_an_old_version_is_believed_at_its_result(stage: Stage) -> None:
    used = {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3}
    result = out(type="result", subtype="success", is_error=False, result="ok", usage=used)
    news = out(type="system", subtype="init", claude_code_version="2.1.197", cwd="/w")
    async with stage.play([*HELLO, PROMPTED, news, said("Old."), result]).channel() as channel:
        end = (await turn(channel, "go"))[-1]
        assert channel.version == "2.1.197"
    assert short(end) == snapshot(
        """\
completed 'Old.'
  Usage(input_tokens=3, output_tokens=3, cost_usd=None, source='claude')\
"""
    )


async def test_what_it_asks_between_two_turns_is_refused(stage: Stage) -> None:
    stray = out(type="control_request", request_id="stray", request={"subtype": "hook_callback"})
    refusal = {"in": {"type": "control_response", "response": {"request_id": "stray"}}}
    steps = [*one_turn(), stray, refusal, *BEGINS, *ENDS]
    async with stage.play(steps).channel() as channel:
        await reply(channel, "one")
        while not channel._wire._messages:  # noqa: ASYNC110 - until the stray has come
            await anyio.sleep(0.01)
        await reply(channel, "two")
    [response] = [line for line in stage.heard() if line["type"] == "control_response"]
    assert response["response"]["subtype"] == "error"


# -- asking ------------------------------------------------------------------------------------


async def ask(stage: Stage, steps: list[Json], answering: Answering, mode: str = "ask") -> Json:
    """Let it ask; what it was answered."""
    desk = stage.play(one_turn(*steps))
    async with desk.channel(permissions={"mode": mode}) as channel:
        await turn(channel, "go", answering)
    [line] = [line for line in stage.heard() if line["type"] == "control_response"]
    return line["response"]


async def test_a_yes_is_for_what_was_asked_and_no_more(stage: Stage) -> None:
    suggested = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    steps = permission("r1", "Bash", command="ls", run_in_background=True)
    steps[0]["out"]["request"]["permission_suggestions"] = suggested
    assert await ask(stage, steps, approve) == {
        "subtype": "success",
        "request_id": "r1",
        "response": {
            "behavior": "allow",
            "updatedInput": {"command": "ls", "run_in_background": True},
        },
    }


@pytest.mark.parametrize(
    ("answering", "words"),
    [(reject, "The user said no: not today"), (nobody, "Nobody answered, so the answer is no.")],
)
async def test_a_no(stage: Stage, answering: Answering, words: str) -> None:
    given = await ask(stage, permission("r1", "WebFetch", url="http://x"), answering)
    assert given["response"] == {"behavior": "deny", "message": words}


async def test_full_permission_is_given_without_asking(stage: Stage) -> None:
    steps = permission("r1", "Bash", command="ls")
    given = await ask(stage, steps, nobody, mode="full")
    assert given["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}


async def test_a_question_without_questions_is_a_permission(stage: Stage) -> None:
    given = await ask(stage, permission("r1", "AskUserQuestion", questions=[]), approve)
    assert given["response"] == {"behavior": "allow", "updatedInput": {"questions": []}}


async def test_choices_that_look_alike(stage: Stage) -> None:
    offered = [{"label": label, "description": "d"} for label in ("Yes!", "yes", "…")]
    question = {"question": "Sure?", "options": offered}

    def answering(asked: Asked) -> Response:
        assert [option.id for option in asked.options] == ["yes", "yes-2", "-3"]
        return answered(asked, "yes-2")

    given = await ask(stage, permission("r1", "AskUserQuestion", questions=[question]), answering)
    assert given["response"]["updatedInput"]["answers"] == {"Sure?": "yes"}


async def test_a_request_that_is_not_known_is_refused(stage: Stage) -> None:
    given = await ask(stage, request("r1", subtype="mcp_message"), nobody)
    assert given == {
        "subtype": "error",
        "request_id": "r1",
        "error": "Coterie does not know mcp_message",
    }


async def test_much_is_cut_in_the_record_and_not_in_the_question(stage: Stage) -> None:
    long = "x" * 50_000
    hook = {"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": [{"a": long}]}}
    result = [{"type": "tool_result", "tool_use_id": "c1", "content": long}]
    steps = [
        *request("h1", subtype="hook_callback", input=hook),
        *permission("r1", "Bash", command=long),
        out(type="user", message={"content": result}),
    ]
    async with stage.play(one_turn(*steps)).channel() as channel:
        begun, asked, ended, _ = [
            update for update in await turn(channel, "go") if not isinstance(update, Activity)
        ]
    assert isinstance(begun, ToolCallStarted)
    assert isinstance(ended, ToolCallFinished)
    assert isinstance(asked, Asked)
    cut = f"{long[:20_000]}… (50000 characters)"
    assert begun.input == {"command": [{"a": cut}]}
    assert ended.output == {"content": cut}
    assert asked.display.content == long
    assert asked.call is not None
    assert asked.call.input == {"command": long}


# -- breaking off ------------------------------------------------------------------------------


async def test_one_that_will_not_break_off_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.claude.channel.AFTER_INTERRUPT", 0.3)
    steps = [*HELLO, *BEGINS, said("One."), {"in": {"type": "never"}}]
    async with stage.play(steps).channel() as channel:

        def interrupting(update: Update) -> object:
            return channel.interrupt() if isinstance(update, TextDelta) else None

        assert (await turn(channel, "go", then=interrupting))[-1] == TurnInterrupted("One.")
        assert not channel.alive


async def test_work_in_the_background_that_is_owed_a_word(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has ended, and Claude does not speak of it after all: the turn ends all the same."""
    monkeypatch.setattr("coterie.agents.claude.channel.BACKGROUND", 0.3)
    task = {"task_id": "t1", "description": "make"}
    steps = [
        out(type="system", subtype="background_tasks_changed", tasks=[task]),
        *ENDS,
        out(type="system", subtype="task_notification", task_id="t1", status="completed"),
        out(type="system", subtype="background_tasks_changed", tasks=[]),
    ]
    async with stage.play([*HELLO, *BEGINS, said("One."), *steps]).channel() as channel:
        assert await reply(channel, "go") == "One."
