"""Agents and files shared by the config tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.registry import Registry
from coterie.model.agent import AgentDefinition

NOW = "2026-11-15T12:00:00.000Z"


@pytest.fixture
def agents() -> Registry:
    """`claude`, `codex` and a plain agent that can only detect completion by silence."""
    known = [
        KNOWN_AGENTS.ours[name].definition(f"/opt/{name}", None, NOW)
        for name in ("claude", "codex")
    ]
    echo = AgentDefinition(name="echo", display_name="Echo", command="cat")
    return Registry(Path("/x/config.json"), known=KNOWN_AGENTS).with_agents(*known, echo)


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Write a file, creating its parent folders."""

    def written(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return written
