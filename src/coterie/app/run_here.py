"""Running a task here that another machine has, or would get: whoever runs it lets go first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Protocol

import anyio

from coterie.app import takeover
from coterie.app.pipelines import Block, RunsTasks
from coterie.app.store import SharedStore
from coterie.engine.ending import held
from coterie.engine.lease import Claimant
from coterie.engine.run import NoObserver
from coterie.engine.steering import Answered
from coterie.errors import TaskBusy
from coterie.model.about import ChangeAcceptance, SilentMachine
from coterie.model.conversation import YOU
from coterie.model.interaction import Interaction, choose
from coterie.ports import Storage
from coterie.workflows.pipeline.accept import COMMITTING

LETTING_GO = 4.0
"""How long whoever runs a task may take to end its agents where others need it, in seconds."""
_LOOK = 1.0


class SharesTasks(RunsTasks, Protocol):
    """What is needed of an open project."""

    @property
    def storage(self) -> Storage: ...
    @property
    def shared(self) -> SharedStore | None: ...
    async def own(self) -> str: ...
    async def claimant(self) -> Claimant: ...


async def is_run(shared: SharedStore, task_id: str) -> bool:
    """Whether a living process runs a task."""
    lease = await shared.storage.leases.get(task_id)
    if lease is None or lease.state == "parked":
        return False
    return await shared.owners.living(lease.owner) is not None


async def withdraw(shared: SharedStore, task_id: str) -> None:
    """Have nobody begin a task, and whoever runs it let go; waits a moment for that."""
    dispatch, seen, asked = shared.dispatch, 0, -_LOOK
    await dispatch.hold(task_id)
    with anyio.move_on_after(LETTING_GO):
        while True:
            if not await is_run(shared, task_id):
                offer = await dispatch.get(task_id)
                if offer is None or offer.taker is None:
                    return
            elif anyio.current_time() - asked >= _LOOK:
                # More than once: what comes before a run has begun is nothing to it.
                asked = anyio.current_time()
                await shared.storage.inbox.request(task_id, "stop", YOU, "")
            with anyio.move_on_after(_LOOK):
                seen = await shared.storage.changed(seen)


async def answer_shared(
    app: SharesTasks,
    asked: Interaction,
    choice: str | None,
    answer: Callable[[], Awaitable[Answered]],
) -> Answered:
    """Answer a question of a task that machines share.

    A yes to a change that a machine made for others is acted on here: the commit is to be in the
    clone of whoever says so.
    """
    shared = app.shared
    assert shared is not None
    if isinstance(asked.about, SilentMachine):
        seams = (app.storage, shared.owners.rows, shared.dispatch)
        return await takeover.answer_if_dead(*seams, asked, answer)
    commits = isinstance(asked.about, ChangeAcceptance) and choose(asked, choice or "")
    if commits not in COMMITTING or not await _is_lent(app, shared, asked.task_id):
        return await answer()
    async with _run_here(app, shared, asked.task_id):
        answered = await answer()
    await app.run(asked.task_id, NoObserver(), patience=0.0, starts_agents=False)
    return answered


async def approving(app: SharesTasks, task_id: str) -> Block:
    """Makes the block in which a change is approved that is to be committed to this clone."""
    shared, asked = app.shared, await app.pipelines.asked(task_id)
    if shared is None or asked is None or not isinstance(asked.about, ChangeAcceptance):
        return nullcontext
    here = await _runs_on(shared, task_id) in (None, shared.machine)
    if here and not await _is_lent(app, shared, task_id):
        return nullcontext
    return partial(_run_here, app, shared, task_id)


async def _is_lent(app: SharesTasks, shared: SharedStore, task_id: str) -> bool:
    """Whether a machine that works for others has a task, or would get it."""
    lease = await app.storage.leases.get(task_id)
    ours = lease is not None and lease.state != "parked" and lease.owner == await app.own()
    return not ours and await shared.dispatch.get(task_id) is not None


async def _runs_on(shared: SharedStore, task_id: str) -> str | None:
    """The machine that runs a task; None where none does."""
    lease = await shared.storage.leases.get(task_id)
    row = None
    if lease is not None and lease.state != "parked":
        row = await shared.owners.rows.get(lease.owner)
    return row.machine if row is not None and not row.dead else None


@asynccontextmanager
async def _run_here(app: SharesTasks, shared: SharedStore, task_id: str) -> AsyncGenerator[None]:
    """The task for this process: what is answered in the block is nobody's but ours to act on.

    Raises TaskBusy where whoever runs it does not let go.
    """
    await withdraw(shared, task_id)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(held(app.storage, await app.claimant(), task_id))
        except TaskBusy as busy:
            way = f"It does not let go. If {busy.host} is dead:  coterie machines gone {busy.host}"
            raise TaskBusy(busy.task, busy.pid, busy.host, way) from None
        yield
        await shared.dispatch.hold(task_id)  # an answer has put it on offer again
