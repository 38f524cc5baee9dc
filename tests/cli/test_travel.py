"""Branches that travel through a remote: two machines work, a third accepts, and the remote is
unavailable when it is needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.chaos.chats import Process
from tests.cli.fleet import Computer, Fleet, git, until

AGENT = Path(__file__).with_name("ticket_agent.py")
WORKER = """
import os, runpy, sys
word, bare, agent = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
if word == "wren" and os.path.exists(f"{bare}.leaves"):
    os.rename(bare, f"{bare}.away")
    os.unlink(f"{bare}.leaves")
runpy.run_path(agent, run_name="__main__")
"""
"""Runs `ticket_agent`; a worker first moves the repository away if told to."""
GOAL = "Add coupons only-one"


class RemoteRepository:
    """The repository that branches travel through."""

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "travel.git"
        git(folder, "init", "--quiet", "--bare", str(self.bare))

    def vanish_at_work(self) -> None:
        """Become unavailable as soon as a worker works."""
        Path(f"{self.bare}.leaves").touch()

    def come_back(self) -> None:
        Path(f"{self.bare}.away").rename(self.bare)

    def refs(self, task: str) -> dict[str, str]:
        """The commits of the refs that a session sent, by name."""
        listed = git(self.bare, "for-each-ref", "--format=%(refname) %(objectname)")
        found = dict(line.split() for line in listed.splitlines())
        return {ref: one for ref, one in found.items() if ref.startswith(f"refs/coterie/{task}/")}


@pytest.fixture
def remote(tmp_path: Path) -> RemoteRepository:
    return RemoteRepository(tmp_path)


@pytest.fixture
def fleet(tmp_path: Path, database: str, remote: RemoteRepository) -> Fleet:
    start = (sys.executable, "-S", "-c", WORKER)
    agents = {name: (*start, name, str(remote.bare), str(AGENT)) for name in ("mira", "wren")}
    made = Fleet(tmp_path, database, agents=agents)
    made.create({"cart.py": "total = 0\n"})
    return made


def by_name(computer: Computer, remote: RemoteRepository) -> Computer:
    """Add the repository as a remote of the machine's clone, and agree to its address."""
    git(computer.clone, "remote", "add", "boat", str(remote.bare))
    said = computer("config", "set", "travel", "git:boat", "--user")
    assert said.code == 0, said.err
    assert f"Branches of this project travel via {remote.bare}" in said.out
    return computer


def by_address(computer: Computer, remote: RemoteRepository) -> Computer:
    """Configure the repository by its address."""
    settings = computer.home / ".coterie" / "settings.json"
    settings.write_text(json.dumps({"travel": f"git:{remote.bare}"}))
    return computer


def started(computer: Computer, **limits: Any) -> tuple[Process, str]:
    """Start a session of one ticket; return its process and its id."""
    if limits:  # `.coterie` exists by then
        (computer.clone / ".coterie" / "scheduler_config.json").write_text(json.dumps(limits))
    query = "SELECT id FROM coterie.tasks WHERE workflow = 'tickets'"
    before = computer.rows(query)
    process = computer.start("run", "--yes", "--agents", "mira=mira,wren=wren", GOAL)
    until(lambda: len(computer.rows(query)) > len(before) or process.poll() is not None)
    [(task,)] = {*computer.rows(query)} - {*before}
    return process, task


def unsent(computer: Computer, task: str) -> str:
    """Why the session's ticket was blocked."""
    query = "SELECT body FROM coterie.envelopes WHERE session_id = %s"
    bodies = [json.loads(body) for (body,) in computer.rows(query, task)]
    errors = [one["payload"] for one in bodies if one["payload_type"] == "error"]
    assert errors[0]["code"] == "not_sent"
    return str(errors[0]["message"])


def test_branches_go_by_a_repository_that_is_there_away_and_back(
    fleet: Fleet, remote: RemoteRepository
) -> None:
    desk = by_name(fleet.computer("desk"), remote)
    runner = by_address(fleet.computer("runner"), remote)
    with runner.worker("--agents", "wren"):
        remote.vanish_at_work()
        session, task = started(desk)
        until(lambda: "Retrying" in runner.output or session.poll() is not None)
        assert session.poll() is None, desk.output
        remote.come_back()
        assert session.wait(timeout=120) == 0, desk.output
        workers = desk.rows("SELECT machine FROM coterie.turns WHERE member = 'wren'")
        assert workers == [("runner",)]
        # The store has only the names.
        sent = dict(desk.rows("SELECT name, remote_ref FROM coterie.sent_refs"))
        assert {*sent} == {"T1", "base", "merged"}
        assert {*sent.values()} <= {*remote.refs(task)}
        blobs = desk.rows("SELECT convert_from(substr(data, 1, 5), 'LATIN1') FROM coterie.blobs")
        assert [head for (head,) in blobs if head.startswith("# v")] == []
        is_accepted_elsewhere(fleet, remote, runner, task)

        # Unavailable for longer than the ticket may take: it is blocked and says where its work is.
        remote.vanish_at_work()
        session, task = started(desk, retries=0, replans=0, time_limits={"work": 0.15})
        assert session.wait(timeout=120) == 3, desk.output
        assert f"refs/heads/coterie/{task}/T1 on runner was not sent" in unsent(desk, task)
        worked = git(runner.clone, "ls-tree", "--name-only", f"coterie/{task}/T1")
        assert "T1.py" in worked.split()


def is_accepted_elsewhere(
    fleet: Fleet, remote: RemoteRepository, runner: Computer, task: str
) -> None:
    """Accepting removes from the remote what is then in the user's branch; what was sent under a
    lease token that is no longer valid was not read, and stays."""
    (runner.clone / "cart.py").write_text("total = 'stale'\n")
    git(runner.clone, "commit", "--quiet", "--all", "-m", "stale")
    stale = f"refs/coterie/{task}/merged/0/{git(runner.clone, 'rev-parse', 'HEAD').strip()}"
    git(runner.clone, "push", "--quiet", str(remote.bare), f"HEAD:{stale}")
    user = by_address(fleet.computer("user"), remote)
    accepted = user("accept", task)
    assert accepted.code == 0, accepted.err
    assert (user.clone / "T1.py").exists()
    assert (user.clone / "cart.py").read_text() == "total = 0\n"
    assert {*remote.refs(task)} == {stale}
    late = f"refs/coterie/{task}/T1/1/late"
    git(user.clone, "push", "--quiet", str(remote.bare), f"HEAD:{late}")
    cleaned = user("clean", "--only", "remote", "--yes", "--json")
    left = {one["name"]: one["kept"] for one in cleaned.of("leftover")}
    assert left == {late: "", stale: "not in your branch"}
    assert {*remote.refs(task)} == {stale}


def test_work_that_a_dead_machine_did_not_send_is_reported(
    fleet: Fleet, remote: RemoteRepository
) -> None:
    """The machine that takes the task over has the report but not the work, which is done again."""
    desk, runner, heir = (
        by_address(fleet.computer(name), remote) for name in ("desk", "runner", "heir")
    )
    remote.vanish_at_work()
    with runner.worker("--agents", "wren") as killed:
        session, task = started(desk)
        until(lambda: "Retrying" in runner.output or session.poll() is not None)
        with heir.worker("--agents", "wren"):
            killed.kill()
            remote.come_back()
            assert session.wait(timeout=120) == 0, desk.output
    said = unsent(desk, task)
    assert f"refs/heads/coterie/{task}/T1 on runner was not sent" in said
    assert "the task continued on heir before that" in said
    assert "T1.py" in git(desk.clone, "ls-tree", "--name-only", f"coterie/{task}/merged").split()
