"""`coterie log`: who said, ran, changed and asked what, and what it cost."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from coterie.model.conversation import Message
from coterie.model.interaction import Response
from coterie.model.journal import AppendEvent, AppendMessage, CloseTurn, OpenTurn
from coterie.model.task import TaskCompleted, UserInteractionResponded
from tests.cli.command import Cli
from tests.cli.recorded import asks, at, record, wants_to_run
from tests.cli.test_audit import completed, requested


def answered(name: str, second: int, choice: str, text: str | None = None) -> AppendEvent:
    response = Response(
        interaction_id=name, task_id="k3f9", author_actor_id="you",
        selected_option_id=choice, input_value=text, comment=text,
    )  # fmt: skip
    return AppendEvent(UserInteractionResponded(task_id="k3f9", at=at(second), response=response))


def message(seq: int, member: str, text: str, second: int, turn: int = 0) -> AppendMessage:
    return AppendMessage(Message("k3f9", seq, member, text, at(second), turn))


COST = json.dumps(
    {"input_tokens": 8000, "output_tokens": 200, "cost_usd": 0.03, "source": "claude"}
)


def record_turns(cli: Cli) -> None:
    """Record a turn with everything in it, after one that failed."""
    record(
        cli,
        OpenTurn("k3f9", "turn/1", 1, "ada", 1, at(2)),
        CloseTurn("k3f9", "turn/1", 1, at(3), "failed", "rate limit until 12:30", None),
        OpenTurn("k3f9", "turn/1", 2, "ada", 1, at(4)),
        requested("c1", "Read", 5, file_path="cart.py"),
        completed("c1", "Read", 6),
        requested("c2", "Bash", 7, command="npm install stripe"),
        asks(wants_to_run("q1", "npm install stripe"), 8),
        answered("q1", 9, "reject", "use pnpm"),
        completed("c2", "Bash", 10, failed=True, denied="use pnpm"),
        requested("c3", "Bash", 11, command="pnpm add stripe"),
        asks(wants_to_run("q2", "pnpm add stripe", rule="run(pnpm add *)"), 12),
        answered("q2", 13, "rule", "run(pnpm add *)"),
        completed("c3", "Bash", 14),
        requested("c4", "Edit", 15, file_path="cart.py"),
        completed("c4", "Edit", 16, failed=True),
        requested("c5", "WebSearch", 17, query="stripe api"),
        completed("c5", "WebSearch", 18),
        message(2, "ada", "Done.\nTwo files.", 19, turn=1),
        CloseTurn("k3f9", "turn/1", 2, at(19), "completed", None, None, COST),
        AppendEvent(TaskCompleted(task_id="k3f9", at=at(20), reason="done", summary="Done.")),
    )


def test_one_timeline(in_process: Cli) -> None:
    record_turns(in_process)
    assert in_process("log", "k3f9").out.replace("2026-01-31 ", "") == snapshot("""\
k3f9  chat  Add coupons
  ada      claude  .coterie/teams/pair/ada
  rex      codex  .coterie/teams/pair/rex
12:00:00  coterie  task created
12:00:00  you      Add coupons
12:00:01  coterie  task running
12:00:03  ada      ! ada failed (try 1): rate limit until 12:30
12:00:06  ada      ✓ used Read cart.py  0.6s
12:00:08  ada      ▲ wants to run: npm install stripe · q1
12:00:09  ada      q1 answered by you: deny: use pnpm
12:00:10  ada      ✗ not run: npm install stripe  (use pnpm)
12:00:12  ada      ▲ wants to run: pnpm add stripe · q2
12:00:13  ada      q2 answered by you: rule: run(pnpm add *)
12:00:14  ada      ✓ ran pnpm add stripe  1.4s
12:00:16  ada      ✗ used Edit cart.py  failed  1.6s
12:00:18  ada      ✓ used WebSearch stripe api  1.8s
12:00:19  ada      Done.
12:00:19  ada      Two files.
12:00:19  ada      (15s · 8.2k tokens · $0.03)
12:00:20  coterie  task completed
""")


def test_one_object_a_line(in_process: Cli) -> None:
    record_turns(in_process)
    lines = in_process("log", "k3f9", "--json").lines
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert [(line["type"], line.get("status") or line.get("state")) for line in lines] == snapshot(
        [
            ("task", "created"),
            ("message", None),
            ("task", "running"),
            ("error", None),
            ("tool_call", "started"),
            ("tool_call", "completed"),
            ("tool_call", "started"),
            ("interaction", "open"),
            ("interaction", "answered"),
            ("tool_call", "completed"),
            ("tool_call", "started"),
            ("interaction", "open"),
            ("interaction", "answered"),
            ("tool_call", "completed"),
            ("tool_call", "started"),
            ("tool_call", "completed"),
            ("tool_call", "started"),
            ("tool_call", "completed"),
            ("message", None),
            ("task", "completed"),
        ]
    )
    (reply,) = [line for line in lines if line["type"] == "message" and line["member"] == "ada"]
    assert (reply["usage"], reply["duration_ms"]) == snapshot(
        ({"input_tokens": 8000, "output_tokens": 200, "cost_usd": 0.03, "source": "claude"}, 15000)
    )
    denied = [line["denied"] for line in lines if line.get("denied")]
    assert denied == ["use pnpm"]


def test_calls_without_an_end(in_process: Cli) -> None:
    record(
        in_process,
        requested("c1", "Bash", 5, command="make"),
        requested("c2", "Bash", 7, command="npm ci"),
        asks(wants_to_run("q1", "npm ci"), 8),
    )
    assert in_process("log").out.replace("2026-01-31 ", "").splitlines()[-3:] == snapshot(
        [
            "12:00:05  ada      ? ran make  outcome unknown",
            "12:00:07  ada      ✗ not run: npm ci  (nobody approved it)",
            "12:00:08  ada      ▲ wants to run: npm ci · q1",
        ]
    )


def test_a_clock_that_was_set_back_does_not_turn_the_order(in_process: Cli) -> None:
    record(
        in_process,
        requested("c1", "Bash", 50, command="first"),
        completed("c1", "Bash", 7),
        requested("c2", "Bash", 8, command="second"),
        completed("c2", "Bash", 9),
    )
    ran = [line["input"]["command"] for line in in_process("log", "--json").of("tool_call")]
    assert ran == ["first", "first", "second", "second"]


def test_attach_without_a_terminal_is_the_log_as_it_grows(cli: Cli) -> None:
    with cli.start("chat", "--agents", "ada", "ada-hangs please") as started:
        started.until("ada-hangs please")
        with cli.start("attach", "--json") as following:
            following.until('"status":"running"')
            cli("stop", "last")
            *_, last = following.out
        assert (json.loads(last)["type"], json.loads(last)["reason"]) == ("result", "stopped")
        assert following.returncode == 130
    refused = cli("attach", "last")
    assert (refused.code, "is not running" in refused.err, "coterie resume" in refused.err) == (
        2,
        True,
        True,
    )


REPORT = '{"status": "completed", "outputs": ["a.py"], "issues": []}'
FENCED = f"```json\n{REPORT}\n```"
SHORT = "[report: completed]"


@pytest.mark.parametrize(
    ("step", "text", "shown"),
    [
        ("turn/1", f"Fixed:\n{FENCED}", ["Fixed:", "```json", REPORT, "```"]),
        ("turn/1", '{"tasks": []}', ['{"tasks": []}']),
        ("own/review/1", '{"decision": "approved"}', ['{"decision": "approved"}']),
        ("phase/1/step/review/1/ask/lead/lead/said/1", '{"issues": []}', ['{"issues": []}']),
        ("ticket/T1/at/3/work/said/1", f"Did it.\n{FENCED}\nBye.", ["Did it.", SHORT, "Bye."]),
        ("ticket/T1/at/3/work/said/2", REPORT, [SHORT]),
        ("ticket/T1/at/3/work/said/1", f'{{"payload": {REPORT}}}', [SHORT]),
        ("ticket/T1/at/3/work/said/1", '{"issues": []}', ['{"issues": []}']),
        ("manager/T1/at/3/review/2/said/1", '{"decision": "changes_requested"}', [
            "[review: changes requested]"
        ]),
        ("plan/1/try/1/said/1", '{"tasks": [1, 2]}', ["[plan: 2 tickets]"]),
        ("clarify/1/said/1", '{"status": "clear", "tasks": []}', ["[clarification: clear]"]),
    ],
)  # fmt: skip
def test_only_a_reply_that_was_asked_for_as_a_payload_is_shortened(
    in_process: Cli, step: str, text: str, shown: list[str]
) -> None:
    record(
        in_process,
        OpenTurn("k3f9", step, 1, "ada", 1, at(4)),
        message(2, "ada", text, 5, turn=1),
        CloseTurn("k3f9", step, 1, at(5), "completed", None, None, None),
    )
    lines = in_process("log").out.splitlines()
    assert [line[30:] for line in lines if " ada      " in line][1:-1] == shown
