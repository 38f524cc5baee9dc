"""`kill -9` at random instants, with real processes; `make chaos` does it two hundred times."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bench.chaos.chats import Chaos, Tally
from bench.chaos.interrupts import InterruptChaos


@pytest.mark.parametrize("keeper", ["bubblewrap", "subreaper"])
def test_a_killed_chat_loses_and_doubles_nothing(tmp_path: Path, keeper: str) -> None:
    chaos = Chaos(tmp_path, turns=12, milliseconds=20, keeper=keeper, seed=7)
    tally = chaos.run(kills=5)
    expected = Tally(
        kills=tally.kills, chats=tally.chats, turns=tally.turns, executions=tally.executions
    )
    assert tally == expected
    assert tally.kills >= 5
    assert 0 <= tally.repeated <= tally.kills


def test_an_interrupted_chat_keeps_every_word_through_kills(tmp_path: Path) -> None:
    cut = 0
    for seed in range(7, 12):  # on a busy machine an interrupt may come when its turn is over
        chaos = InterruptChaos(tmp_path / str(seed), turns=8, milliseconds=20, seed=seed)
        outcome = anyio.run(chaos.run, 3)
        assert outcome.clean, outcome
        assert outcome.kills >= 3
        assert outcome.cut <= outcome.interrupts
        cut += outcome.cut
        if cut:
            break
    assert cut > 0
