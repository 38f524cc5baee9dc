"""Fixtures: the command line of an isolated user, in various states of setup."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import pytest

from tests.cli.command import AGENT, NAMES, Cli, InProcessCli
from tests.cli.in_process_agent import Session, has_only_legal_moves, install_adapter
from tests.conftest import IsolatedUser


@pytest.fixture
def bare(user: IsolatedUser) -> Cli:
    """The command line with nothing set up."""
    return Cli(user, {"PYTHONHASHSEED": "0", "TZ": "UTC"})


@pytest.fixture
def in_process(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessCli]:
    """The command line in this process, in a fixed time zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield InProcessCli(user)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def cli(bare: Cli) -> Cli:
    """The command line with three agents registered."""
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    agents = {
        name: {"command": sys.executable, "baseArgs": [str(AGENT), name], "capabilities": ends}
        for name in NAMES
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    return bare


@pytest.fixture
def session(in_process: InProcessCli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """A team of in-process agents; at the end, tickets must have moved as the design allows."""
    install_adapter(in_process.user, monkeypatch)
    made = Session(in_process, monkeypatch)
    yield made
    assert has_only_legal_moves(made)
