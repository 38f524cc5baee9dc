"""Getting the right to run a task: its lease, after its last owner is proven gone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import anyio.to_thread

from coterie.engine.owner import Owner, facts, proven_dead
from coterie.errors import NotFound, SurvivorsElsewhere, TaskBusy
from coterie.model.journal import ChildLease, Fence, Lease
from coterie.ports import LeaseStore, Reaper
from coterie.process.processes import Machine


@dataclass(frozen=True)
class Claimant:
    """Who wants a task, and by what means it may get it."""

    owner: Owner
    leases: LeaseStore
    reaper: Reaper
    machine: Machine

    async def take(self, task_id: str) -> Fence:
        """Own the task, with every child of an earlier owner proven dead.

        Raises TaskBusy where a living process runs it, or took it first.
        """
        lease = await self.leases.get(task_id)
        if lease is None:
            raise NotFound(f'No task "{task_id}".', "coterie tasks")
        if lease.owner == self.owner.id and lease.state == "running":
            return Fence(task_id, lease.token)
        # The dead owner's lock is held until the task is ours, so that of two processes that
        # find it dead only one gets this far.  A parked task has no runner: the token decides.
        with ExitStack() as held:
            proof = proven_dead(self.owner.folder, lease.owner)
            dead = await anyio.to_thread.run_sync(held.enter_context, proof)
            if not dead and lease.state != "parked":
                raise await self._busy(lease)
            return await self._claim(lease)

    async def _claim(self, lease: Lease) -> Fence:
        token = await self.leases.claim(lease.task_id, self.owner.id, lease.token)
        if token is None:
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        fence = Fence(lease.task_id, token)
        await self._end_children(lease.task_id)
        if not await self.leases.confirm(fence):
            raise await self._busy(await self.leases.get(lease.task_id) or lease)
        return fence

    async def _end_children(self, task_id: str) -> None:
        children = await self.leases.children(task_id)
        for child in children:
            self._check_reachable(child)
        left: Sequence[int] = await self.reaper.end(children) if children else ()
        if left:
            raise TaskBusy(
                task_id,
                left[0],
                None,
                f"Processes of its last run could not be ended: {', '.join(map(str, left))}.",
            )
        for child in children:
            self.leases.drop_child(child.mark)

    def _check_reachable(self, child: ChildLease) -> None:
        here = self.machine
        if child.host != here.host:
            raise SurvivorsElsewhere(child.task_id, child.host)
        if child.boot_id == here.boot_id and child.pid_namespace != here.pid_namespace:
            raise SurvivorsElsewhere(child.task_id, f"{child.host} (another container)")
        # One of an earlier boot is dead, and its mark is found nowhere.

    async def _busy(self, lease: Lease) -> TaskBusy:
        known = await anyio.to_thread.run_sync(facts, self.owner.folder, lease.owner)
        return TaskBusy(lease.task_id, known.pid, known.host)
