"""Agents and files that the tests of config share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from coterie.config.known_agents import KNOWN_AGENTS
from coterie.model.agent import AgentDefinition

NOW = "2026-11-15T12:00:00.000Z"


@pytest.fixture
def agents() -> Mapping[str, AgentDefinition]:
    """`claude`, `codex` and a plain agent that only knows silence."""
    known = {one.name: one.definition(f"/opt/{one.name}", None, NOW) for one in KNOWN_AGENTS[:2]}
    return {**known, "echo": AgentDefinition(name="echo", display_name="Echo", command="cat")}


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Write a file, with the folders it needs."""

    def written(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return written
