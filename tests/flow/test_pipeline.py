"""Pipelines from a goal to a commit, with all that may come in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.pipeline_stage import pipeline
from tests.flow.ticket_stage import git, repository


@pytest.fixture
def project(memory_path: Path) -> Path:
    return repository(memory_path)


async def test_a_goal_becomes_one_commit(project: Path) -> None:
    async with pipeline(project, accept="Add coupons") as built:
        result = await built.run()
        assert (result.status, result.reason) == ("completed", "accepted"), await built.asked()
        state = built.state
    assert git(project, "log", "--format=%s").split("\n")[:2] == ["Add coupons", "begin"]
    assert (project / "cart.py").read_text() == "total = 0\ncoupons = True\n"
    assert git(project, "status", "--porcelain") == ""
    assert (state.phase, state.meta.status) == ("done", "done")
    assert {name: actor.round for name, actor in state.actors.items()} == {
        "planning": 1,
        "codegen": 1,
        "review": 1,
        "test": 1,
        "accept": 1,
        "revert": 0,
    }
