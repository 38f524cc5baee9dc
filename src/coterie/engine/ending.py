"""End tasks that nobody runs, and those below a task that ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio

from coterie.engine.lease import Claimant
from coterie.engine.reader import runner
from coterie.engine.resuming import CANCELED, ENDED_BEFORE, calls_not_run
from coterie.errors import SurvivorsElsewhere, TaskBusy
from coterie.model import instant
from coterie.model.conversation import summary_of
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
from coterie.model.team import YOU
from coterie.ports import Storage

FindUnstarted = Callable[[list[str]], Sequence[str]]
"""Returns which calls an agent of our own had not begun yet, from the entries of its thread."""
PARENT_ENDED = "session_ended"
"""Why a task was canceled: it was still open when the task that it is part of ended."""
RELEASE_TIMEOUT = 4.0
"""How long the runner of a task below one that ends may take to end its agents, in seconds."""
LOOK = 0.25


@asynccontextmanager
async def held(storage: Storage, claimant: Claimant, task_id: str) -> AsyncGenerator[Fence]:
    """Hold a task that nobody runs until the block ends; raises TaskBusy if somebody runs it."""
    fence = await claimant.take_parked(task_id)
    try:
        yield fence
    finally:
        with anyio.CancelScope(shield=True):
            await storage.leases.park(fence)


async def end_parked(
    storage: Storage, claimant: Claimant, task_id: str, unstarted: FindUnstarted
) -> None:
    """End a conversation that nobody runs; does nothing if somebody runs it by now."""
    with suppress(TaskBusy):
        async with held(storage, claimant, task_id) as fence:
            await end_held(storage, claimant, fence, unstarted)


async def end_held(
    storage: Storage, claimant: Claimant, fence: Fence, unstarted: FindUnstarted
) -> TaskState:
    """End a conversation whose lease is ours but which we do not run; returns its new state."""
    task_id, now = fence.task_id, instant.now()
    state = fold(await storage.events.of_task(task_id))
    if state.status in ENDED:  # another process was faster
        return state
    await cancel_below(storage, claimant, task_id, unstarted)
    messages = await storage.conversation.messages(task_id)
    summary = summary_of(messages[-1].text) if messages else ""
    events: list[Event] = []
    if state.status == "created":
        events.append(TaskStarted(task_id=task_id, at=now))
    events.append(TaskCompleted(task_id=task_id, at=now, reason=BY_PERSON, summary=summary))
    await conclude(storage, fence, events, unstarted, ENDED_BEFORE)
    return fold(await storage.events.of_task(task_id))


async def conclude(
    storage: Storage, fence: Fence, events: Sequence[Event], unstarted: FindUnstarted, why: str
) -> None:
    """Record the end of a task that nobody runs, including what it leaves undone."""
    task_id = fence.task_id
    audit = await calls_not_run(storage, task_id, unstarted, why)
    history = await storage.history(task_id)
    below = cancel_children(history.children, events[-1].at)
    taken = [TakeRequest(one.id) for one in history.requests if one.kind == "end"]
    await storage.commit(fence, *taken, *audit, *below, *map(AppendEvent, events))


def cancel_children(children: Mapping[str, Status], at: str) -> list[Write]:
    """The writes that cancel tickets still open when their session ends."""
    return [
        AppendEvent(TaskCanceled(task_id=child, at=at, reason=PARENT_ENDED))
        for child, status in children.items()
        if status not in ENDED
    ]


async def cancel_below(
    storage: Storage, claimant: Claimant, task_id: str, unstarted: FindUnstarted
) -> None:
    """End the tasks with a lease of their own below one that is about to end: subtasks, and turns
    that were handed out.

    The runner of each is asked to end it, and waited for.  If that is a machine that does not
    respond, whoever resumes the task later finds the request.
    """
    rows = await storage.events.below(task_id)
    parts = [row.id for row in rows if row.workflow != TICKET and row.status not in ENDED]
    for part in parts:
        if await _is_run(storage, claimant, part):
            await storage.inbox.request(part, "cancel", YOU, "")
    with anyio.move_on_after(RELEASE_TIMEOUT):
        seen = 0
        while any([await _is_run(storage, claimant, part) for part in parts]):
            with anyio.move_on_after(LOOK):
                seen = await storage.changed(seen)
    for part in reversed(parts):  # bottom up
        with suppress(TaskBusy, SurvivorsElsewhere):
            await _cancel(storage, claimant, part, unstarted)


async def _is_run(storage: Storage, claimant: Claimant, task_id: str) -> bool:
    return await runner(claimant.owners, await storage.leases.get(task_id)) is not None


async def _cancel(
    storage: Storage, claimant: Claimant, task_id: str, unstarted: FindUnstarted
) -> None:
    async with held(storage, claimant, task_id) as fence:
        if fold(await storage.events.of_task(task_id)).status not in ENDED:
            event = TaskCanceled(task_id=task_id, at=instant.now(), reason=PARENT_ENDED)
            await conclude(storage, fence, [event], unstarted, CANCELED)
