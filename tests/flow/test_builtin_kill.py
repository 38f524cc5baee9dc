"""`kill -9` at random instants of the built-in agent's work; `make chaos` does it 100 times."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bench.chaos.builtin import BuiltinChaos, Outcome
from bench.chaos.stores import Stores
from tests.conftest import IsolatedUser


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("stores", "kills"), [("sqlite", 10), ("postgres", 3)], indirect=["stores"]
)
def test_no_call_is_lost_or_done_twice_unknown(
    user: IsolatedUser, tmp_path: Path, stores: Stores, kills: int
) -> None:
    chaos = BuiltinChaos(tmp_path / "chaos", calls=30, seed=3, stores=stores)
    outcome = anyio.run(chaos.run, kills)
    assert outcome == Outcome(
        kills=outcome.kills,
        tasks=outcome.tasks,
        unknown=outcome.unknown,
        asked_again=outcome.asked_again,
    )
    assert outcome.kills >= kills
    assert outcome.unknown <= outcome.kills
