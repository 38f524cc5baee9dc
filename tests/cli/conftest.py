"""Fixtures: the command line in a house of its own, in various states of setup."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cli.command import AGENT, NAMES, Cli, Inside
from tests.cli.in_process import Session, installed, moved_rightly
from tests.conftest import House


@pytest.fixture
def bare(house: House) -> Cli:
    """The command line with nothing set up."""
    return Cli(house, {"PYTHONHASHSEED": "0", "TZ": "UTC"})


@pytest.fixture
def inside(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """The command line in this process, in a fixed time zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Inside(house)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def cli(bare: Cli) -> Cli:
    """The command line with three agents registered."""
    registry = bare.house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    agents = {
        name: {"command": sys.executable, "baseArgs": [str(AGENT), name], "capabilities": ends}
        for name in NAMES
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    return bare


@pytest.fixture
def session(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A team of in-process agents; at the end, tickets must have moved as the design allows."""
    installed(inside.house, monkeypatch)
    made = Session(inside, monkeypatch)
    yield made
    assert moved_rightly(made)
