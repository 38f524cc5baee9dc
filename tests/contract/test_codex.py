"""The Codex adapter on recordings of the real program, played by a real child process."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from coterie.agents.codex import channel, hook
from coterie.agents.codex.adapter import CodexAdapter, passed_on
from coterie.agents.codex.calls import CodexCalls, command_of
from coterie.agents.codex.channel import CodexChannel, OneShotChannel
from coterie.agents.codex.permissions import CodexRequestReader
from coterie.agents.fields import LONGEST, bounded, verbatim
from coterie.errors import AgentMissing
from coterie.model import instant
from coterie.model.agent import AgentDefinition
from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import READ_ONLY, Display, Response
from coterie.model.team import Member, Mode, Permissions
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
    Usage,
    Waiting,
)
from coterie.workspace.folder import open_workspace
from tests.contract.gate import shown

HERE = Path(__file__).parent
PLAYER = HERE / "codex" / "player.py"
FIXTURES = HERE / "fixtures" / "codex"
Row = dict[str, Any]


@dataclass
class Log:
    """`ports.ChildLog` in memory."""

    living: dict[str, int] = field(default_factory=dict)
    count: int = 0

    async def starting(self, member: str, agent: str) -> str:
        self.count += 1
        return f"{member}.{self.count}"

    def started(self, mark: str, pid: int) -> None:
        self.living[mark] = pid

    def ended(self, mark: str) -> None:
        self.living.pop(mark, None)


@dataclass
class CodexHarness:
    """A project whose Codex plays recordings."""

    root: Path
    log: Log = field(default_factory=Log)
    others: dict[str, str] = field(default_factory=dict)

    def received(self) -> list[Row]:
        """What Codex received."""
        return [json.loads(line) for line in (self.root / "heard.jsonl").read_text().splitlines()]

    def replies(self) -> Row:
        """The results Codex received, by request id."""
        return {each["id"]: each["result"] for each in self.received() if "result" in each}

    @property
    def program(self) -> Path:
        return self.root / "codex"

    def play(self, recording: str | Sequence[Row], mode: str = "plain", exec_: str = "") -> None:
        """Install the program; without `exec_` it plays the same recording for every command."""
        played = FIXTURES / f"{recording}.jsonl"
        if not isinstance(recording, str):
            played = self.root / "recording.jsonl"
            played.write_text("".join(json.dumps(row) + "\n" for row in recording))
        run = f'exec "{sys.executable}" "{PLAYER}"'
        other = f'[ "$1" = exec ] && {run} "{FIXTURES / exec_}.jsonl" plain "$@"\n' if exec_ else ""
        self.program.write_text(f'#!/bin/sh\n{other}{run} "{played}" "{mode}" "$@"\n')
        self.program.chmod(0o755)

    def adapter(self) -> CodexAdapter:
        agent = AgentDefinition(name="codex", command=str(self.program))
        return CodexAdapter(agent, self.log, "auto", 120.0)

    @asynccontextmanager
    async def open(
        self, mode: Mode = "ask", thread: str | None = None
    ) -> AsyncGenerator[CodexChannel]:
        member = Member(
            id="ann",
            name="ann",
            display_name="Ann",
            agent="codex",
            permissions=Permissions(mode=mode),
        )
        project = self.root / "project"
        made = await anyio.to_thread.run_sync(
            open_workspace, project, "pair", member, {"PATH": "/usr/bin:/bin"}
        )
        made = replace(made, others=self.others)
        opened = await self.adapter().open(member, made, thread)
        try:
            yield opened  # type: ignore[misc]
        finally:
            await opened.close()


@pytest.fixture
def harness(tmp_path: Path) -> CodexHarness:
    (tmp_path / "project").mkdir()
    return CodexHarness(tmp_path)


def response(choice: str) -> Response:
    return Response(
        interaction_id="q1", task_id="k3f9", author_actor_id="you", selected_option_id=choice
    )


Hook = Callable[[Update], Any]


async def take_turn(
    opened: CodexChannel | OneShotChannel, choice: str = "reject", hook: Hook | None = None
) -> list[Update]:
    """All updates of a turn except signs of life."""
    updates: list[Update] = []
    with anyio.fail_after(60):
        async for update in opened.take_turn(Prompt("hello")):
            if isinstance(update, Asked) and choice:
                await opened.answer(update.key, response(choice))
            if hook is not None and (waited := hook(update)) is not None:
                await waited
            if not isinstance(update, Activity):
                updates.append(update)
    return updates


# -- recordings, also with noise and in pieces -------------------------------------------------

MODES = pytest.mark.parametrize("mode", ["plain", "halves", "noise"])


@MODES
async def test_approvals(harness: CodexHarness, mode: str) -> None:
    harness.play("approvals", mode)
    async with harness.open() as opened:
        told = [
            await take_turn(opened, "approve"),
            await take_turn(opened),
            await take_turn(opened, "approve"),
        ]
        told += [await take_turn(opened), await take_turn(opened)]
    assert [short_lines(turn) for turn in told] == snapshot(
        [
            [
                'starts shell {"command": "echo hi > /home/user/esc1.txt; echo rc=$?; rm -f /',
                "asks 'Run a command': 'echo hi > /home/user/esc1.txt; echo rc=$?; rm -f /hom",
                'ends {"status": "completed", "exit_code": 0, "output": "rc=0\\n"}',
                "says 'ok'",
                "completed 'ok', (2000, 100)",
            ],
            [
                'starts shell {"command": "echo hi > /home/user/esc2.txt; echo rc=$?"}',
                "asks 'Run a command': 'echo hi > /home/user/esc2.txt; echo rc=$?'",
                'fails {"status": "declined"}',
                "says 'ok, was declined'",
                "completed 'ok, was declined', (2000, 100)",
            ],
            [
                'starts apply_patch {"path": "/home/user/esc_patch.txt", "changes": [{"path":',
                "asks 'Change /home/user/esc_patch.txt': '--- /dev/null\\n+++ /home/user/esc_p",
                'ends {"status": "completed"}',
                "says 'patched'",
                "completed 'patched', (6000, 300)",
            ],
            [
                'starts apply_patch {"path": "/home/user/esc_patch2.txt", "changes": [{"path"',
                "asks 'Change /home/user/esc_patch2.txt': '--- /dev/null\\n+++ /home/user/esc_",
                'fails {"status": "declined"}',
                "says 'declined patch'",
                "completed 'declined patch', (2000, 100)",
            ],
            [
                'starts ask_user {"question": "go?"}',
                'ends {"status": "completed", "result": [{"type": "inputText", "text": "human',
                "says 'ok human'",
                "completed 'ok human', (2000, 100)",
            ],
        ]
    )


def short_lines(updates: list[Update]) -> list[str]:
    """A turn as a list of short lines."""
    return [_short_line(update)[:76] for update in updates]


def _short_line(update: Update) -> str:
    match update:
        case TextDelta(text):
            return f"says {text!r}"
        case Asked():
            return f"asks {shown(update).title!r}: {shown(update).content!r}"
        case ToolCallStarted():
            return f"starts {update.name} {json.dumps(update.input)}"
        case ToolCallFinished():
            return f"{'fails' if update.is_error else 'ends'} {json.dumps(update.output)}"
        case TurnCompleted(text, usage):
            return f"completed {text!r}, {usage and (usage.input_tokens, usage.output_tokens)}"
        case TurnFailed():
            return f"failed {update.kind}: {update.message}"
        case _:
            return repr(update)


@MODES
async def test_raw_items_reveal_a_command_without_an_item(harness: CodexHarness, mode: str) -> None:
    harness.play("raw", mode)
    async with harness.open("read") as opened:
        told = await take_turn(opened)
    assert short_lines(told) == snapshot(
        [
            'starts shell {"command": "pwd; echo x > ro.txt"}',
            'fails {"exit_code": 1, "output": "/lab/work\\n/bin/bash: line 1: ro.txt: Read',
            "says 't'",
            "completed 't', (2000, 100)",
        ]
    )


@MODES
async def test_interrupting(harness: CodexHarness, mode: str) -> None:
    harness.play("interrupt", mode)
    async with harness.open() as opened:

        def at(kind: type[Update]) -> Hook:
            return lambda update: opened.interrupt() if isinstance(update, kind) else None

        assert short_lines(await take_turn(opened, hook=at(TextDelta))) == snapshot(
            ["says 'aa'", "says 'aa'", "TurnInterrupted(text='aaaa')"]
        )
        assert short_lines(await take_turn(opened, hook=at(Activity))) == snapshot(
            ["TurnInterrupted(text='')"]
        )
        assert short_lines(await take_turn(opened, hook=at(ToolCallStarted))) == snapshot(
            [
                'starts shell {"command": "sleep 77"}',
                'fails {"status": "interrupted"}',
                "TurnInterrupted(text='')",
            ]
        )


@MODES
async def test_a_thread_taken_up_again(harness: CodexHarness, mode: str) -> None:
    harness.play("resume", mode)
    thread = "01a1dde6-3142-71a1-92f9-e683a0ca3f29"
    async with harness.open(thread=thread) as opened:
        assert opened.thread == thread
        told = await take_turn(opened)
    # 2,100 tokens in total, of which 1,050 were used before.
    assert told == [TextDelta("three"), TurnCompleted("three", Usage(1000, 50, source="codex"))]


@MODES
async def test_tools_of_an_mcp_server(harness: CodexHarness, mode: str) -> None:
    harness.play("mcp", mode)
    async with harness.open() as opened:
        told = await take_turn(opened, "approve")
    assert short_lines(told) == snapshot(
        [
            'starts mcp__team__ask_user {"question": "go?"}',
            "asks 'mcp__team__ask_user': '{\\n  \"question\": \"go?\"\\n}'",
            'ends {"status": "completed", "result": {"content": [{"type": "text", "text":',
            'starts mcp__team__elicit {"question": "name?"}',
            'ends {"status": "completed", "result": {"content": [{"type": "text", "text":',
            "says 'end'",
            "completed 'end', (3000, 150)",
        ]
    )


@pytest.mark.parametrize("mode", ["read", "ask", "accept-edits", "full"])
async def test_codex_has_to_ask_whoever_the_member_is(harness: CodexHarness, mode: Mode) -> None:
    """`full` is an answer by the gate like any other: Codex itself is never told not to ask."""
    harness.play("approvals")
    async with harness.open(mode) as opened:
        told = await take_turn(opened, "approve")
    assert len([update for update in told if isinstance(update, Asked)]) == 1
    assert isinstance(told[-1], TurnCompleted)


# -- beyond the recordings ---------------------------------------------------------------------

THREAD = "thread-1"


def asks(method: str, number: int = 1) -> Row:
    return {"dir": ">", "msg": {"id": number, "method": method}}


def answers(result: Row, number: int = 1) -> Row:
    return {"dir": "<", "msg": {"id": number, "result": result}}


def notification(method: str, **params: Any) -> Row:
    given = {"threadId": THREAD, "turnId": "turn-1", **params}
    return {"dir": "<", "msg": {"method": method, "params": given}}


def opening(**more: Any) -> list[Row]:
    return [asks("thread/start"), answers({"thread": {"id": THREAD}, **more})]


def turn(*rows: Row, status: str = "completed", error: Row | None = None) -> list[Row]:
    end = {"id": "turn-1", "status": status, "error": error}
    return [
        *opening(),
        asks("turn/start"),
        answers({"turn": {"id": "turn-1"}}),
        *rows,
        notification("turn/completed", turn=end),
    ]


async def played(harness: CodexHarness, rows: list[Row], **more: Any) -> list[Update]:
    harness.play(rows)
    async with harness.open() as opened:
        return await take_turn(opened, **more)


async def test_a_turn_without_text(harness: CodexHarness) -> None:
    assert await played(harness, turn()) == [TurnCompleted("", None)]


async def test_a_request_with_an_id_that_is_none_is_not_answered(harness: CodexHarness) -> None:
    deep: object = 1
    for _ in range(900):  # it can be read, but not written from further down the stack
        deep = [deep]
    asked = notification("item/future/ask", itemId="a")["msg"]
    odd = [{"dir": "<", "msg": {**asked, "id": key}} for key in (deep, {"a": 1})]
    assert await played(harness, turn(*odd)) == [TurnCompleted("", None)]
    assert not any(isinstance(one.get("id"), list | dict) for one in harness.received())


async def test_several_messages_and_the_last_is_the_reply(harness: CodexHarness) -> None:
    def message(key: str, text: str) -> Row:
        return notification(
            "item/completed", item={"type": "agentMessage", "id": key, "text": text}
        )

    rows = turn(
        notification("item/agentMessage/delta", itemId="a", delta="Let me "),
        notification("item/agentMessage/delta", itemId="a", delta="see\ud800"),
        message("a", "Let me see"),
        message("b", "Done."),
    )
    assert await played(harness, rows) == [
        TextDelta("Let me "),
        TextDelta("see\ufffd"),
        TextDelta("\n\n"),
        TextDelta("Done."),
        TurnCompleted("Done.", None),
    ]


@pytest.mark.parametrize(
    ("error", "kind", "retry", "words"),
    [
        ({"codexErrorInfo": "usageLimitExceeded"}, "rate_limit", False, "usage limit"),
        ({"codexErrorInfo": "rateLimitExceeded"}, "rate_limit", True, "rate limit is reached"),
        ({"codexErrorInfo": "unauthorized"}, "signed_out", False, "given to codex was rejected"),
        ({"codexErrorInfo": "contextWindowExceeded"}, "model", False, "longer than the model"),
        ({"codexErrorInfo": "badRequest"}, "model", False, "refused the request"),
        ({"message": "a invalid_request_error"}, "model", False, "refused the request"),
        ({"message": "stream disconnected: x"}, "model", True, 'was cut. It says: "stream'),
        (
            {"codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 502}}},
            "model",
            True,
            "the model service is failing",
        ),
        ({"codexErrorInfo": {"httpConnectionFailed": {}}}, "model", True, "cannot be reached"),
        ({"codexErrorInfo": {"new": None}, "message": "x"}, "model", True, 'It says: "x"'),
        ({"codexErrorInfo": {}}, "model", True, "the model service is failing"),
        (None, "model", True, "the model service is failing"),
    ],
)
async def test_failed_turns(
    harness: CodexHarness, error: Row | None, kind: str, retry: bool, words: str
) -> None:
    [end] = await played(harness, turn(status="failed", error=error))
    assert isinstance(end, TurnFailed)
    assert (end.kind, end.retry) == (kind, retry)
    assert words in end.message


def in_seconds(seconds: float) -> int:
    return int(datetime.fromisoformat(instant.now()).timestamp() + seconds)


def limits(**told: Any) -> Row:
    """What Codex reports about the account, outside of any thread."""
    params = {"rateLimits": {"limitId": "codex", "primary": None, "secondary": None, **told}}
    return {"dir": "<", "msg": {"method": "account/rateLimits/updated", "params": params}}


def window(percent: int, resets_at: object) -> Row:
    return {"usedPercent": percent, "windowDurationMins": 300, "resetsAt": resets_at}


async def used_up(
    harness: CodexHarness, *rows: Row, name: str = "usageLimitExceeded"
) -> TurnFailed:
    error = {"codexErrorInfo": name, "message": "You’ve hit your usage limit."}
    end = (await played(harness, turn(*rows, status="failed", error=error)))[-1]
    assert isinstance(end, TurnFailed)
    return end


async def test_a_usage_limit_that_ends_at_a_time(harness: CodexHarness) -> None:
    soon, later = in_seconds(3600), in_seconds(7200)
    rows = (
        limits(primary=window(100, soon), secondary=window(100, later)),
        limits(primary=window(100, soon)),  # a window that is not mentioned is unchanged
    )
    assert await used_up(harness, *rows) == TurnFailed(
        "rate_limit",
        'the account\'s usage limit is reached. It says: "You’ve hit your usage limit."',
        retry=False,
        hint="Wait for it to reset, or check the account's plan.",
        until=instant.of(datetime.fromtimestamp(later, UTC)),
    )


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"primary": window(99, in_seconds(3600))},
        {"primary": window(100, None)},
        {"primary": window(100, in_seconds(-5))},
        {"primary": window(100, in_seconds(9 * 24 * 3600))},
        {
            "primary": window(100, in_seconds(3600)),
            "rateLimitReachedType": "workspace_member_credits_depleted",
        },
    ],
    ids=["nothing", "not-reached", "untold", "past", "far", "credits"],
)
async def test_a_usage_limit_whose_end_is_not_known(harness: CodexHarness, told: Row) -> None:
    reached = limits(secondary=window(100, in_seconds(60)))
    begun_anew = limits(secondary=window(0, in_seconds(60)))
    assert (await used_up(harness, reached, begun_anew, limits(**told))).until is None


async def test_a_limit_of_the_moment_has_nothing_to_do_with_the_account(
    harness: CodexHarness,
) -> None:
    row = limits(primary=window(100, in_seconds(3600)))
    assert (await used_up(harness, row, name="rateLimitExceeded")).until is None


async def test_an_error_that_will_be_tried_again_ends_nothing(harness: CodexHarness) -> None:
    def error(more: Row, **rest: Any) -> Row:
        return notification("error", error={"message": "Reconnecting... 2/5", **more}, **rest)

    disconnected = {"responseStreamDisconnected": {"httpStatusCode": 429}}
    rows = turn(
        error({"codexErrorInfo": disconnected}, willRetry=True),
        error({"additionalDetails": "no network"}, willRetry=True),
        error({"message": "waiting"}, willRetry=True),
        error({"message": "the last"}, willRetry=False),
    )
    assert await played(harness, rows) == [
        Waiting("model", "429, retry 2 of 5"),
        Waiting("model", "no network, retry 2 of 5"),
        Waiting("model", "no answer"),
        TurnCompleted("", None),
    ]


@pytest.mark.parametrize("status", ["interrupted", "postponed"])
async def test_an_end_that_nobody_asked_for(harness: CodexHarness, status: str) -> None:
    [end] = await played(harness, turn(status=status))
    assert end == TurnFailed("protocol", f"codex ended the turn as {status!r} by itself")


async def test_a_command_that_runs_on(harness: CodexHarness) -> None:
    item = {"type": "commandExecution", "id": "c1", "command": "serve 'half"}
    said = "Process running with session ID 7"
    output = {"type": "function_call_output", "call_id": "c1", "output": said}
    rows = turn(
        notification("item/started", item=item),
        notification("rawResponseItem/completed", item=output),
    )
    assert await played(harness, rows) == [
        ToolCallStarted("c1", "shell", {"command": "serve 'half"}, "run"),
        ToolCallFinished("c1", False, {"status": "running"}),
        TurnCompleted("", None),
    ]


async def test_what_a_command_prints_is_not_taken_for_a_message_of_codex(
    harness: CodexHarness,
) -> None:
    item = {"type": "commandExecution", "id": "c1", "command": "grep -r session"}
    said = "Process exited with code 0\nOutput:\nProcess running with session ID 7\n"
    output = {"type": "function_call_output", "call_id": "c1", "output": said}
    rows = turn(
        notification("item/started", item=item),
        notification("rawResponseItem/completed", item=output),
    )
    printed = {"exit_code": 0, "output": "Process running with session ID 7\n"}
    assert (await played(harness, rows))[1] == ToolCallFinished("c1", False, printed)


async def test_commands_whose_item_never_ends(harness: CodexHarness) -> None:
    """A command stopped by the sandbox ends only in the raw items; one made by code has no end."""
    items = [
        {"type": "commandExecution", "id": f"c{number}", "command": f"touch /etc/{number}"}
        for number in (1, 2)
    ]
    said = "Chunk ID: x\nProcess exited with code 1\nOutput:\nRead-only file system\n"
    output = {"type": "function_call_output", "call_id": "c1", "output": said}
    rows = turn(
        *(notification("item/started", item=item) for item in items),
        notification("rawResponseItem/completed", item=output),
    )
    assert (await played(harness, rows))[2:] == [
        ToolCallFinished("c1", True, {"exit_code": 1, "output": "Read-only file system\n"}),
        ToolCallFinished("c2", True, {"status": "unknown"}),
        TurnCompleted("", None),
    ]


async def test_requests_nobody_can_answer_are_refused(harness: CodexHarness) -> None:
    meta = {"codex_approval_kind": "mcp_tool_call"}
    rows = turn(
        *asking("future/question", 7),
        *asking("mcpServer/elicitation/request", 8, serverName="x", _meta=None),
        *asking("mcpServer/elicitation/request", 9, serverName="x", _meta=meta),
    )
    assert await played(harness, rows) == [TurnCompleted("", None)]


async def test_an_edit_whose_diff_was_not_reported(harness: CodexHarness) -> None:
    ask = {"id": 7, "method": "item/fileChange/requestApproval", "params": {"itemId": "p1"}}
    rows = turn({"dir": "<", "msg": ask}, {"dir": ">", "msg": {"id": 7}})
    [asked, _] = await played(harness, rows)
    assert isinstance(asked, Asked)
    assert shown(asked) == Display(title="apply_patch", content="{}", content_kind="Json")
    assert asked.call is not None
    assert asked.call.action == Action("write", "apply_patch", str(harness.root / "project"))


async def test_a_diff_of_every_kind(harness: CodexHarness) -> None:
    changes = [
        {"path": "/a", "kind": {"type": "update"}, "diff": "@@ -1 +1 @@\n-x\n+y"},
        {"path": "/b", "kind": {"type": "delete"}, "diff": "gone\n"},
        {"path": "/c", "kind": "add", "diff": "new\n"},
        {"path": "/d", "kind": {"type": "update", "move_path": "/e"}, "diff": "@@ -1 +1 @@"},
    ]
    item = {"type": "fileChange", "id": "p1", "changes": changes}
    ask = {"id": 7, "method": "item/fileChange/requestApproval", "params": {"itemId": "p1"}}
    rows = turn(
        notification("item/started", item=item),
        {"dir": "<", "msg": ask},
        {"dir": ">", "msg": {"id": 7}},
    )
    [_, asked, *_] = await played(harness, rows)
    assert isinstance(asked, Asked)
    assert shown(asked).content == (
        "--- /a\n+++ /a\n@@ -1 +1 @@\n-x\n+y\n"
        "--- /b\n+++ /dev/null\n-gone\n"
        "--- /dev/null\n+++ /c\n+new\n"
        "--- /d\n+++ /e\n@@ -1 +1 @@"
    )
    assert asked.call is not None
    assert asked.call.action is not None
    assert asked.call.action.paths == ("/a", "/b", "/c", "/d", "/e")


COMMAND = "item/commandExecution/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"


def asking(method: str, number: int = 7, **params: Any) -> list[Row]:
    message = {"id": number, "method": method, "params": params}
    return [{"dir": "<", "msg": message}, {"dir": ">", "msg": {"id": number}}]


def called(name: str, given: Row, call_id: str = "c1") -> Row:
    call = {"type": "function_call", "call_id": call_id, "name": name}
    return notification("rawResponseItem/completed", item={**call, "arguments": json.dumps(given)})


def asked_in(told: list[Update]) -> list[Asked]:
    return [update for update in told if isinstance(update, Asked)]


async def test_a_question_holds_all_that_is_known_of_its_call(harness: CodexHarness) -> None:
    line = "/bin/bash -c 'make x'"
    escalated = {"cmd": "make y", "sandbox_permissions": "require_escalated"}
    project = str(harness.root / "project")
    rows = turn(
        notification("item/agentMessage/delta", itemId="a", delta="Well."),
        called("exec_command", {"cmd": "make x"}),
        *asking(COMMAND, itemId="c1", command=line, cwd="/w"),
        *asking(COMMAND, 8, itemId="c1", command=line, cwd="/w"),
        called("exec_command", escalated, "c2"),
        *asking(COMMAND, 9, itemId="c2", command="make y", reason="needed"),
    )
    first, again, outside = asked_in(await played(harness, rows))
    assert shown(first) == Display(title="Run a command", content="make x")
    assert first.call == PendingCall(
        "c1",
        "shell",
        {"command": "make x", "line": line},
        "/w",
        action=Action("run", "shell", "/w", command="make x"),
        said="Well.",
    )
    assert first.call is not None
    assert again.call == replace(first.call, number=2)
    assert shown(outside).title == "Run a command"
    assert outside.call == PendingCall(
        "c2",
        "shell",
        {"command": "make y", "line": "make y", "sandbox": "none"},
        project,
        action=Action("run", "shell", project, command="make y"),
        why="needed",
        said="Well.",
        note="It would leave Codex's sandbox, and could write anywhere.",
    )


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/bin/bash -lc 'a && b'", "a && b"),
        ("bash -c ls", "ls"),
        ("/usr/bin/zsh -lc 'x'", "x"),
        ("python3 -c ls", "python3 -c ls"),
        ("/tmp/evil/bash -c ls", "/tmp/evil/bash -c ls"),
        ("bash -c ls more", "bash -c ls more"),
        ("bash 'half", "bash 'half"),
    ],
)
def test_only_a_shell_is_taken_off_a_command(line: str, command: str) -> None:
    assert command_of(line) == command


async def test_what_else_it_may_ask(harness: CodexHarness) -> None:
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    network = {"host": "example.com", "protocol": "https"}
    typed = "write_stdin --session-id 7 'rm x\n'"
    rows = turn(
        *asking(COMMAND, 7, itemId="c1", kind="writeStdin", approvalId="c2", command=typed),
        *asking(COMMAND, 8, itemId="c1", networkApprovalContext=network),
        *asking(PERMISSIONS, 9, itemId="c3", cwd="/w", permissions=wanted),
    )
    harness.play(rows)
    async with harness.open() as opened:
        told = await take_turn(opened, "approve")
    project = str(harness.root / "project")
    assert [one.call.action for one in asked_in(told) if one.call] == [
        Action("other", "write_stdin", project),
        Action("fetch", "network", project, target="example.com"),
        Action("fetch", "request_permissions", "/w"),
    ]
    assert [shown(one).title for one in asked_in(told)] == [
        "Type into a terminal",
        "Access the network",
        "Grant more permissions",
    ]
    request = {"id": 1, "params": {"permissions": wanted}, "method": PERMISSIONS}
    found = CodexRequestReader(request, "/w", "", CodexCalls()).request()
    assert found is not None
    assert (found.yes, found.no) == (
        {"permissions": wanted, "scope": "turn"},
        {"permissions": {}, "scope": "turn"},
    )


# -- tools of Coterie --------------------------------------------------------------------------


async def test_asking_the_human_and_handing_over(harness: CodexHarness) -> None:
    harness.others = {"rex": "speed"}

    def own(number: int, tool: str, **given: Any) -> list[Row]:
        return asking("item/tool/call", number, callId=f"c{number}", tool=tool, arguments=given)

    rows = turn(
        *own(7, "ask_human", question="Which?", options=["Red", "Blue"]),
        *own(8, "ask_human", question="Why?"),
        *own(9, "hand_over", to="nobody", message=""),
        *own(10, "hand_over", to="REX", message="Look at it."),
        notification("item/completed", item={"type": "agentMessage", "id": "a", "text": "Done."}),
    )
    harness.play(rows)
    async with harness.open() as opened:
        told = await take_turn(opened, "blue")
    which, why = asked_in(told)
    assert (which.key, which.kind, shown(which).title) == ("ask.c7", "Select", "Which?")
    assert (why.key, why.kind, why.call) == ("ask.c8", "Input", None)
    assert harness.replies() == {
        7: {"contentItems": [{"type": "inputText", "text": "Blue"}], "success": True},
        8: {"contentItems": [{"type": "inputText", "text": "Nobody answered."}], "success": False},
        9: {
            "contentItems": [
                {
                    "type": "inputText",
                    "text": 'hand_over: no member "nobody" in the team; the others are rex.',
                }
            ],
            "success": False,
        },
        10: {
            "contentItems": [{"type": "inputText", "text": "ok, your turn ends here"}],
            "success": True,
        },
    }
    assert told[-1] == TurnCompleted("Done.\n\nLook at it.\n\n[NEXT: rex]", None)


async def test_a_call_of_ours_is_on_record(harness: CodexHarness) -> None:
    item = {"type": "dynamicToolCall", "id": "c1", "tool": "ask_human", "arguments": {"q": 1}}
    said = [{"type": "inputText", "text": "Blue"}]
    done = {**item, "status": "completed", "contentItems": said, "success": True}
    rows = turn(notification("item/started", item=item), notification("item/completed", item=done))
    assert (await played(harness, rows))[:2] == [
        ToolCallStarted("c1", "ask_human", {"q": 1}, "read"),
        ToolCallFinished("c1", False, {"status": "completed", "result": said}),
    ]


async def test_an_answer_to_something_else_is_dropped(harness: CodexHarness) -> None:
    harness.play(turn())
    async with harness.open() as opened:
        await opened.answer("7", response("approve"))
        await opened.interrupt()  # nothing is running
        assert await take_turn(opened) == [TurnCompleted("", None)]


@pytest.mark.parametrize("status", ["failed", None])
async def test_a_command_that_outlived_its_turn(
    harness: CodexHarness, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait for its end; without one, it counts as interrupted."""
    monkeypatch.setattr(channel, "TIMEOUT", 30.0 if status else 0.5)
    item = {"type": "commandExecution", "id": "c1", "command": "sleep 9"}
    ended = [notification("item/completed", item={**item, "status": status})] if status else []
    rows = [
        *turn(
            notification("item/started", item=item),
            asks("turn/interrupt", 2),
            answers({}, 2),
            status="interrupted",
        ),
        asks("thread/backgroundTerminals/list", 3),
        answers({"data": [{"itemId": "c1"}]}, 3),
        asks("thread/backgroundTerminals/clean", 4),
        answers({}, 4),
        *ended,
    ]
    harness.play(rows)
    async with harness.open() as opened:
        told = await take_turn(
            opened,
            hook=lambda update: opened.interrupt() if isinstance(update, ToolCallStarted) else None,
        )
    assert told == [
        ToolCallStarted("c1", "shell", {"command": "sleep 9"}, "run"),
        ToolCallFinished("c1", True, {"status": status or "interrupted"}),
        TurnInterrupted(""),
    ]


async def test_an_interrupted_turn_is_one_even_if_nothing_can_be_cleaned(
    harness: CodexHarness,
) -> None:
    refusal = {"dir": "<", "msg": {"id": 3, "error": {"message": "unknown method"}}}
    rows = turn(
        notification("item/agentMessage/delta", itemId="a", delta="Well"),
        asks("turn/interrupt", 2),
        answers({}, 2),
        status="interrupted",
    )
    harness.play([*rows, asks("thread/backgroundTerminals/list", 3), refusal])
    async with harness.open() as opened:
        told = await take_turn(
            opened,
            hook=lambda update: opened.interrupt() if isinstance(update, TextDelta) else None,
        )
    assert told == [TextDelta("Well"), TurnInterrupted("Well")]


async def test_interrupted_before_it_began(harness: CodexHarness) -> None:
    """The turn's id is not known yet: the interrupt is deferred until it is."""
    rows = turn(asks("turn/interrupt", 2), answers({}, 2), status="interrupted")
    harness.play(rows)
    told: list[Update] = []
    async with harness.open() as opened, anyio.create_task_group() as group:

        async def taking() -> None:
            told.extend(await take_turn(opened))

        group.start_soon(taking)
        await anyio.lowlevel.checkpoint()
        await opened.interrupt()
        await opened.interrupt()
    assert told == [TurnInterrupted("")]


async def test_one_that_will_not_be_interrupted_is_ended(
    harness: CodexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.3)
    harness.play(turn(notification("item/agentMessage/delta", itemId="a", delta="Well"))[:-1])
    async with harness.open() as opened:
        told = await take_turn(
            opened,
            hook=lambda update: opened.interrupt() if isinstance(update, TextDelta) else None,
        )
        assert told == [TextDelta("Well"), TurnInterrupted("Well")]
        assert not opened.alive


async def test_what_one_that_will_not_be_interrupted_ran_is_interrupted_too(
    harness: CodexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.3)
    item = {"type": "commandExecution", "id": "c1", "command": "sleep 77"}
    harness.play(turn(notification("item/started", item=item))[:-1])
    async with harness.open() as opened:
        told = await take_turn(
            opened,
            hook=lambda update: opened.interrupt() if isinstance(update, ToolCallStarted) else None,
        )
    assert told == [
        ToolCallStarted("c1", "shell", {"command": "sleep 77"}, "run"),
        ToolCallFinished("c1", True, {"status": "interrupted"}),
        TurnInterrupted(""),
    ]


async def test_an_interrupted_turn_asks_nobody(harness: CodexHarness) -> None:
    command = asking(COMMAND, 7, itemId="c1", command="make", cwd="/w")
    question = {"callId": "c2", "tool": "ask_human", "arguments": {"question": "Why?"}}
    rows = turn(
        notification("item/agentMessage/delta", itemId="a", delta="Well"),
        asks("turn/interrupt", 2),
        answers({}, 2),
        *command,
        *asking("item/tool/call", 8, **question),
        status="interrupted",
    )
    harness.play(rows)
    async with harness.open() as opened:
        told = await take_turn(
            opened,
            hook=lambda update: opened.interrupt() if isinstance(update, TextDelta) else None,
        )
    assert told == [TextDelta("Well"), TurnInterrupted("Well")]


async def test_an_interrupt_ends_what_is_run_for_a_command_that_only_reads(
    harness: CodexHarness,
) -> None:
    """Codex waits for the output of our own run, and an interrupt does not."""
    pipe = harness.root / "project" / "endless"
    os.mkfifo(pipe)
    interrupting = (asks("turn/interrupt", 2), answers({}, 2))
    harness.play(turn(*interrupting, status="interrupted"))
    async with harness.open() as opened:
        permits = opened._permits
        assert permits is not None, "commands that only read need bubblewrap"
        command = f"cat {pipe.name}"
        waiting = hook.condition(str(permits.folder), hook.key_of("c1", command)) + command
        line = shlex.join(["/bin/bash", "-c", waiting])
        params = {"itemId": "c1", "command": line, "cwd": str(pipe.parent)}
        harness.play(
            turn(
                {"dir": "<", "msg": {"id": 7, "method": COMMAND, "params": params}},
                *interrupting,
                {"dir": ">", "msg": {"id": 7}},  # Codex has received it when the turn ends
                status="interrupted",
            )
        )
    told, answered = list[Update](), anyio.Event()
    async with harness.open() as opened, anyio.create_task_group() as group:

        async def interrupt_once_it_runs() -> None:
            # Opening it waits for the reader.
            with anyio.fail_after(20):
                opening = partial(os.open, pipe, os.O_WRONLY)
                feed = await anyio.to_thread.run_sync(opening, abandon_on_cancel=True)
            await opened.interrupt()
            with anyio.fail_after(20):
                await answered.wait()
            os.close(feed)

        async def run_it(key: str) -> None:
            await opened.answer(key, response(READ_ONLY))
            answered.set()

        def answer(update: Update) -> None:
            if isinstance(update, Asked):
                group.start_soon(run_it, update.key)
                group.start_soon(interrupt_once_it_runs)

        told += await take_turn(opened, "", answer)
    assert isinstance(told[-1], TurnInterrupted)
    assert list(harness.replies().items()) == [(7, {"decision": "decline"})]


# -- failures ----------------------------------------------------------------------------------


async def test_the_process_ends_in_the_middle(harness: CodexHarness) -> None:
    harness.play(turn(notification("item/agentMessage/delta", itemId="a", delta="Well")), "exit:9")
    async with harness.open() as opened:
        told = await take_turn(opened)
        assert told[0] == TextDelta("Well")
        end = told[-1]
        assert isinstance(end, TurnFailed)
        assert (end.kind, end.exit_code, end.retry) == ("exit", 3, True)
        assert end.message == "codex ended with exit code 3 in the middle of the turn"
        assert end.stderr_tail.endswith("ERROR it broke")
        assert not opened.alive
        assert opened.pid is None


async def test_a_turn_that_is_refused(harness: CodexHarness) -> None:
    refusal = {"dir": "<", "msg": {"id": 1, "error": {"code": -32600, "message": "not now"}}}
    told = await played(harness, [*opening(), asks("turn/start"), refusal])
    assert told == [TurnFailed("protocol", "codex refused turn/start: not now")]


async def missing(harness: CodexHarness) -> str:
    with pytest.raises(AgentMissing) as caught:
        async with harness.open():
            pass
    assert harness.log.living == {}
    return str(caught.value)


async def test_it_ends_at_once(harness: CodexHarness) -> None:
    harness.play([], "end")
    assert "it ended with exit code 1\nboom" in await missing(harness)


async def test_it_starts_and_says_nothing(
    harness: CodexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.START", 0.5)
    harness.play([], "silent")
    assert "it did not respond within 0.5 s" in await missing(harness)


async def test_it_opens_no_thread(harness: CodexHarness) -> None:
    refusal = {"dir": "<", "msg": {"id": 1, "error": {"message": "bad settings"}}}
    harness.play([asks("thread/start"), refusal])
    assert "it refused thread/start: bad settings" in await missing(harness)


@pytest.mark.parametrize("answer", [None, {}, {"thread": None}, {"thread": {"id": 5}}])
async def test_it_answers_without_a_thread(harness: CodexHarness, answer: Row | None) -> None:
    right = {"activePermissionProfile": {"id": "coterie"}, "approvalPolicy": "untrusted"}
    told = None if answer is None else {**right, **answer}
    harness.play([asks("thread/start"), {"dir": "<", "msg": {"id": 1, "result": told}}])
    assert "it " in await missing(harness)


@pytest.mark.parametrize("data", [None, 5, [None], [{"skills": None}], [{"skills": [5]}]])
async def test_it_lists_no_skills(harness: CodexHarness, data: object) -> None:
    harness.play([asks("skills/list"), answers({"data": data}), *opening()])
    async with harness.open() as opened:
        assert opened.thread == THREAD


@pytest.mark.parametrize("more", [{"activePermissionProfile": {"id": ":workspace"}}])
async def test_it_keeps_to_other_limits(harness: CodexHarness, more: Row) -> None:
    harness.play(opening(**more))
    assert "it did not apply the permissions it was given" in await missing(harness)


async def test_nobody_signed_in(harness: CodexHarness) -> None:
    told = {"account": None, "requiresOpenaiAuth": True}
    harness.play([asks("account/read"), answers(told), *opening()])
    async with harness.open() as opened:
        assert harness.log.living == {}
        assert (opened.thread, opened.pid, opened.alive) == (None, None, False)
        assert await take_turn(opened) == [
            TurnFailed(
                "signed_out",
                "codex is not signed in",
                retry=False,
                hint="In another terminal: codex login (it serves every codex member). "
                "Then try again.",
            )
        ]
        await opened.answer("1", response("approve"))
        await opened.interrupt()


async def test_it_is_not_installed(harness: CodexHarness) -> None:
    assert "No such file or directory" in await missing(harness)


async def test_opening_is_broken_off(harness: CodexHarness) -> None:
    harness.play([], "silent")
    with anyio.move_on_after(0.5) as scope:
        async with harness.open():
            pass
    assert scope.cancelled_caught
    assert harness.log.living == {}


# -- without an app-server ---------------------------------------------------------------------

REFUSED = [asks("initialize"), {"dir": "<", "msg": {"id": 1, "error": {"message": "what?"}}}]


async def test_exec(harness: CodexHarness) -> None:
    told: dict[str, list[str]] = {}
    for recording in ("exec_shell", "exec_patch", "exec_mcp", "exec_401"):
        harness.play(REFUSED, exec_=recording)
        async with harness.open() as opened:
            assert isinstance(opened, OneShotChannel)
            updates = await take_turn(opened)
            await opened.answer("1", response("approve"))  # it never asks
            assert opened.thread is not None
        told[recording] = short_lines(updates)
    assert told == snapshot(
        {
            "exec_shell": [
                'starts shell {"command": "echo hi; ls; id -u"}',
                'ends {"status": "completed", "exit_code": 0, "output": "hi\\nnew.txt\\n0\\n"}',
                "says 'done shell\\n\\n'",
                "completed 'done shell', (2000, 100)",
            ],
            "exec_patch": [
                'starts apply_patch {"path": "/lab/work/new.txt", "changes": [{"path": "/lab/',
                'ends {"status": "completed"}',
                "says 'patched\\n\\n'",
                "completed 'patched', (2000, 100)",
            ],
            "exec_mcp": [
                'starts mcp__team__ask_user {"question": "go?"}',
                'ends {"status": "completed", "result": {"content": [{"type": "text", "text":',
                "says 'end\\n\\n'",
                "completed 'end', (2000, 100)",
            ],
            "exec_401": [
                'failed signed_out: the key or login given to codex was rejected. It says: "u',
            ],
        }
    )


async def test_a_codex_that_does_not_know_the_subcommand(harness: CodexHarness) -> None:
    """It exits at once, perhaps before anybody reads; repeated often enough to see both cases."""
    harness.program.write_text("#!/bin/sh\necho 'error: unrecognized subcommand' >&2; exit 2\n")
    harness.program.chmod(0o755)
    for _ in range(20):
        with anyio.fail_after(30):
            async with harness.open() as opened:
                assert isinstance(opened, OneShotChannel)


def test_exec_with_fields_of_any_type() -> None:
    run = channel.ExecRun("", None, channel.Tokens())
    for kind in ("item.started", "item.completed", "turn.completed", "turn.failed"):
        for name in ("item", "usage", "error"):
            for odd in (None, 5, "x", [1], {"input_tokens": None}):
                assert list(run.take({"type": kind, name: odd}))


async def test_exec_that_ends_without_a_message(harness: CodexHarness) -> None:
    harness.play(REFUSED)
    async with harness.open() as opened:
        [end] = await take_turn(opened)
    assert isinstance(end, TurnFailed)
    assert (end.kind, end.exit_code) == ("exit", 0)


async def test_exec_that_ignores_an_interrupt_is_ended(
    harness: CodexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.3)
    harness.play(REFUSED)
    async with harness.open() as opened:
        harness.program.write_text("#!/bin/sh\ntrap '' INT\necho '{}'\nexec sleep 3600\n")
        assert await take_turn(opened, hook=lambda update: opened.interrupt()) == [
            TurnInterrupted("")
        ]


async def test_a_further_interrupt_postpones_nothing(
    harness: CodexHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.agents.program.AFTER_INTERRUPT", 0.5)
    harness.play(REFUSED)
    async with harness.open() as opened:
        speaking = "while :; do echo '{}'; sleep 0.05; done"
        harness.program.write_text(f"#!/bin/sh\ntrap '' INT\n{speaking}\n")
        assert await take_turn(opened, hook=lambda update: opened.interrupt()) == [
            TurnInterrupted("")
        ]


async def test_exec_that_is_gone(harness: CodexHarness) -> None:
    harness.play(REFUSED)
    async with harness.open() as opened:
        harness.program.unlink()
        [end] = await take_turn(opened)
        assert isinstance(end, TurnFailed)
        assert (end.kind, end.retry) == ("missing", False)


# -- units -------------------------------------------------------------------------------------


def test_limits(harness: CodexHarness) -> None:
    member = Member(id="ann", name="ann", display_name="Ann")
    assert harness.adapter().limits(member) == Limits(1800, 120)
    hasty = member.model_copy(update={"timeout_ms": 5000, "quiet_after_ms": 1000})
    assert harness.adapter().limits(hasty) == Limits(5, 1)


def test_arguments() -> None:
    given = [
        "exec",
        "--json",
        "-m",
        "gpt-5.5",
        "--sandbox",
        "read-only",
        "-c",
        "a=1",
        "--enable",
        "x",
    ]
    assert passed_on(given) == ("-c", 'model="gpt-5.5"', "-c", "a=1", "--enable", "x")
    assert passed_on(["--model=o", "--sandbox=read-only", "-C"]) == ("-c", 'model="o"')


def test_calls_reported_twice_or_late() -> None:
    calls = CodexCalls()
    item = {"type": "commandExecution", "id": "c1", "command": "/bin/bash -lc 'echo hi'"}
    call = {"type": "function_call", "call_id": "c1", "name": "exec_command"}
    command = {**call, "arguments": '{"cmd": "echo hi", "workdir": "/x"}'}
    assert list(calls.raw(command)) == [
        ToolCallStarted("c1", "shell", {"command": "echo hi", "workdir": "/x"}, "run")
    ]
    assert list(calls.item_started(item)) == []
    running = {"type": "function_call_output", "call_id": "c1", "output": "still running"}
    assert list(calls.raw(running)) == []
    done = {**item, "status": "completed", "exitCode": 0, "aggregatedOutput": "hi\n"}
    ended = ToolCallFinished("c1", False, {"status": "completed", "exit_code": 0, "output": "hi\n"})
    assert list(calls.item_completed(done)) == [ended]
    assert list(calls.item_completed(done)) == []


def test_calls_of_all_kinds() -> None:
    calls = CodexCalls()
    told = [
        *calls.raw({"type": "message", "role": "user"}),
        *calls.raw(
            {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "x"}
        ),
        *calls.raw({"type": "custom_tool_call_output", "call_id": "a", "output": "refused"}),
        *calls.raw({"type": "function_call", "call_id": "b", "name": "t", "namespace": "mcp__s"}),
        *calls.raw({"type": "function_call_output", "call_id": "b", "output": {"x": 1}}),
        *calls.raw({"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}}),
        *calls.raw({"type": "tool_search_output", "call_id": "c", "output": [{"text": "one"}, 2]}),
        *calls.raw({"type": "function_call", "call_id": "d", "name": "exec_command"}),
        *calls.raw({"type": "function_call_output", "call_id": "d", "output": "rejected"}),
        *calls.raw({"type": "function_call_output", "call_id": "unknown", "output": "x"}),
    ]
    assert told == [
        ToolCallStarted("a", "apply_patch", {"input": "x"}, "write"),
        ToolCallFinished("a", True, {"output": "refused"}),
        ToolCallStarted("b", "mcp__s__t", {}),
        ToolCallFinished("b", False, {"output": '{"x": 1}'}),
        ToolCallStarted("c", "tool_search_call", {"query": "q"}, "read"),
        ToolCallFinished("c", False, {"output": "one"}),
        ToolCallStarted("d", "shell", {"command": None}, "run"),
        ToolCallFinished("d", True, {"output": "rejected"}),
    ]


def test_what_is_kept_is_bounded() -> None:
    long = bounded({"a": ["x" * (LONGEST + 1)], "n": 1})
    assert long["a"][0] == "x" * LONGEST + f"… ({LONGEST + 1} characters)"
    assert long["n"] == 1


LEAVES = ("", 1, 'a "b" é', None, [], {}, {"a": {"b é": [1.5, True]}, "c": [[], "d", {}]})


def nested(leaf: object, levels: int) -> object:
    for _ in range(levels):
        leaf = [leaf]
    return leaf


def test_what_is_approved_is_whole_however_deep() -> None:
    """Two calls that differ only far inside are not the same call."""
    texts: list[str] = []
    for leaf in LEAVES:
        kept = verbatim(nested(leaf, 100_000))
        for _ in range(40):
            [kept] = kept
        texts.append(kept)
    around = ("[" * (100_000 - 40), "]" * (100_000 - 40))
    dumped = [json.dumps(leaf, ensure_ascii=False) for leaf in LEAVES]
    assert texts == [text.join(around) for text in dumped]
    assert "\ufffd" in str(verbatim(nested("\ud800", 41)))  # which no store could hold
