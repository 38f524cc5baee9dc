"""The machines that share a store, and offering tasks to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.app import takeover
from coterie.app.elsewhere import offer_of
from coterie.errors import NotFound, UsageError
from coterie.model.journal import Fence
from coterie.model.machine import MachineView
from coterie.model.task import ENDED, TaskCreated
from coterie.model.team import YOU
from coterie.workspace.ticket_worktrees import open_ticket_worktrees

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.app.store import SharedStore


def shared_store(app: App) -> SharedStore:
    """Return the store that machines share; raises UsageError if there is none."""
    if app.shared is None:
        problem = "No shared store is configured: this project's tasks are kept in its folder."
        raise UsageError(problem, "--store postgresql://user@host/database")
    return app.shared


async def offer(app: App, task_id: str) -> None:
    """Offer a task to any machine that can run it; a running task stays where it is."""
    shared, state = shared_store(app), (await app.show(task_id)).state
    if state.status in ENDED:
        raise UsageError(f"{task_id} is already {state.status}.", f"coterie show {task_id}")
    lease = await app.storage.leases.get(task_id)
    if lease is not None and lease.owner == await app.own():
        fence = Fence(task_id, lease.token)
        await _send_base(app, shared, state.created, fence)
        await app.storage.leases.park(fence)
    await shared.dispatch.offer(offer_of(state.created))


async def _send_base(app: App, shared: SharedStore, created: TaskCreated, fence: Fence) -> None:
    """Send the commit that the work starts from, for clones that lack it."""
    if created.base is None:
        return
    from coterie.workflows.shared_branches import SharedBranches

    opening = (open_ticket_worktrees, app.root, created.session_id, created.base)
    worktrees = await anyio.to_thread.run_sync(*opening)
    if worktrees is not None:
        await SharedBranches(shared.sharing(fence), worktrees).send_base()


async def machines(app: App) -> list[MachineView]:
    """Return every machine that was ever a worker of this project."""
    return await shared_store(app).dispatch.machines()


async def gone(app: App, name: str) -> int:
    """Declare a machine dead because a person said so: its tasks may be taken over at once.

    Returns how many processes were declared dead; raises NotFound if none of its processes lives.
    """
    shared = shared_store(app)
    rows = shared.owners.rows
    living = [row for row in await rows.living() if row.machine == name]
    if not living:
        known = ", ".join(one.name for one in await shared.dispatch.machines()) or "none"
        raise NotFound(
            f'No machine "{name}" is alive. Known machines: {known}.', "coterie machines"
        )
    dead = [row for row in living if await rows.declare_dead(row.id, None)]
    await takeover.settle(app.storage, name, YOU)
    await shared.dispatch.sweep()
    return len(dead)
