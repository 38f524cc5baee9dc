"""`kill -9` at random instants, with real processes; `make chaos` does it two hundred times."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from bench.chaos.chats import Chaos, Tally
from bench.chaos.interrupts import InterruptChaos
from bench.chaos.stores import Stores
from tests.cli.command import forked
from tests.flow.conftest import STORE


@pytest.mark.parametrize(
    ("keeper", "stores", "kills"),
    [("bubblewrap", "sqlite", 5), ("subreaper", "sqlite", 5), ("auto", "postgres", 3)],
    indirect=["stores"],
)
def test_a_killed_chat_loses_and_doubles_nothing(
    tmp_path: Path, keeper: str, stores: Stores, kills: int
) -> None:
    chaos = Chaos(
        tmp_path,
        turns=12,
        milliseconds=20,
        keeper=keeper,
        seed=7,
        stores=stores,
        popen=forked().popen,
    )
    tally = chaos.run(kills)
    expected = Tally(
        kills=tally.kills, chats=tally.chats, turns=tally.turns, executions=tally.executions
    )
    assert tally == expected
    assert tally.kills >= kills
    assert 0 <= tally.repeated <= tally.kills


@pytest.mark.parametrize("stores", [STORE], indirect=True)
def test_an_interrupted_chat_keeps_every_message_through_kills(
    tmp_path: Path, stores: Stores
) -> None:
    cut = 0
    for seed in range(7, 12):  # on a busy machine an interrupt may come after its turn
        folder = tmp_path / str(seed)
        chaos = InterruptChaos(folder, turns=8, milliseconds=20, seed=seed, stores=stores)
        outcome = anyio.run(chaos.run, 3)
        assert outcome.clean, outcome
        assert outcome.kills >= 3
        assert outcome.cut <= outcome.interrupts
        cut += outcome.cut
        if cut:
            break
    assert cut > 0
