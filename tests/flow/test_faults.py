"""Machines fail in every way of the fault table, once; `make chaos` has each twenty times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.chaos.faults import ROWS, run
from tests.conftest import TEST_SERVER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines are namespaces of Linux")


def test_however_a_machine_fails_another_goes_on_and_no_task_has_two_agents(tmp_path: Path) -> None:
    """Its worker killed, restarted, stopped; all of it gone or frozen; its line cut, or one way of
    it; the database restarted, crashed, away."""
    if TEST_SERVER:
        pytest.skip("a server is stopped and crashed that is our own")
    tally = run(tmp_path, rounds=1)
    assert (tally.wrong, tally.rounds) == ([], 1)
    assert {*tally.taken_over} >= {*ROWS}
    assert all(seconds < 0 for seconds in tally.overlaps.values())
