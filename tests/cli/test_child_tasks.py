"""A ticket is a task of its own below its session: its log, questions and costs are its own."""

from __future__ import annotations

import pytest

from tests.cli.command import Cli
from tests.cli.crew import Crew, registered


@pytest.fixture
def crew(bare: Cli) -> Crew:
    return Crew(registered(bare)).furnish(retries=0, replans=0)


def test_a_ticket_has_what_is_its_own(crew: Crew) -> None:
    assert crew("run", "--yes", "Add coupons with-check").code == 3
    (session,) = crew("tasks", "--json").of("task")
    name = str(session["id"])
    assert (session["status"], session["questions"]) == ("waiting", ["q1"])

    # What was said and asked about a ticket is told there, and with its session.
    entries = crew("log", "last/t3", "--json").lines
    said = [one["member"] for one in entries if one["type"] == "message"]
    assert said == ["mira", "wren"]
    assert {one["task"] for one in entries if one["type"] == "message"} == {f"{name}/T3"}
    assert [one["id"] for one in entries if one["type"] == "interaction"] == ["q1"]
    assert {one["id"] for one in entries if one["type"] == "ticket"} == {"T3"}
    assert [one["status"] for one in entries if one["type"] == "task"] == ["created", "running"]
    assert all(one["duration_ms"] is not None for one in entries if one["type"] == "message")
    whole = crew("log", "last", "--json").lines
    messages = [str(one["task"]) for one in whole if one["type"] == "message"]
    assert messages.count(f"{name}/T3") == 2
    assert messages.count(name) == 3, "the goal, the clarification and the plan"
    assert {f"{name}/T1", f"{name}/T2"} < set(messages)

    # The question names the ticket; its session is what can be resumed.
    (asked,) = crew("inbox", "--json").of("interaction")
    assert (asked["task"], asked["task_title"]) == (f"{name}/T3", "Form with-check")
    assert f"{name}/T3 Form with-check" in crew("inbox").out
    detail = crew("show", "last/T3", "--json").of("ticket")[0]
    assert (detail["status"], [one["id"] for one in detail["questions"]]) == ("waiting", ["q1"])
    (shown,) = crew("show", "last", "--json").of("task")
    assert [(one["id"], one["status"]) for one in shown["children"]] == [
        (f"{name}/T1", "completed"),
        (f"{name}/T2", "completed"),
        (f"{name}/T3", "waiting"),
    ]

    # What a ticket cost is what its turns cost, and all of it is its session's.
    own = {str(one["key"]): one["turns"] for one in crew("cost", "last/T3", "--json").of("cost")}
    assert own == {"mira": 1, "wren": 1}
    parts = crew("cost", "last", "--by", "ticket", "--json").of("cost")
    turns = {str(one["key"]): one["turns"] for one in parts}
    assert turns[f"{name}/T3"] == 2
    (total,) = crew("cost", "--by", "task", "--json").of("cost")
    assert (total["key"], total["turns"]) == (name, sum(turns.values()))

    answered = crew("answer", "--all-of", "last/T3", "once")
    assert f"coterie resume {name}" in answered.out
    assert crew("resume", name).code == 0
    assert [one["status"] for one in crew("show", name, "--json").of("task")[0]["children"]] == [
        "completed"
    ] * 3
    ended = crew("log", f"{name}/T3", "--json").of("task")
    assert ended[-1]["status"] == "completed"


REFUSED = {
    ("log", "last/T9"): "No ticket T9",
    ("show", "last/T9"): "No ticket T9",
    ("cancel", "last/T1", "--yes"): "is run as a whole",
    ("resume", "last/T1"): "is run as a whole",
    ("stop", "last/t1"): "is run as a whole",
}


def test_a_ticket_ends_with_its_session_and_is_not_run_alone(crew: Crew) -> None:
    assert crew("run", "--yes", "Add coupons with-check").code == 3
    for words, said in REFUSED.items():
        ran = crew(*words)
        assert (ran.code, said in ran.err) == (2, True), ran.err
    assert crew("cancel", "last", "--yes").code == 0
    (shown,) = crew("show", "last", "--json").of("task")
    assert [one["status"] for one in shown["children"]] == ["completed", "completed", "canceled"]
    assert crew("inbox", "--json").of("interaction") == []
    assert "No tool call" in crew("audit", "last/T3").out
