"""`coterie audit`: what agents did, and a record that reveals tampering."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from coterie.model.journal import AppendAudit
from coterie.model.tool_call import AuditEntry
from tests.cli.command import Cli, normalize
from tests.cli.recorded import at, record


def requested(
    name: str, tool: str, second: int, task: str = "k3f9", **given: object
) -> AppendAudit:
    return AppendAudit(
        AuditEntry("ToolCallRequested", name, tool, "ada", task, at(second), input=given)
    )


def completed(
    name: str, tool: str, second: int, *, failed: bool = False, **output: object
) -> AppendAudit:
    entry = AuditEntry(
        "ToolCallCompleted", name, tool, "ada", "k3f9", at(second),
        output=output, is_error=failed, duration_ms=second * 100,
    )  # fmt: skip
    return AppendAudit(entry)


@pytest.fixture
def audited(in_process: Cli) -> Cli:
    """Five calls: one read, one failed, one denied, one without a result, one in another task."""
    record(
        in_process,
        requested("c1", "Read", 2, file_path="cart.py"),
        requested("c2", "Bash", 3, command="pytest -q\x1b[2J"),
        completed("c1", "Read", 3, content="ok"),
        completed("c2", "Bash", 9, failed=True, exit_code=1),
        requested("c3", "Bash", 10, command="rm -rf /"),
        completed("c3", "Bash", 11, failed=True, denied="the user said no"),
        requested("c4", "Write", 12, file_path="ümläut.py", n=[0.1, None, "\ud800"]),
    )
    record(in_process, requested("c1", "shell", 20, "m2xy", command="ls"), task="m2xy")
    return in_process


def without_date(text: str) -> str:
    return text.replace("2026-01-31 ", "")


def test_calls_in_one_row_each(audited: Cli) -> None:
    assert without_date(audited("audit").out) == snapshot("""\
TIME                 TASK  MEMBER  TOOL   OUTCOME  TOOK  WHAT
12:00:02  k3f9  ada     Read   ok       0.3s  cart.py
12:00:03  k3f9  ada     Bash   failed   0.9s  pytest -q<U+001B>[2J
12:00:10  k3f9  ada     Bash   denied   1.1s  rm -rf /
12:00:12  k3f9  ada     Write  unknown  -     ümläut.py
12:00:20  m2xy  ada     shell  unknown  -     ls
""")


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["k3f9"], ["c1", "c2", "c3", "c4"]),
        (["last"], ["c1"]),
        (["--member", "rex"], []),
        (["--tool", "bash"], ["c2", "c3"]),
        (["k3f9", "--errors"], ["c2", "c3", "c4"]),
        (["--limit", "2"], ["c4", "c1"]),
        (["--since", "2026-01-31T12:00:10Z"], ["c3", "c4", "c1"]),
        (["--since", "2026-01-31T14:00:10+02:00"], ["c3", "c4", "c1"]),
        (["--since", "2026-01-31"], ["c1", "c2", "c3", "c4", "c1"]),
        (["--since", "2026-02-02"], []),
        (["--since", "1d"], []),
    ],
)
def test_filters(audited: Cli, words: list[str], ids: list[str]) -> None:
    assert [line["id"] for line in audited("audit", "--json", *words).of("audit")] == ids


def test_a_member_is_selected_with_all_its_instances(in_process: Cli) -> None:
    instances = ("ada", "ada#2", "adam")
    calls = [
        AuditEntry("ToolCallRequested", f"c-{instance}", "Read", instance, "k3f9", at(n))
        for n, instance in enumerate(instances, 2)
    ]
    record(in_process, *(AppendAudit(call) for call in calls))
    for member, mine in (("ada", ["ada", "ada#2"]), ("ada#2", ["ada#2"])):
        listed = in_process("audit", "--member", member, "--json").of("audit")
        assert [one["member"] for one in listed] == mine


def test_a_cut_list_says_how_to_see_more_than_was_asked_for(audited: Cli) -> None:
    shown = audited("audit", "--limit", "2").out.splitlines()[-1]
    assert shown == "3 older ones: use --all or --limit 10"


@pytest.mark.parametrize("verb", ["audit", "cost"])
def test_a_time_has_a_zone_and_a_day_is_the_one_here(
    audited: Cli, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # UTC+14: all of it was on February 1st
    time.tzset()
    wrong = audited(verb, "--since", "2026-02-01 02:00:10")
    assert (wrong.code, wrong.err.splitlines()[0]) == snapshot(
        (
            2,
            "! Invalid value for '--since': '2026-02-01 02:00:10' has no time zone; "
            "write 2026-02-01T02:00:10+14:00 for local time, 2026-02-01T02:00:10Z for UTC.",
        )
    )
    assert audited(verb, "--since", "0001-01-01T00:00:00+14:00").code == 2
    if verb == "audit":
        found = {day: len(audited("audit", "--json", "--since", day).of("audit")) for day in DAYS}
        assert found == {"2026-02-01": 5, "2026-02-02": 0}


DAYS = ("2026-02-01", "2026-02-02")


def test_a_call_as_an_object(audited: Cli) -> None:
    line = audited("audit", "k3f9", "--tool", "Bash", "--json").of("audit")[0]
    assert line == snapshot(
        {
            "type": "audit",
            "at": "2026-01-31T12:00:03.000Z",
            "seq": 1,
            "task": "k3f9",
            "member": "ada",
            "id": "c2",
            "name": "Bash",
            "input": {"command": "pytest -q\x1b[2J"},
            "outcome": "failed",
            "output": {"exit_code": 1},
            "is_error": True,
            "duration_ms": 900,
            "ended_at": "2026-01-31T12:00:09.000Z",
        }
    )
    outcomes = [one["outcome"] for one in audited("audit", "--json").of("audit")]
    assert outcomes == ["ok", "failed", "denied", "unknown", "unknown"]


def test_the_chain_is_whole(audited: Cli) -> None:
    ran = audited("audit", "--verify")
    assert (ran.out, ran.code) == snapshot(
        (
            """\
audit      8 rows, chain intact
events     4 rows, chain intact
""",
            0,
        )
    )
    assert audited("audit", "--verify", "--json").lines[0]["whole"] is True


@pytest.mark.parametrize("table", ["audit", "events"])
def test_one_changed_byte_is_found(audited: Cli, table: str) -> None:
    with sqlite3.connect(audited.user.project / ".coterie" / "coterie.db") as database:
        database.execute(f"DROP TRIGGER {table}_{'is' if table == 'audit' else 'are'}_not_changed")
        column = "input" if table == "audit" else "data"
        # Change one letter of what was done or decided.
        database.execute(
            f"UPDATE {table} SET {column} = replace({column}, 'cart', 'card'), task_id = task_id"
            if table == "audit"
            else f"UPDATE {table} SET {column} = replace({column}, 'coupons', 'coupond')"
        )
    database.close()
    ran = audited("audit", "--verify")
    assert (ran.out, ran.code) == ("", 1)
    assert ran.err == f"! {table}: row 1 differs from what was written\n"
    (check,) = audited("audit", "--verify", "--json").lines
    assert (check["whole"], len(check["problems"])) == (False, 1)


def test_a_removed_row_is_found(audited: Cli) -> None:
    with sqlite3.connect(audited.user.project / ".coterie" / "coterie.db") as database:
        database.execute("DROP TRIGGER audit_is_not_deleted")
        database.execute("DELETE FROM audit WHERE sequence = 3")
    database.close()
    assert audited("audit", "--verify").err == "! audit: row 3 is missing\n"


def hash_of(row: dict[str, Any], previous: str) -> str:
    """The hash of a row, computed as docs/inbox.md describes."""

    def text(value: object) -> str:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    fields = [
        row["sequence"], row["taskId"], row["kind"], row["toolCallId"], row["toolName"],
        row["authorActorId"], row["timestamp"],
        None if row["input"] is None else text(row["input"]),
        None if row["output"] is None else text(row["output"]),
        None if row["isError"] is None else int(row["isError"]), row["durationMs"],
    ]  # fmt: skip
    return hashlib.sha256(bytes.fromhex(previous) + text(fields).encode()).hexdigest()


def check_hash_chain(lines: Iterable[str]) -> list[int]:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        assert row["hash"] == hash_of(row, row["previous"])
    return [row["sequence"] for row in rows]


def test_others_can_check_an_export(audited: Cli, tmp_path: Path) -> None:
    target = tmp_path / "audit.jsonl"
    assert normalize(audited("audit", "--export", str(target)).out).startswith("Wrote 8 rows to ")
    assert check_hash_chain(target.read_text().splitlines()) == [1, 2, 3, 4, 5, 6, 7, 8]
    some = audited("audit", "k3f9", "--tool", "Bash", "--export", "-")
    assert check_hash_chain(some.out.splitlines()) == [2, 4, 5, 6]
    failed = audited("audit", "k3f9", "--errors", "--export", "-")
    assert check_hash_chain(failed.out.splitlines()) == [2, 4, 5, 6, 7]
    assert list(json.loads(some.out.splitlines()[1])) == snapshot(
        [
            "sequence",
            "kind",
            "toolCallId",
            "toolName",
            "authorActorId",
            "taskId",
            "input",
            "output",
            "isError",
            "durationMs",
            "timestamp",
            "previous",
            "hash",
        ]
    )


def test_the_program_in_the_docs_checks_an_export(audited: Cli, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "inbox.md").read_text()
    program, target = tmp_path / "verify.py", tmp_path / "audit.jsonl"
    program.write_text(page.partition("```python file=verify.py\n")[2].partition("```")[0])
    audited("audit", "--export", str(target))

    def check() -> str:
        run = [sys.executable, str(program), str(target)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert check() == "8 rows, as they were written\n"
    target.write_text(target.read_text().replace("rm -rf /", "rm -rf ~"))
    assert check() == "row 5 differs from what was written\n"


def test_an_export_needs_a_folder(audited: Cli) -> None:
    assert audited("audit", "--export", "nowhere/audit.jsonl").code == 2
    assert audited("audit", "--export", ".").code == 2


def test_nothing_on_record(in_process: Cli) -> None:
    assert in_process("audit").out.startswith("Nothing has been done")
    record(in_process)
    assert in_process("audit").out == "No matching tool calls.\n"
    assert in_process("audit", "zzzz").code == 2
