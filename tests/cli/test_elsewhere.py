"""Sessions whose tickets are worked on by several machines: the outcome does not depend on which of
them works, dies or is cut off.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.chaos import ticket_agent
from bench.chaos.ticket_agent import PRICES, TICKETS, WORKERS
from coterie.testing.postgres import Databases
from tests.cli.fleet import Computer, Fleet, git, until
from tests.contract.cutting_proxy import CuttingProxy

MEMBERS = ("mira", *WORKERS)
TEAM = ",".join(f"{member}={member}" for member in MEMBERS)
FILES = {
    PRICES: "\n".join(f"line {number}" for number in range(TICKETS + 2)),
    ".gitignore": "*.log",
}
AGENT = Path(ticket_agent.__file__)
START = """
import runpy, sys
sys.path[:0] = [sys.argv.pop(1)]
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def fleet(folder: Path, url: str, milliseconds: int) -> Fleet:
    """Machines with agents for twelve tickets that leave proof of what they did."""
    folder.mkdir()
    (folder / "proof").mkdir()
    start = (sys.executable, "-S", "-c", START, str(AGENT.parents[2]), str(AGENT))
    agents = {
        member: (*start, str(folder / "proof"), member, str(milliseconds)) for member in MEMBERS
    }
    made = Fleet(folder, url, agents=agents)
    made.create(FILES)
    return made


def offered(computer: Computer) -> str:
    """Offer the session and return its id."""
    ran = computer("run", "--detach", "--yes", "--agents", TEAM, "--json", "make the parts")
    assert ran.code == 0, ran.err
    return str(ran.of("task")[0]["id"])


def is_over(computer: Computer, task: str) -> bool:
    found = computer.rows("SELECT status FROM coterie.tasks WHERE id = %s", task)
    assert found[0][0] != "failed"
    return found == [("completed",)]


def report(computer: Computer, task: str) -> tuple[dict[str, str], Counter[tuple[str, str]]]:
    """How each ticket ended, and how often each payload type was sent about each ticket."""
    query = "SELECT id, state FROM coterie.tickets WHERE session_id = %s"
    states = dict(computer.rows(query, task))
    query = "SELECT body FROM coterie.envelopes WHERE session_id = %s"
    sent = [json.loads(body) for (body,) in computer.rows(query, task)]
    return states, Counter((one["payload_type"], one.get("ticket_id") or "") for one in sent)


def approved(computer: Computer, task: str) -> dict[str, str]:
    """The content of each approved file."""
    branch = f"coterie/{task}/merged"
    names = git(computer.clone, "ls-tree", "-r", "--name-only", branch).split()
    return {name: git(computer.clone, "show", f"{branch}:{name}") for name in names}


def executions(folder: Path) -> list[str]:
    return (folder / "proof" / "executions").read_text().splitlines()


@pytest.mark.timeout(600)
def test_a_session_comes_to_the_same_whoever_dies_and_whoever_is_cut_off(
    tmp_path: Path, postgres: Databases, database: str
) -> None:
    """Three machines work; one is killed and one cut off halfway.  No working tree is touched until
    the work is accepted, on yet another machine."""
    quiet = fleet(tmp_path / "quiet", database, 20)
    user = quiet.computer("user")
    with quiet.computer("alone").worker("--seats", "3"):
        task = offered(user)
        until(lambda: is_over(user, task))
    assert user("diff", task).code == 0
    wanted = report(user, task), approved(user, task)

    second = postgres.create(f"test_{secrets.token_hex(8)}")
    hit = fleet(tmp_path / "hit", second, 150)
    user = hit.computer("user")
    (tmp_path / "line").mkdir()
    line = CuttingProxy(second, tmp_path / "line")
    with (
        hit.computer("killed").worker("--seats", "2") as killed,
        hit.computer("well").worker("--seats", "2"),
    ):
        far = hit.computer("far", line.url)
        with line.running(), far.worker("--seats", "2"):
            task = offered(user)
            until(lambda: count_begun(tmp_path / "hit") >= 4)
            killed.kill()
            until(lambda: re.search(r"T\d+\.\d+  runs here", far.output))
        until(lambda: is_over(user, task))
    before = git(user.clone, "status", "--porcelain"), git(user.clone, "log", "--oneline")
    assert before[0] == ""
    accepting = hit.computer("accepting")
    assert accepting("diff", task).code == 0
    assert (report(accepting, task), approved(accepting, task)) == wanted
    assert not [line for line in executions(tmp_path / "hit") if "overlap" in line]
    accepted = accepting("accept", task)
    assert accepted.code == 0, accepted.err
    assert (accepting.clone / "parts" / "T12.txt").exists()
    assert git(user.clone, "log", "--oneline") == before[1]
    verified = accepting("audit", task, "--verify")
    assert (verified.code, "chain intact" in verified.out) == (0, True)


def count_begun(folder: Path) -> int:
    place = folder / "proof" / "executions"
    return place.read_text().count("begin:") if place.exists() else 0
