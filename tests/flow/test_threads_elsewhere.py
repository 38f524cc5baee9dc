"""A worker whose ticket comes back to it continues its thread, which exists on one machine."""

from __future__ import annotations

import threading

import anyio
import pytest

from coterie.app import hand_out
from coterie.app.open_project import OpenProject
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from tests.cli.in_process_agent import InProcessAdapter
from tests.flow.machines_harness import TIMEOUT, Machines, machines, run, until
from tests.flow.test_remote_turns import ONE
from tests.flow.ticket_harness import replying

__all__ = ["machines"]


class Review:
    """Sends the work back that many times, then approves; with `waits`, begins when allowed."""

    def __init__(self, times: int, *, waits: bool = False) -> None:
        self.left = times
        self.has_come, self.goes_on = threading.Event(), threading.Event()
        if not waits:
            self.goes_on.set()

    def __call__(self, member: Member, text: str) -> object:
        self.has_come.set()
        assert self.goes_on.wait(TIMEOUT)
        self.left -= 1
        if self.left >= 0:
            return {"decision": "changes_requested", "requested_changes": ["more"]}
        return {"decision": "approved", "notes": "fine"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """Give agents threads; return machine and thread of each channel opened for the worker."""
    found: list[tuple[str, str | None]] = []
    plain = InProcessAdapter.open

    async def open_(
        self: InProcessAdapter, member: Member, workspace: Workspace, thread: str | None
    ) -> object:
        channel = await plain(self, member, workspace, thread)
        if member.id == "wren":
            machine = str(workspace.execution_dir).split("/shop/")[0].rpartition("/")[2]
            found.append((machine, thread))
            channel.thread = thread or f"{machine}'s"
        return channel

    monkeypatch.setattr(InProcessAdapter, "open", open_)
    return found


async def test_on_the_machine_that_has_it(
    machines: Machines, opened: list[tuple[str, str | None]]
) -> None:
    machines.play(replying(Split_the_goal_into_tasks=ONE, Is_it_done=Review(3)))
    async with machines.worker("gpu1"), machines.worker("gpu2"), machines.open() as desk:
        task = await machines.session(desk)
        assert (await run(desk, task)).status == "completed"
    first, _ = opened[0]
    assert opened == [(first, None), *[(first, f"{first}'s")] * 3]


async def is_over(desk: OpenProject) -> bool:
    return (await desk.storage.events.tasks())[0].status == "completed"


async def test_not_where_that_machine_is_busy(
    machines: Machines,
    opened: list[tuple[str, str | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another machine takes the turn after a while, and begins a new thread."""
    monkeypatch.setattr(hand_out, "THREAD_TIMEOUT", 0.3)
    review = Review(1, waits=True)
    machines.play(replying(Split_the_goal_into_tasks=ONE, Is_it_done=review))
    async with (
        machines.open() as desk,
        machines.worker("gpu1", seats=1),
        anyio.create_task_group() as group,
    ):
        group.start_soon(run, desk, await machines.session(desk))
        await anyio.to_thread.run_sync(review.has_come.wait, TIMEOUT)
        await machines.workers["gpu1"]._limits["seat"].acquire_on_behalf_of("another")
        async with machines.worker("gpu2"):
            review.goes_on.set()
            await until(lambda: is_over(desk))
    assert opened == [("gpu1", None), ("gpu2", None)]


async def test_not_where_that_machine_is_gone(
    machines: Machines, opened: list[tuple[str, str | None]]
) -> None:
    """Another machine takes the turn at once."""
    review = Review(1, waits=True)
    machines.play(replying(Split_the_goal_into_tasks=ONE, Is_it_done=review))
    async with machines.open() as desk, anyio.create_task_group() as group:
        async with machines.worker("gpu1"):
            group.start_soon(run, desk, await machines.session(desk))
            await anyio.to_thread.run_sync(review.has_come.wait, TIMEOUT)
        async with machines.worker("gpu2"):
            review.goes_on.set()
            await until(lambda: is_over(desk))
    assert opened == [("gpu1", None), ("gpu2", None)]
