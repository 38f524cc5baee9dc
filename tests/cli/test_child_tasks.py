"""A ticket is a separate task below its session, with its own log, questions and costs."""

from __future__ import annotations

import pytest

from coterie.model.conversation import Message
from coterie.model.journal import AppendAudit, AppendMessage, CloseTurn, OpenTurn
from coterie.model.tool_call import AuditEntry
from tests.cli.command import Cli, InProcessCli
from tests.cli.recorded import asks, at, plain, record
from tests.cli.ticket_project import TicketProject, register_agents


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up(retries=0, replans=0)


def test_a_ticket_has_what_is_its_own(project: TicketProject) -> None:
    assert project("run", "--yes", "Add coupons with-check").code == 3
    (session,) = project("tasks", "--json").of("task")
    name = str(session["id"])
    assert (session["status"], session["questions"]) == ("waiting", ["q1"])

    # Messages and questions about a ticket appear in its own log and in its session's.
    entries = project("log", "last/t3", "--json").lines
    said = [one["member"] for one in entries if one["type"] == "message"]
    assert said == ["mira", "wren"]
    assert {one["task"] for one in entries if one["type"] == "message"} == {f"{name}/T3"}
    assert [one["id"] for one in entries if one["type"] == "interaction"] == ["q1"]
    assert {one["id"] for one in entries if one["type"] == "ticket"} == {"T3"}
    assert [one["status"] for one in entries if one["type"] == "task"] == ["created", "running"]
    assert all(one["duration_ms"] is not None for one in entries if one["type"] == "message")
    whole = project("log", "last", "--json").lines
    messages = [str(one["task"]) for one in whole if one["type"] == "message"]
    assert messages.count(f"{name}/T3") == 2
    assert messages.count(name) == 3, "the goal, the clarification and the plan"
    assert {f"{name}/T1", f"{name}/T2"} < set(messages)

    # The question names the ticket; what can be resumed is its session.
    (asked,) = project("inbox", "--json").of("interaction")
    assert (asked["task"], asked["task_title"]) == (f"{name}/T3", "Form with-check")
    assert f"{name}/T3 Form with-check" in project("inbox").out
    detail = project("show", "last/T3", "--json").of("ticket")[0]
    assert (detail["status"], [one["id"] for one in detail["questions"]]) == ("waiting", ["q1"])
    (shown,) = project("show", "last", "--json").of("task")
    assert [(one["id"], one["status"]) for one in shown["children"]] == [
        (f"{name}/T1", "completed"),
        (f"{name}/T2", "completed"),
        (f"{name}/T3", "waiting"),
    ]

    # A ticket costs what its turns cost, and all of that counts toward its session.
    own = {str(one["key"]): one["turns"] for one in project("cost", "last/T3", "--json").of("cost")}
    assert own == {"mira": 1, "wren": 1}
    parts = project("cost", "last", "--by", "ticket", "--json").of("cost")
    turns = {str(one["key"]): one["turns"] for one in parts}
    assert turns[f"{name}/T3"] == 2
    (total,) = project("cost", "--by", "task", "--json").of("cost")
    assert (total["key"], total["turns"]) == (name, sum(turns.values()))

    answered = project("answer", "--all-of", "last/T3", "once")
    assert f"coterie resume {name}" in answered.out
    assert project("resume", name).code == 0
    assert [one["status"] for one in project("show", name, "--json").of("task")[0]["children"]] == [
        "completed"
    ] * 3
    assert "+again = False" in project("diff", f"{name}/T3").out
    assert [
        one["files"][0]["path"]
        for one in project("diff", "last/t1", "--json").of("diff")[0]["patches"]
    ] == ["T1.py"]
    assert project("tickets", f"{name}/T3").out == project("show", f"{name}/T3").out
    ended = project("log", f"{name}/T3", "--json").of("task")
    assert ended[-1]["status"] == "completed"


REFUSED = {
    ("log", "last/T9"): "No ticket T9",
    ("show", "last/T9"): "No ticket T9",
    ("cancel", "last/T1", "--yes"): "only the whole session",
    ("resume", "last/T1"): "only the whole session",
    ("stop", "last/t1"): "only the whole session",
}


def test_a_ticket_ends_with_its_session_and_is_not_run_alone(project: TicketProject) -> None:
    assert project("run", "--yes", "Add coupons with-check").code == 3
    for words, said in REFUSED.items():
        ran = project(*words)
        assert (ran.code, said in ran.err) == (2, True), ran.err
    assert project("cancel", "last", "--yes").code == 0
    (shown,) = project("show", "last", "--json").of("task")
    assert [one["status"] for one in shown["children"]] == ["completed", "completed", "canceled"]
    assert project("inbox", "--json").of("interaction") == []
    assert "No matching tool calls" in project("audit", "last/T3").out


# -- subtasks: tasks that a member assigned ------------------------------------------------------


@pytest.fixture
def with_subtask(in_process: InProcessCli) -> InProcessCli:
    """A task with an open question, and a subtask of it with a call that has not ended."""
    record(in_process, asks(plain("q1", "Input")))
    usage = '{"input_tokens": 5}'
    record(
        in_process,
        OpenTurn("k3f9.1", "turn/1", 1, "rex", 1, at(2)),
        AppendAudit(AuditEntry("ToolCallRequested", "c1", "Read", "rex", "k3f9.1", at(3), {})),
        AppendMessage(Message("k3f9.1", 2, "rex", "Half of it.", at(4), 1)),
        CloseTurn("k3f9.1", "turn/1", 1, at(4), "completed", None, None, usage),
        task="k3f9.1",
        goal="the half of it",
        parent="k3f9",
    )
    return in_process


def test_a_subtask_is_exported_with_its_task_once(with_subtask: InProcessCli) -> None:
    lines = with_subtask("export", "k3f9", "-").lines
    tasks = [line["id"] for line in lines if line["type"] == "task" and "turns" in line]
    assert tasks == ["k3f9", "k3f9.1"]
    assert [line["text"] for line in lines if line["type"] == "message"] == [
        "Add coupons",
        "the half of it",
        "Half of it.",
    ]
    assert [line["toolName"] for line in lines if line["type"] == "audit"] == ["Read"]
    assert [line["part"] for line in lines if line["type"] == "cost"] == ["k3f9.1"]


def test_a_subtask_is_open_as_long_as_its_task_and_ends_by_its_own_name(
    with_subtask: InProcessCli,
) -> None:
    assert [one["outcome"] for one in with_subtask("audit", "--json").of("audit")] == ["open"]
    assert with_subtask("stop", "k3f9.1").out == "k3f9.1 is not running.  coterie resume k3f9.1\n"
    refused = with_subtask("clean", "k3f9.1", "--yes")
    assert (refused.code, "k3f9.1 has not ended." in refused.err) == (2, True)
    assert with_subtask("cancel", "k3f9.1", "--yes").out == "Canceled k3f9.1.\n"
    for words in (("stop", "k3f9.1"), ("stop", "k3f9.1", "rex")):
        assert with_subtask(*words).out == "k3f9.1 has ended (canceled).\n"
    assert with_subtask("show", "k3f9.1", "--stderr").out == "Nothing was written to stderr.\n"
    assert with_subtask("clean", "k3f9.1", "--yes").out == "Nothing to remove.\n"
