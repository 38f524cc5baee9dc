"""The end of tasks that nobody runs, and of those below a task that ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio

from coterie.engine.lease import Claimant
from coterie.engine.resuming import CANCELED, ENDED_BEFORE, calls_not_run
from coterie.errors import SurvivorsElsewhere, TaskBusy
from coterie.model import instant
from coterie.model.conversation import YOU, summary_of
from coterie.model.journal import AppendEvent, Fence, TakeRequest, Write
from coterie.model.task import (
    BY_PERSON,
    ENDED,
    TICKET,
    Event,
    Status,
    TaskCanceled,
    TaskCompleted,
    TaskStarted,
    TaskState,
    fold,
)
from coterie.ports import Storage

Unbegun = Callable[[list[str]], Sequence[str]]
"""Tells which calls an agent of our own had yet to make, from the entries of its thread."""
PARENT_ENDED = "session_ended"
"""Why a task was canceled that was not over when the one that it is part of was."""
LETTING_GO = 4.0
"""How long whoever runs a task below one that ends may take to end its agents, in seconds."""
LOOK = 0.25


@asynccontextmanager
async def held(storage: Storage, claimant: Claimant, task_id: str) -> AsyncGenerator[Fence]:
    """A task that nobody runs, held for the block; raises TaskBusy where somebody does."""
    fence = await claimant.take_parked(task_id)
    try:
        yield fence
    finally:
        await storage.leases.park(fence)


async def end_parked(storage: Storage, claimant: Claimant, task_id: str, unbegun: Unbegun) -> None:
    """End a conversation that nobody runs; nothing happens where somebody does by now."""
    with suppress(TaskBusy):
        async with held(storage, claimant, task_id) as fence:
            await end_held(storage, claimant, fence, unbegun)


async def end_held(
    storage: Storage, claimant: Claimant, fence: Fence, unbegun: Unbegun
) -> TaskState:
    """End a conversation whose lease is ours, and which we do not run; how it stands then."""
    task_id, now = fence.task_id, instant.now()
    state = fold(await storage.events.of_task(task_id))
    if state.status in ENDED:  # by another, just before
        return state
    await cancel_below(storage, claimant, task_id, unbegun)
    said = await storage.conversation.messages(task_id)
    summary = summary_of(said[-1].text) if said else ""
    events: list[Event] = []
    if state.status == "created":
        events.append(TaskStarted(task_id=task_id, at=now))
    events.append(TaskCompleted(task_id=task_id, at=now, reason=BY_PERSON, summary=summary))
    await conclude(storage, fence, events, unbegun, ENDED_BEFORE)
    return fold(await storage.events.of_task(task_id))


async def conclude(
    storage: Storage, fence: Fence, events: Sequence[Event], unbegun: Unbegun, why: str
) -> None:
    """Record the end of a task that nobody runs, with what it leaves undone."""
    task_id = fence.task_id
    left = await calls_not_run(storage, task_id, unbegun, why)
    history = await storage.history(task_id)
    below = cancel_children(history.children, events[-1].at)
    taken = [TakeRequest(one.id) for one in history.requests if one.kind == "end"]
    await storage.commit(fence, *taken, *left, *below, *map(AppendEvent, events))


def cancel_children(children: Mapping[str, Status], at: str) -> list[Write]:
    """The end of the tickets that are not over when their session ends."""
    return [
        AppendEvent(TaskCanceled(task_id=child, at=at, reason=PARENT_ENDED))
        for child, status in children.items()
        if status not in ENDED
    ]


async def cancel_below(
    storage: Storage, claimant: Claimant, task_id: str, unbegun: Unbegun
) -> None:
    """End the tasks with a lease of their own that are below one that is about to end: subtasks,
    and turns that were handed out.

    Who runs one is asked to end it, and waited for.  Where that is a machine that does not answer,
    whoever goes on with the task finds what was asked.
    """
    rows = await storage.events.below(task_id)
    parts = [row.id for row in rows if row.workflow != TICKET and row.status not in ENDED]
    for part in parts:
        if await _is_run(storage, claimant, part):
            await storage.inbox.request(part, "cancel", YOU, "")
    with anyio.move_on_after(LETTING_GO):
        seen = 0
        while any([await _is_run(storage, claimant, part) for part in parts]):
            with anyio.move_on_after(LOOK):
                seen = await storage.changed(seen)
    for part in reversed(parts):  # the lowest first
        with suppress(TaskBusy, SurvivorsElsewhere):
            await _cancel(storage, claimant, part, unbegun)


async def _is_run(storage: Storage, claimant: Claimant, task_id: str) -> bool:
    lease = await storage.leases.get(task_id)
    if lease is None or lease.state == "parked":
        return False
    return await claimant.owners.living(lease.owner) is not None


async def _cancel(storage: Storage, claimant: Claimant, task_id: str, unbegun: Unbegun) -> None:
    async with held(storage, claimant, task_id) as fence:
        if fold(await storage.events.of_task(task_id)).status not in ENDED:
            event = TaskCanceled(task_id=task_id, at=instant.now(), reason=PARENT_ENDED)
            await conclude(storage, fence, [event], unbegun, CANCELED)
