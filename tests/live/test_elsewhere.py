"""A session with a Claude manager and Codex workers on two machines, one of which is killed: the
real CLIs, on the rehearsal model."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet, git, until
from tests.cli.test_elsewhere import is_over

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
TEAM = {
    "name": "shop",
    "members": [
        {"id": "mira", "agent": "claude", "permissions": "read"},
        {"id": "wren", "agent": "codex", "permissions": "accept-edits"},
        {"id": "jay", "agent": "codex", "permissions": "accept-edits"},
    ],
}


@pytest.mark.timeout(900)
def test_real_clis_work_on_two_machines_and_one_of_these_dies(
    tmp_path: Path, database: str
) -> None:
    programs = tmp_path / "bin"  # with only these two, as machines start all that they find
    programs.mkdir()
    for name in ("claude", "codex"):
        if not (BINS / name).exists():
            pytest.skip(f"{name} is not installed: scripts/real-clis")
        (programs / name).symlink_to(BINS / name)
    fleet = Fleet(tmp_path, database)
    fleet.create(
        {"shop.py": "def total(prices):\n    return sum(prices)\n", "team.json": json.dumps(TEAM)}
    )
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    user, dies, lives = (
        replace(fleet.computer(name), more=path) for name in ("user", "dies", "lives")
    )
    for one in (user, dies, lives):
        assert one("agents", "scan").code == 0
        assert one("team", "trust", "team.json").code == 0
    words = ("--seats", "2", "--agents", "claude,codex")
    with dies.worker(*words) as killed, lives.worker(*words):
        asked = ("--detach", "--rehearse", "--yes", "-t", "team.json", "--json")
        ran = user("run", *asked, "add coupons to the checkout")
        assert ran.code == 0, ran.err
        task = str(ran.of("task")[0]["id"])
        until(lambda: re.search(r"  runs here", dies.output))
        killed.kill()
        try:
            until(lambda: is_over(user, task))
        except AssertionError:
            raise AssertionError(user("inbox").out + lives.output) from None
    done = user.rows("SELECT id, state FROM coterie.tickets WHERE session_id = %s", task)
    assert len(done) > 1
    assert {state for _, state in done} == {"done"}
    assert git(user.clone, "status", "--porcelain") == ""
    accepted = user("accept", task)
    assert accepted.code == 0, accepted.err
    assert git(user.clone, "log", "--oneline").count("\n") > 1
    ran_by = user.rows("SELECT DISTINCT machine FROM coterie.turns")
    assert ("lives",) in ran_by
