"""A member's turn leaves nothing in its home that its next start runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.hostile import start_files_agent


@pytest.fixture
def planting(bare: Cli) -> Cli:
    """A team of one member that does what it is told."""
    base = bare.user.project.parent
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    command = [sys.executable, str(Path(start_files_agent.__file__))]
    agent = {"command": command[0], "baseArgs": command[1:], "capabilities": ends}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"ada": agent}}))
    team = bare.team("ada", name="solo")
    env = {"M": str(base / "mark"), "R": str(base / "repository"), "O": str(base / "outside")}
    members = [{"id": "ada", "agent": "ada", "env": env}]
    team.write_text(json.dumps({"members": members}))
    (base / "outside").mkdir()
    who = ("-c", "user.name=a", "-c", "user.email=b@c")
    for words in (("init", "-q", "repository"), (*_AT, *who, "commit", "-q", *_EMPTY)):
        subprocess.run(["git", *words], cwd=base, check=True)
    return bare


_AT, _EMPTY = ("-C", "repository"), ("--allow-empty", "-m", "x")


def fires_after(cli: Cli, *deeds: str) -> bool:
    """Have the member do this in a separate start; return whether anything has fired so far."""
    ran = cli("chat", "--max-turns", "1", ", ".join(deeds))
    assert ran.code == 0, ran.out + ran.err
    return (cli.user.project.parent / "mark").exists()


@pytest.mark.parametrize("name", start_files_agent.LEFT)
def test_the_next_start_does_not_run_it(planting: Cli, name: str) -> None:
    assert not fires_after(planting, f"plant {name}")
    outside = sorted((planting.user.project.parent / "outside").rglob("*"))
    assert not fires_after(planting, f"fire {name}")
    assert sorted((planting.user.project.parent / "outside").rglob("*")) == outside


@pytest.mark.parametrize("name", start_files_agent.LEFT)
def test_the_same_turn_would(planting: Cli, name: str) -> None:
    assert fires_after(planting, f"plant {name}", f"fire {name}")
