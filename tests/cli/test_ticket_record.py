"""The record of a session: envelopes as files and lines, and the calls of each ticket."""

from __future__ import annotations

import json
import re
import sqlite3
import time

import pytest
from jsonschema import Draft202012Validator

import coterie
from coterie.config.schemas import FOLDER as SCHEMAS
from tests.cli.in_process_agent import Session, in_turn
from tests.flow.ticket_harness import block, obedient, part, plan, replying, ticket_in


def looks(member: coterie.Member, text: str) -> object:
    """Report two calls of a worker's own tools."""
    ticket, given = ticket_in(text), {"command": f"make {ticket_in(text)}"}
    return [
        coterie.ToolCallStarted("c1", "Bash", given, effect="run"),
        coterie.ToolCallFinished("c1", False, {"exit_code": 0}),
        coterie.ToolCallStarted("c2", "Read", {"file_path": f"{ticket}.py"}),
        coterie.ToolCallFinished("c2", True, {"error": "no such file"}),
        coterie.TurnCompleted(block({"status": "completed"})),
    ]


def test_the_calls_of_a_ticket_are_its_own(session: Session) -> None:
    """D5a, D5d, D5e, F11b: `audit k3f9/T1` lists its calls, the session's audit all of them."""
    session.set_up()
    assert (
        session.run(replying(Split_the_goal=plan(part("a"), part("b")), Do_the_work_now=looks)).code
        == 0
    )
    task = session.task
    calls = {
        name: [
            (one["task"], one["member"], one["input"].get("command"), one["outcome"])
            for one in session("audit", name, "--json").of("audit")
        ]
        for name in ("last/T1", f"{task}/t2", "last")
    }
    first = [(f"{task}/T1", "wren", "make T1", "ok"), (f"{task}/T1", "wren", None, "failed")]
    second = [(f"{task}/T2", "finn", "make T2", "ok"), (f"{task}/T2", "finn", None, "failed")]
    assert calls == {"last/T1": first, f"{task}/t2": second, "last": [*first, *second]}
    assert "make T1" in session("audit", "last/T1", "--tool", "bash").out
    assert "No matching tool calls" in session("audit", "last/T1", "--member", "finn").out
    lost = session("audit", "last/T9")
    assert (lost.code, "No ticket T9" in lost.err) == (2, True)
    rows = [
        json.loads(row) for row in session("audit", "last/T1", "--export", "-").out.splitlines()
    ]
    assert [(one["kind"], one["toolCallId"], one["isError"]) for one in rows] == [
        ("ToolCallRequested", "c1", None),
        ("ToolCallCompleted", "c1", False),
        ("ToolCallRequested", "c2", None),
        ("ToolCallCompleted", "c2", True),
    ]
    assert rows[3]["output"] == {"error": "no such file"}
    assert isinstance(rows[3]["durationMs"], int)
    assert {(one["taskId"], one["authorActorId"]) for one in rows} == {(f"{task}/T1", "wren")}
    with sqlite3.connect(session.root / ".coterie" / "coterie.db") as database:
        for words in (
            "UPDATE audit SET tool_name = 'x'",
            "DELETE FROM audit",
            "DELETE FROM events",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                database.execute(words)
    database.close()
    assert session("audit", "--verify").code == 0


LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\]\[(T\d|-)\]\[(\w+)\] \S.*")


def in_git(session: Session) -> dict[str, bytes]:
    """The files in the project's `.git`, with their content."""
    folder = session.root / ".git"
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_envelope_is_a_file_and_a_line_for_people(session: Session) -> None:
    """E2, E3, E5a, E7b, E10a: with a question first, a risky ticket, and a review that says no."""
    session.set_up(checks=["true"])
    seen: list[int] = []

    def works(member: coterie.Member, text: str) -> object:
        deadline = time.monotonic() + 30
        while len(list(session.logs.glob("*.json"))) <= 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(len(list(session.logs.glob("*.json"))))
        return obedient(member, text)

    unclear = {"status": "open", "questions": ["Which currency?"], "intent_summary": "coupons"}
    say = replying(
        Is_anything_unclear=in_turn(unclear, {"status": "clear", "intent_summary": "in euro"}),
        Split_the_goal=plan(part("a", risks=["money"])),
        is_risky={"summary": "carefully"},
        wants_your_opinion=in_turn("not JSON", {"status": "proposal", "outputs": ["yes"]}),
        Do_the_work_now=works,
        **{
            "Is_it_done?": in_turn(
                {"decision": "changes_requested", "notes": "no"}, {"decision": "approved"}
            )
        },
    )
    before = in_git(session)
    assert session.run(say).code == 3
    (asked,) = session("inbox", "--json").of("interaction")
    assert asked["title"] == "Which currency?"
    assert session("answer", str(asked["id"]), "--say", "euro").code == 0
    assert session.run(say, "resume", "last").code == 0
    # F7c: `.git` has new worktrees, branches and objects; nothing else in it has changed.
    ours = ("worktrees/", "refs/heads/coterie/", "logs/refs/heads/coterie/", "objects/")
    after = in_git(session)
    assert [
        name for name in after if before.get(name) != after[name] and not name.startswith(ours)
    ] == []
    said = session.envelopes()
    named = [path.name for path in sorted(session.logs.glob("*.json"))]
    kinds = [one["payload_type"] for one in said]
    assert named == [f"{number:06d}-{kind}.json" for number, kind in enumerate(kinds, 1)]
    schema = json.loads((SCHEMAS / "envelope.schema.json").read_text())
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    assert [list(judge.iter_errors(one)) for one in said] == [[]] * len(said)
    types = {one["if"]["properties"]["payload_type"]["const"] for one in schema["allOf"]}
    assert types == {*kinds}, "every type that there is, and no other"
    for wrong in ({"payload_type": "plan"}, {"timestamp": "2026-01-01T00:00:00"}, {"more": 1}):
        assert not judge.is_valid({**said[0], **wrong})
    assert [(one["payload_type"], one["source"], one["target"]) for one in said[:4]] == [
        ("clarification", "mira", "you"),
        ("clarification_response", "you", "mira"),
        ("clarification", "mira", "you"),
        ("plan", "mira", "coterie"),
    ]
    assert seen[0] > 8, "they are there while it runs"
    assert {(one["session_id"], one["version"]) for one in said} == {(session.task, "1.0")}
    log = (session.logs / "events.log").read_text().splitlines()
    lines = [found for line in log if (found := LINE.fullmatch(line))]
    assert [line[1] for line in lines] == [one["timestamp"] for one in said]
    assert list(zip((line[2] for line in lines), (line[3] for line in lines), strict=True)) == [
        ("-", "clarification"),
        ("-", "answer"),
        ("-", "clarification"),
        ("-", "plan"),
        ("T1", "created"),
        ("T1", "proposal"),
        ("T1", "discussing"),
        ("T1", "error"),
        ("T1", "report"),
        ("T1", "discussed"),
        ("T1", "instruction"),
        ("T1", "in_progress"),
        ("T1", "report"),
        ("T1", "awaiting_review"),
        ("T1", "artifact"),
        ("T1", "review"),
        ("T1", "in_progress"),
        ("T1", "report"),
        ("T1", "awaiting_review"),
        ("T1", "artifact"),
        ("T1", "review"),
        ("T1", "done"),
    ]


def test_a_mistake_in_the_limits_is_reported_before_anything_is_created(session: Session) -> None:
    """E11e."""
    session.set_up(retries=-1)
    ran = session("run", "Add coupons")
    assert (ran.code, "retries is -1; expected at least 0" in ran.err) == (2, True)
    assert session("tasks", "--json").out == ""
