"""Who manages, who works, and which workers are free."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from coterie.errors import UsageError
from coterie.model.envelope import PlanTask
from coterie.model.plan_rules import capable
from coterie.model.team import INSTANCE, Member, Team, base_of
from coterie.model.ticket import SchedulerConfig

_INSTANCES = 4
"""How many instances of a worker may work at once, where its agent supports that."""


def check_team(team: Team) -> None:
    """Raise UsageError where a team cannot work on tickets."""
    if len(team.ai_members) < 2:
        raise UsageError(
            f"Team {team.name} has {len(team.ai_members)} AI member; tickets need a manager "
            "and at least one worker.",
            "coterie team add NAME --agent claude",
        )


class WorkerPool:
    """The workers of a session: assigned by name, then by capability, then by how busy they are.

    The manager is never one of them.  A seat is a worker or one of its instances (`wren#2`).
    """

    def __init__(self, team: Team, config: SchedulerConfig) -> None:
        manager = team.manager
        limit = manager.timeout_ms or round(config.time_limits.manager * 60_000)
        self.manager: Member = manager.model_copy(update={"timeout_ms": limit})
        self._team = team
        self.workers: Sequence[Member] = [m for m in team.ai_members if m.id != self.manager.id]
        self._released = anyio.Event()
        self._occupied: set[str] = set()
        self._reserved: list[str] = []
        """Seats that were assigned and are not occupied yet: others are preferred to them."""
        self._assigned: dict[str, int] = {worker.id: 0 for worker in self.workers}
        """How many tickets each ever had: of equally busy workers the least used is next."""

    def load(self, assigned: Iterable[str]) -> None:
        """Go on from an earlier run; `assigned` has a worker once for each ticket it had."""
        for worker in assigned:
            if worker in self._assigned:
                self._assigned[worker] += 1

    def able(self, task: PlanTask, without: Sequence[str] = ()) -> list[Member]:
        """Who could do it: the one named, else those with the capability, else those who are not
        said to have any in particular.

        Those in `without` failed at it already, so they come only where there is nobody else.
        """
        named = task.assigned_to.role_id if task.assigned_to else None
        able = [worker for worker in self.workers if worker.id == named]
        if task.capability and not able:
            able = capable(self.workers, task.capability)
        able = able or list(self.workers)
        others = [one for one in self.workers if one.id not in without]
        return [one for one in able if one.id not in without] or others or able

    async def assign(self, task: PlanTask, without: Sequence[str] = ()) -> str:
        """Reserve a free seat of the least busy of those who could do it; waits for one."""
        able = self.able(task, without)
        while True:
            free = {one.id: seats for one in able if (seats := self._free(one))}
            if free:
                best = min(free, key=lambda one: (self._busy(one), self._assigned[one]))
                seat = min(free[best], key=self._reserved.count)
                self._reserved.append(seat)
                self._assigned[best] += 1
                return seat
            await self._released.wait()

    @asynccontextmanager
    async def occupy(self, seat: str) -> AsyncGenerator[Member]:
        """The worker on a seat, which nobody else gets for as long as the block takes."""
        worker = self._team.seated(seat)
        assert worker is not None  # seats are those of workers
        try:
            while seat in self._occupied:
                await self._released.wait()
        finally:
            if seat in self._reserved:
                self._reserved.remove(seat)
        self._occupied.add(seat)
        try:
            yield worker
        finally:
            self._occupied.discard(seat)
            self._released.set()
            self._released = anyio.Event()

    def _free(self, worker: Member) -> list[str]:
        more = _INSTANCES if worker.supports_multiple_instances else 1
        seats = [worker.id, *(f"{worker.id}{INSTANCE}{n}" for n in range(2, more + 1))]
        return [seat for seat in seats if seat not in self._occupied]

    def _busy(self, worker_id: str) -> int:
        return sum(base_of(seat) == worker_id for seat in [*self._occupied, *self._reserved])
