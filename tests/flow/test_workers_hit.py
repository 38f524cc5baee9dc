"""Workers hit at random while they share tasks: one short seed; `make chaos` has five long ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.chaos.workers import run
from tests.conftest import TEST_SERVER


@pytest.mark.skipif(sys.platform != "linux", reason="machines are namespaces of Linux")
def test_workers_that_are_hit_at_random_lose_and_double_nothing(tmp_path: Path) -> None:
    if TEST_SERVER:
        pytest.skip("a server is stopped and crashed that is our own")
    tally = run(tmp_path, seed=7, workers=2, hits=4, tasks=6)
    assert (tally.wrong, tally.tasks, sum(tally.hits.values())) == ([], 6, 4)
