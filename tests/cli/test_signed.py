"""Envelopes that somebody changed: found, reported and rewritten; signed ones verified alone."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, register_agents

DOCS = Path(__file__).parents[2] / "docs" / "tickets.md"


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up(sign=True)


def files(project: TicketProject) -> list[Path]:
    (log,) = (project.root / ".coterie" / "logs").glob("*/events.log")
    return sorted(log.parent.glob("*.json"))


def edited(path: Path, old: str, new: str) -> str:
    """Change a file and return its previous text."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return text


def forged(project: TicketProject, sequence: int, old: str, new: str) -> None:
    database = sqlite3.connect(project.root / ".coterie" / "coterie.db")
    with database:
        given = (old, new, sequence)
        database.execute(
            "UPDATE envelopes SET body = replace(body, ?, ?) WHERE sequence = ?", given
        )
    database.close()


def test_a_signed_session_is_checked_file_by_file_and_put_right(project: TicketProject) -> None:
    assert project("run", "--yes", "Add coupons only-one").code == 0
    task = project("tasks", "--json").of("task")[-1]["id"]
    told = files(project)
    whole = project("audit", "--verify", "--json")
    (found,) = whole.lines
    assert (whole.code, found["envelopes"], found["signed"]) == (0, len(told), len(told))
    assert "all signatures valid" in project("audit", "last", "--verify").out

    # Anybody with the key can verify a single file, with the program from the docs.
    program = re.search(r"file=check_envelope.py\n(.*?)^```", DOCS.read_text(), re.M | re.S)
    assert program is not None
    key = project.root / ".coterie" / "sessions" / task / "key"

    def alone(path: Path) -> int:
        words = [sys.executable, "-I", "-S", "-c", program[1], str(key), str(path)]
        return subprocess.run(words, capture_output=True, check=False).returncode

    assert {path.name: alone(path) for path in told[::3]} == {p.name: 0 for p in told[::3]}

    plan = next(path for path in told if "-plan" in path.name)
    before = edited(plan, "Form", "Backdoor")
    assert alone(plan) == 1
    shown = project("show", "last")
    assert f"! logs/{task}/{plan.name} was changed after Coterie wrote it" in shown.out
    assert plan.read_text() == before
    assert "Backdoor" in plan.with_name(f"{plan.name}.changed").read_text()
    again = project("audit", "--verify")
    assert (again.code, f"{plan.name} was restored earlier" in again.err) == (0, True)

    edited(told[0], "Coupons.", "Cupcakes.")
    told[1].unlink()
    made = told[0].with_name("000900-review.json")
    made.write_text("{}")
    verified = project("audit", task, "--verify", "--json")
    assert (verified.code, [p.partition(";")[0] for p in verified.lines[0]["problems"]]) == (
        1,
        [
            f"logs/{task}/{told[0].name} was changed after Coterie wrote it",
            f"logs/{task}/{told[1].name} is gone",
            f"logs/{task}/000900-review.json was not written by Coterie",
        ],
    )
    assert (alone(told[0]), alone(told[1]), made.exists()) == (0, 0, False)

    # The database was changed: the file is not overwritten, since it is the trustworthy copy.
    forged(project, 1, "Coupons.", "Cupcakes.")
    said = told[0].read_text()
    wrong = project("audit", "--verify")
    assert wrong.code == 1
    assert "its signature is wrong in the database; the signature in the file is valid" in wrong.err
    faults = project("show", "last", "--json").of("envelope_fault")
    assert ("forged", told[0].name) in {(one["kind"], one["file"]) for one in faults}
    assert told[0].read_text() == said
    key.unlink()
    assert "key is missing" in project("show", "last").out


def test_a_session_that_goes_on_says_what_was_changed(project: TicketProject) -> None:
    assert project("run", "Add coupons only-one").code == 3
    (first,) = files(project)
    before = edited(first, "Coupons.", "Cupcakes.")
    assert project("answer", "q1", "approve").code == 0
    resumed = project("resume", "last", "--json")
    (told,) = resumed.of("error")
    assert (told["code"], resumed.code) == ("envelope_changed", 3)
    assert told["message"].endswith(
        f"it was restored from the database; the faulty file is now {first.name}.changed."
    )
    assert first.read_text() == before
    forged(project, 1, "Coupons.", "Cupcakes.")
    refused = project("resume", "last")
    assert refused.code == 1
    assert "envelope 000001" in refused.err
    assert first.read_text() == before


def test_a_session_that_is_not_signed_is_compared_with_the_database(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    assert project("run", "Add coupons only-one").code == 3
    assert "1, every file unchanged; not signed" in project("audit", "--verify").out
    (first,) = files(project)
    # Reformatted, it still says the same, which is not a change.
    first.write_text(json.dumps(json.loads(first.read_text())))
    assert project("audit", "--verify").code == 0
    before = edited(first, "Coupons.", "Cupcakes.")
    assert project("audit", "--verify").code == 1
    assert json.loads(first.read_text()) == json.loads(before)
