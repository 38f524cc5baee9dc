"""A pipeline whose process dies at some write between plan and accept, or is killed with -9, still
ends with every phase's effect once and one commit.

`make chaos` does the latter a hundred times on each store.
"""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from bench.chaos.pipelines import PipelineChaos
from bench.chaos.stores import Stores
from coterie.app.project import App
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import TASK
from coterie.workspace.pipeline_work import open_work
from tests.cli.command import forked
from tests.flow.pipeline_harness import GRAPHS, Say, pipeline, replying
from tests.flow.ticket_harness import git, repository

INSTANTS = 10
_CALLS = 58
"""The minimum number of storage calls that a whole run makes."""


async def ran(project: Path, death: CrashPoint | None, say: Say) -> int | None:
    """Run the pipeline; return the number of its storage calls, or None if the process died."""
    real = await SqliteStorage.open(project / ".coterie" / "coterie.db")
    mortal = CrashingStorage(real, death)
    try:
        async with pipeline(project, storage=mortal, accept="Add coupons") as built:
            assert (await built.run(say)).reason == "accepted"
    except Crashed:
        return None
    finally:
        await real.close()
    return mortal.calls


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stores", ["postgres"], indirect=True)
def test_a_killed_pipeline_comes_to_the_same_as_one_left_alone(
    tmp_path: Path, stores: Stores
) -> None:
    tally = PipelineChaos(tmp_path, seed=5, span=1.5, stores=stores, popen=forked().popen).run(3)
    assert tally.clean, tally
    assert tally.kills == 3  # of one pipeline, or of several if a quick one ends early


@pytest.mark.parametrize("instant", range(INSTANTS))
async def test_a_death_at_any_instant_leaves_one_commit(memory_path: Path, instant: int) -> None:
    project = repository(memory_path)
    asked: list[str] = []

    def say(member: object, text: str) -> object:
        asked.append(text)
        return replying()(member, text)  # type: ignore[arg-type]

    call = 8 + instant * (_CALLS - 8) // INSTANTS
    death = CrashPoint(call, took_effect=instant % 2 == 0, queued_kept=instant % 4 < 2)
    assert await ran(project, death, say) is None
    before = len(asked)
    calls = await ran(project, None, say)
    assert calls is not None
    assert git(project, "log", "--format=%s").splitlines() == ["Add coupons", "begin"]
    assert git(project, "show", "HEAD:cart.py") == "total = 0\ncoupons = True\n"
    assert git(project, "status", "--porcelain") == ""
    # Only the turns that were under way, at most one per member, are repeated.
    assert len(asked) - len(set(asked)) <= 2, (before, len(asked))
    state = (project / ".coterie" / "sessions" / TASK / "state.json").read_text()
    assert '"phase": "done"' in state


async def test_work_that_is_reverted_between_death_and_resume_starts_over(
    memory_path: Path,
) -> None:
    project = repository(memory_path)
    dies_in_codegen = CrashPoint(40, took_effect=True, queued_kept=True)
    assert await ran(project, dies_in_codegen, replying()) is None
    base = git(project, "rev-parse", "HEAD").strip()
    assert "coterie/k3f9/work" in git(project, "branch", "--list", "coterie/*")
    await anyio.to_thread.run_sync(lambda: open_work(project, TASK, base).drop(1))
    async with pipeline(project, accept="Add coupons") as built:
        assert (await built.run()).reason == "question"
        asked = await built.asked()
        assert asked.display.title == "The work was reverted: what next?"
        assert (built.state.phase, built.state.meta.status) == ("planning", "redo")
        await built.answer("next")
        assert (await built.run()).reason == "accepted"
    assert git(project, "log", "--format=%s").splitlines() == ["Add coupons", "begin"]


async def test_what_was_committed_when_its_run_died_is_reverted_by_a_commit(
    memory_path: Path,
) -> None:
    project = repository(memory_path)
    base = git(project, "rev-parse", "HEAD").strip()
    async with pipeline(project, graph=GRAPHS["small"]) as built:
        await built.run()
        await built.answer("accept", "Add coupons")
        tree = built.state.meta.tree
    # All that the run still did before it died.
    await anyio.to_thread.run_sync(lambda: open_work(project, TASK, base).accept("Coupons", tree))
    async with App.open(project) as app:
        assert (await app.pipelines.view(TASK)).state.meta.status == "done"
        assert (await app.revert(TASK)).did_something
        assert (await app.pipelines.view(TASK)).state.meta.status == "redo"
    assert git(project, "log", "--format=%s").splitlines() == [f"Revert {TASK}", "Coupons", "begin"]
    assert git(project, "show", "HEAD:cart.py") == "total = 0\n"
    async with pipeline(project) as built:
        assert (await built.run()).reason == "accepted"
    async with App.open(project) as app:
        assert (await app.pipelines.view(TASK)).state.meta.status == "redo"
        await app.revert(TASK, undo=True)
        assert (await app.pipelines.view(TASK)).state.phase == "done"
    assert "coupons = True" in git(project, "show", "HEAD:cart.py")
