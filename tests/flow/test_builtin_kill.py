"""`kill -9` at random instants of the built-in agent's work; `make chaos` does it 100 times."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bench.chaos.builtin import BuiltinChaos, Outcome
from tests.conftest import House


@pytest.mark.timeout(300)
def test_no_call_is_lost_or_done_twice_unknown(house: House, tmp_path: Path) -> None:
    chaos = BuiltinChaos(tmp_path / "chaos", calls=30, seed=3)
    chaos.folder.mkdir()
    outcome = anyio.run(chaos.run, 10)
    assert outcome == Outcome(
        kills=outcome.kills,
        tasks=outcome.tasks,
        unknown=outcome.unknown,
        asked_again=outcome.asked_again,
    )
    assert outcome.kills >= 10
    assert outcome.unknown <= outcome.kills
