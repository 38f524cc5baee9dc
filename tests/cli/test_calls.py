"""Tool calls that a model writes into its text, and calls that never ran, as seen in the audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.cli.command import Cli

LOCAL = {
    "command": "builtin",
    "adapter": "builtin",
    "capabilities": {"model": "openai:small", "toolCalls": "text"},
}
RUN = "<tool_use><name>runCommand</name><input><command>touch {}</command></input></tool_use>"


def replies(cli: Cli, *texts: str) -> str:
    """Write a script of replies and return its path."""
    path = cli.user.project.parent / "script.json"
    rules = [{"replies": [{"text": text} for text in texts], "then": "last"}]
    path.write_text(json.dumps({"rules": rules}))
    return str(path)


def audit(cli: Cli) -> list[tuple[str, Any, str]]:
    return [
        (row["name"], row["input"].get("path") or row["input"].get("command"), row["outcome"])
        for row in cli("audit", "--json").of("audit")
    ]


def ends(cli: Cli) -> Sequence[dict[str, Any]]:
    """The completion rows of calls, as exported."""
    rows = [json.loads(line) for line in cli("audit", "--export", "-").out.splitlines()]
    return [row for row in rows if row["kind"] == "ToolCallCompleted"]


FORMS = (
    "I look.\n<read_file><path>a.py</path></read_file>",
    "<tool_use><name>readFile</name><input><path>a.py</path></input></tool_use>",
    "<function=readFile><parameter=path>a.py</parameter></function>",
    'So: {"name": "readFile", "arguments": {"path": "a.py", "offset": 1}}',
    '```\n{"tool": "readFile", "input": {"path": "a.py", "limit": 9}}\n```',
    '{"tool_calls": [{"type": "function", "function": {"name": "listFiles", '
    '"arguments": "{\\"path\\": \\".\\"}"}}]}',
)
NO_FORMS = (
    '<tool_use>{"name": "readFile", "input": {"path": ',
    '<tool name="fly"><to>moon</to></tool>',
    "<readFile><file>a.py</file></readFile>",
    # Not a call: the model is told, and the turn continues.
    'Action: readFile\nAction Input: {"path": "a.py"}',
)


def test_calls_in_text_and_calls_that_never_ran(cli: Cli) -> None:
    """All in one run, since the built-in agent takes a while to import."""
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"local": LOCAL}}))
    (cli.user.project / "a.py").write_text("x = 1\n")
    script = replies(cli, *FORMS, *NO_FORMS, RUN.format("x") + RUN.format("y"))
    ran = cli("do", "--json", "--agent", "local", "--script", script, "look")
    assert ran.code == 3  # a command needs approval
    read = [("readFile", "a.py", "ok")] * 5 + [("listFiles", ".", "ok")]
    told = [("readFile", None, "not run"), ("fly", None, "not run"), ("readFile", None, "not run")]
    runs = ("touch x", "touch y")
    assert audit(cli) == [*read, *told, *(("runCommand", run, "open") for run in runs)]
    # Calls still waiting when the task ended never ran, and the record says so.
    assert cli("cancel", "last", "--yes").code == 0
    assert audit(cli)[-2:] == [("runCommand", run, "not run") for run in runs]
    assert [(row["isError"], row["output"]) for row in ends(cli)[-2:]] == [
        (True, {"error": "the task was canceled before", "not_run": True})
    ] * 2
    assert cli("audit", "--verify").code == 0


def test_do_hands_out_a_part_of_the_job_where_the_team_has_others(cli: Cli) -> None:
    registry = cli.user.coterie_home / "agents" / "config.json"
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"local": LOCAL}}))
    path = cli.team("ada")
    members = [
        {"id": name, "agent": "local", "prompt": f"You are {name}."} for name in ("ada", "rex")
    ]
    path.write_text(json.dumps({"members": members}))
    hand_out = "<assignSubtask><goal>Count the callers.</goal><member>ada</member></assignSubtask>"
    rules = [
        {"when": {"system": "You are ada."}, "replies": [{"text": "Twelve callers."}]},
        {"when": {"message": "Twelve"}, "replies": [{"text": "So twelve."}]},
        {"replies": [{"text": hand_out}], "then": "last"},
    ]
    script = cli.user.project.parent / "script.json"
    script.write_text(json.dumps({"rules": rules}))
    asked = cli("do", "--json", "--as", "rex", "--script", str(script), "how many callers?")
    assert asked.code == 3
    (question,) = asked.of("interaction")
    assert (question["purpose"], [one["id"] for one in question["options"]]) == (
        "assign_subtask",
        ["ada", "reject"],
    )
    assert cli("answer", "q1", "ada").code == 0
    ran = cli("resume", "--json")
    assert ran.lines[-1]["status"] == "completed"
    assert [(said["member"], said["text"]) for said in ran.of("message")] == [
        ("ada", "Twelve callers."),
        ("rex", "So twelve."),
    ]
    task = ran.lines[-1]["task"]
    assert "Count the callers." in cli("show", f"{task}.1").out  # a separate task
    assert "how many callers?" in cli("show", "last").out
