"""Work that is only offered here: another machine does it, and a third inspects and accepts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.fleet import Computer, Fleet, git, until

UNIT = "python3 -m unittest -q"
TALK = {"members": [{"id": "ann", "agent": "wren"}, {"id": "me", "type": "human"}]}
CREW = {"members": [{"id": "wren", "agent": "wren", "permissions": "accept-edits"}]}
FILES = {
    "crew.json": json.dumps(CREW),
    "talk.json": json.dumps(TALK),
    "cart.py": "def total(prices):\n    return sum(prices)\n",
    "test_cart.py": (
        "import unittest\n\nfrom cart import total\n\n\n"
        "class Total(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    ),
}


@pytest.fixture
def fleet(tmp_path: Path, database: str) -> Fleet:
    made = Fleet(tmp_path, database, agents={"wren": (sys.executable, "-c", "")})
    made.create(FILES)
    return made


def detached(computer: Computer, *words: str) -> str:
    """Offer a task and return its id."""
    ran = computer(*words[:-1], "--detach", "--rehearse", "--json", words[-1])
    assert ran.code == 0, ran.err
    return str(ran.of("task")[0]["id"])


def status(computer: Computer, task: str) -> str:
    [(found,)] = computer.rows("SELECT status FROM coterie.tasks WHERE id = %s", task)
    return str(found)


def taken_by(computer: Computer, task: str) -> set[str]:
    """The machines that ran turns of the task."""
    query = "SELECT DISTINCT machine FROM coterie.turns WHERE task_id = %s"
    return {name for (name,) in computer.rows(query, task)}


def built(computer: Computer, seen_by: Computer) -> str:
    """Offer a build, wait until it asks for approval, and return its task's id."""
    phases = ("--graph", "small", "--yes", "--eval", UNIT)
    task = detached(computer, "build", "-t", "crew.json", *phases, "Add coupons")
    until(lambda: asked(seen_by, task))
    assert "phase    accept" in seen_by("show", task).out
    return task


def asked(computer: Computer, task: str) -> list[str]:
    """The ids of a task's open questions."""
    query = "SELECT id FROM coterie.questions WHERE task_id = %s AND state = 'open'"
    return [name for (name,) in computer.rows(query, task)]


def subjects(computer: Computer) -> list[str]:
    """The subjects of the commits on the checked-out branch, newest first."""
    return git(computer.clone, "log", "--format=%s").splitlines()


@pytest.mark.timeout(600)
def test_a_talk_and_a_job(fleet: Fleet) -> None:
    user, sofa, gpu = fleet.computer("user"), fleet.computer("sofa"), fleet.computer("gpu")
    with gpu.worker("--seats", "2"):
        talk = detached(user, "chat", "--agents", "wren=wren", "--max-rounds", "1", "Who is there?")
        until(lambda: status(sofa, talk) == "completed")
        # One after the other: what changes in a folder while two tasks run there is not reverted.
        job = detached(user, "do", "--agent", "wren", "Add a line to cart.py")
        until(lambda: status(sofa, job) == "completed")
        assert [taken_by(sofa, task) for task in (talk, job)] == [{"gpu"}, {"gpu"}]
    assert "stand-in" in sofa("log", talk).out
    assert git(gpu.clone, "status", "--porcelain") != ""
    elsewhere = sofa("diff", job)
    assert (elsewhere.code, "gpu" in elsewhere.err) == (2, True)
    assert git(user.clone, "status", "--porcelain") == ""
    assert "cart.py" in gpu("diff", job).out
    assert gpu("revert", job).code == 0
    assert git(gpu.clone, "status", "--porcelain") == ""


@pytest.mark.timeout(600)
def test_a_talk_with_a_person_is_answered_and_stopped_from_elsewhere(fleet: Fleet) -> None:
    """A stopped task is not taken up again, although it was answered while it ran."""
    user, sofa, gpu = fleet.computer("user"), fleet.computer("sofa"), fleet.computer("gpu")
    with gpu.worker("--seats", "2"):
        talk = detached(user, "chat", "-t", "talk.json", "Who is there?")
        until(lambda: asked(sofa, talk) == ["q1"])
        assert sofa("answer", "q1", "And how are you?").code == 0
        until(lambda: asked(sofa, talk) == ["q2"])
        assert sofa("say", talk, "What about the tests?").code == 0
        until(lambda: asked(sofa, talk) == ["q3"])
        assert "q3" in user("inbox").out
        stopped = sofa("stop", talk)
        assert stopped.code == 0, stopped.err
        until(lambda: f"{talk}  stopped" in gpu.output)
        query = "SELECT state, taker FROM coterie.offers WHERE task_id = %s"
        until(lambda: sofa.rows(query, talk) == [("held", None)])
        assert gpu.output.count("runs here") == 1
        assert f"coterie resume {talk}" in sofa("tasks").out
        assert user("resume", talk, "--wait", "0s").code == 3
        assert user("cancel", talk, "--yes").code == 0
    assert status(sofa, talk) == "canceled"


@pytest.mark.timeout(600)
def test_a_build_is_committed_where_its_user_says_so(fleet: Fleet) -> None:
    """By the command, or by answering its question while a worker waits for that answer; never in
    the worker's clone.  The machine that accepts it does not have to trust its team."""
    user, sofa, gpu = fleet.computer("user"), fleet.computer("sofa"), fleet.computer("gpu")
    for one in (user, gpu):
        assert one("team", "trust", "crew.json").code == 0
    refused = user("build", "--detach", "--accept", "yes", "--agents", "wren=wren", "Add coupons")
    assert (refused.code, "--accept commits on the machine that runs" in refused.err) == (2, True)
    with gpu.worker("--seats", "2"):
        first = built(user, sofa)
        assert "add-coupons.md" in sofa("diff", first).out
        accepted = sofa("accept", first, "-m", "By the command")
        assert accepted.code == 0, accepted.err
        assert status(user, first) == "completed"
        second = built(user, sofa)
        (question,) = user("inbox", "--json").of("interaction")
        answered = user("answer", question["id"], "accept", "--say", "By the answer")
        assert answered.code == 0, answered.err
        assert status(sofa, second) == "completed"
    for task in (first, second):
        assert taken_by(sofa, task) == {"gpu"}
    found = [subjects(one) for one in (user, sofa, gpu)]
    assert found == [["By the answer", "Begin"], ["By the command", "Begin"], ["Begin"]]
    assert git(gpu.clone, "status", "--porcelain") == ""
