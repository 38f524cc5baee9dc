"""Run a task here that another machine has or would get, after its runner has released it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio

from coterie.app import takeover
from coterie.app.pipelines import Block, NoObserver, RunsTasks
from coterie.app.store import SharedStore
from coterie.engine.ending import held
from coterie.engine.lease import Claimant
from coterie.engine.reader import runner
from coterie.engine.steering import Answered
from coterie.errors import TaskBusy
from coterie.model.about import ChangeAcceptance, SilentMachine
from coterie.model.interaction import Interaction, choose
from coterie.model.team import YOU
from coterie.ports import Storage
from coterie.workflows.pipeline.accept import COMMITTING

RELEASE_TIMEOUT = 4.0
"""How many seconds the runner of a task may take to end its agents when others need the task."""
_LOOK = 1.0


class SharesTasks(RunsTasks, Protocol):
    """What this module needs from an open project."""

    @property
    def home(self) -> Path | None: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def shared(self) -> SharedStore | None: ...
    async def own(self) -> str: ...
    async def claimant(self) -> Claimant: ...


async def is_run(shared: SharedStore, task_id: str) -> bool:
    """Whether a living process runs a task."""
    return await runner(shared.owners, await shared.storage.leases.get(task_id)) is not None


async def withdraw_and_stop(shared: SharedStore, task_id: str) -> None:
    """Withdraw a task from offer and ask its runner to release it; waits a moment for that."""
    dispatch, seen, asked_at = shared.dispatch, 0, -_LOOK
    await dispatch.hold(task_id)
    with anyio.move_on_after(RELEASE_TIMEOUT):
        while True:
            if not await is_run(shared, task_id):
                offer = await dispatch.get(task_id)
                if offer is None or offer.taker is None:
                    return
            elif anyio.current_time() - asked_at >= _LOOK:
                # More than once: a run ignores what was asked of the one before it.
                asked_at = anyio.current_time()
                await shared.storage.inbox.request(task_id, "stop", YOU, "")
            with anyio.move_on_after(_LOOK):
                seen = await shared.storage.changed(seen)


async def answer_shared(
    app: SharesTasks,
    question: Interaction,
    choice: str | None,
    answer: Callable[[], Awaitable[Answered]],
) -> Answered:
    """Answer a question of a task that machines share.

    If the answer accepts a change that a machine made for others, it is committed here: the commit
    belongs in the clone of whoever accepts it.
    """
    shared = app.shared
    assert shared is not None
    if isinstance(question.about, SilentMachine):
        seams = (app.storage, shared.owners.rows, shared.dispatch)
        return await takeover.answer_if_dead(*seams, question, answer, app.home)
    commits = isinstance(question.about, ChangeAcceptance) and choose(question, choice or "")
    if commits not in COMMITTING or not await _runs_for_others(app, shared, question.task_id):
        return await answer()
    async with _run_here(app, shared, question.task_id):
        answered = await answer()
    await app.run(question.task_id, NoObserver(), wait=0.0, starts_agents=False)
    return answered


async def approving(app: SharesTasks, task_id: str) -> Block:
    """Return what makes the context for approving a change to be committed to this clone."""
    shared, question = app.shared, await app.pipelines.open_question(task_id)
    if shared is None or question is None or not isinstance(question.about, ChangeAcceptance):
        return nullcontext
    here = await _runs_on(shared, task_id) in (None, shared.machine)
    if here and not await _runs_for_others(app, shared, task_id):
        return nullcontext
    return partial(_run_here, app, shared, task_id)


async def _runs_for_others(app: SharesTasks, shared: SharedStore, task_id: str) -> bool:
    """Whether a machine that works for others is running a task, or would get it."""
    lease = await app.storage.leases.get(task_id)
    runs_here = lease is not None and lease.state != "parked" and lease.owner == await app.own()
    return not runs_here and await shared.dispatch.get(task_id) is not None


async def _runs_on(shared: SharedStore, task_id: str) -> str | None:
    """Return the machine that runs a task; None if none does."""
    lease = await shared.storage.leases.get(task_id)
    row = None
    if lease is not None and lease.state != "parked":
        row = await shared.owners.rows.get(lease.owner)
    return row.machine if row is not None and not row.dead else None


@asynccontextmanager
async def _run_here(app: SharesTasks, shared: SharedStore, task_id: str) -> AsyncGenerator[None]:
    """Hold a task for this process, so that only this process acts on answers given in the block.

    Raises TaskBusy if its runner does not release it.
    """
    await withdraw_and_stop(shared, task_id)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(held(app.storage, await app.claimant(), task_id))
        except TaskBusy as busy:
            gone = f"coterie machines gone {busy.host}"
            way = f"It has not released the task. If {busy.host} is dead:  {gone}"
            raise TaskBusy(busy.task, busy.pid, busy.host, way) from None
        yield
        await shared.dispatch.hold(task_id)  # the answer has put it on offer again
