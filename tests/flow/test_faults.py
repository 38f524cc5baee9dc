"""Machines fail once in every way of the fault table; `make chaos` does each twenty times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.chaos.faults import MACHINE_FAULTS, run
from tests.conftest import TEST_SERVER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="machines are namespaces of Linux")


def test_however_a_machine_fails_another_goes_on_and_no_task_has_two_agents(tmp_path: Path) -> None:
    """The worker is killed, restarted or stopped; the whole machine is gone or frozen; its line
    is cut, or cut one way; the database is restarted, crashes or is away."""
    if TEST_SERVER:
        pytest.skip("a server is stopped and crashed that is our own")
    tally = run(tmp_path, rounds=1)
    assert (tally.wrong, tally.rounds) == ([], 1)
    assert {*tally.taken_over} >= {*MACHINE_FAULTS}
    assert all(seconds < 0 for seconds in tally.overlaps.values())
