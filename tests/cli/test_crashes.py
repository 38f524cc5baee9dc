"""Crashes at any use of the store, or in the middle of a call, as the Python API shows them."""

from __future__ import annotations

import itertools
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

import coterie
from coterie import MessageRecord, ResultRecord, ToolCallRecord
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from tests.cli.command import InProcessCli
from tests.cli.in_process_agent import CurrentScript, install_adapter
from tests.conftest import IsolatedUser

CALLS = (
    coterie.ToolCallStarted("c1", "Bash", {"command": "make"}, effect="run"),
    coterie.ToolCallFinished("c1", False, {"exit_code": 0}),
)


@pytest.fixture
def patch(user: IsolatedUser, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    install_adapter(user, monkeypatch)
    return monkeypatch


async def run_survives(
    project: Path, death: CrashPoint | None, task: str | None
) -> tuple[str, bool]:
    """Run or continue a chat in one process; return its task and whether the process survived."""
    storage = CrashingStorage(await SqliteStorage.open(project / ".coterie" / "coterie.db"), death)
    try:
        async with coterie.open_project(project, storage=storage) as opened:
            team = await opened.team(agents="ada=claude,rex=codex")
            task = task or await opened.start(team, "hello")
            ended = [record async for record in opened.stream(task, wait=0)][-1]
            assert isinstance(ended, ResultRecord)
            assert ended.status == "completed"
    except* Crashed:
        pass
    return task or "", not storage.dead


async def test_whenever_it_dies_a_chat_goes_on(
    user: IsolatedUser, patch: pytest.MonkeyPatch
) -> None:
    """D7c: after a crash at any use of the store, every message and every call is there once."""

    def say(member: coterie.Member, text: str) -> object:
        return [*CALLS, coterie.TurnCompleted(f"{member.id} speaks")]

    patch.setattr(CurrentScript, "say", staticmethod(say))
    async with coterie.open_project(user.project):
        pass
    for point in itertools.count(1):
        task, is_over = await run_survives(
            user.project, CrashPoint(point, point % 2 == 0, True), None
        )
        if not task:
            continue
        if not is_over:
            await run_survives(user.project, None, task)
        async with coterie.open_project(user.project) as opened:
            entries = [entry.record for entry in await opened.timeline(task)]
        said = [(one.member, one.text) for one in entries if isinstance(one, MessageRecord)]
        assert said == [("you", "hello"), ("ada", "ada speaks"), ("rex", "rex speaks")], point
        if is_over:
            return


async def test_a_call_that_was_cut_is_known_to_have_been(
    user: IsolatedUser, patch: pytest.MonkeyPatch, in_process: InProcessCli
) -> None:
    """D7d: a run is abandoned in the middle of a call; the member that continues is told so."""
    prompts: list[str] = []

    def say(member: coterie.Member, text: str) -> object:
        prompts.append(text)
        return [CALLS[0]] if len(prompts) == 1 else "Now it is done."

    patch.setattr(CurrentScript, "say", staticmethod(say))
    async with coterie.open_project(user.project) as opened:
        task = await opened.start(await opened.team(agents="ada=claude"), "make it")
        async with aclosing(opened.stream(task)) as records:
            await anext(one async for one in records if isinstance(one, ToolCallRecord))
        ended = [one async for one in opened.stream(task, wait=0)][-1]
    assert isinstance(ended, ResultRecord)
    assert ended.summary == "Now it is done."
    assert "- Bash make: whether it ran is unknown; check before repeating it." in prompts[1]
    (call,) = (await anyio.to_thread.run_sync(in_process, "audit", "--json")).of("audit")
    assert (call["id"], call["outcome"]) == ("c1", "unknown")
