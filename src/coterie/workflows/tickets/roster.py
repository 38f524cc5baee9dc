"""Who manages and who works, and who is free."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from coterie.errors import UsageError
from coterie.model.envelope import PlanTask
from coterie.model.plan_rules import capable
from coterie.model.scheduler import SchedulerConfig
from coterie.model.team import INSTANCE, Member, Team, base_of

_INSTANCES = 4
"""A worker that may be doubled is, up to so many of it at once."""


def check_team(team: Team) -> None:
    """Raise UsageError where a team cannot work on tickets."""
    if len(team.ai_members) < 2:
        raise UsageError(
            f"Team {team.name} has {len(team.ai_members)} AI member; tickets need a manager "
            "and at least one worker.",
            "coterie team add NAME --agent claude",
        )


class Roster:
    """The workers of a session: chosen by name, then by what they can, then by how busy they are.

    The manager is never one of them.
    """

    def __init__(self, team: Team, config: SchedulerConfig) -> None:
        self.manager: Member = _within(team.manager, config.time_limits.manager)
        self._team = team
        self.workers: Sequence[Member] = [m for m in team.ai_members if m.id != self.manager.id]
        self._changed = anyio.Condition()
        self._taken: set[str] = set()
        """Seats that somebody sits on now."""
        self._promised: list[str] = []
        """Seats that were chosen and are not taken yet: others are chosen before them."""
        self._given: dict[str, int] = {worker.id: 0 for worker in self.workers}
        """How many tickets each was ever given: of equally busy ones the least used is next."""

    def remember(self, given: Iterable[str]) -> None:
        """Go on from an earlier run; `given` has a worker as often as it was given a ticket."""
        for worker in given:
            if worker in self._given:
                self._given[worker] += 1

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

    async def choose(self, task: PlanTask, without: Sequence[str] = ()) -> str:
        """A free seat of the least busy of those who could do it; waits until there is one."""
        able = self.able(task, without)
        async with self._changed:
            while True:
                free = {one.id: seats for one in able if (seats := self._free(one))}
                if free:
                    best = min(free, key=lambda one: (self._busy(one), self._given[one]))
                    seat = min(free[best], key=self._promised.count)
                    self._promised.append(seat)
                    self._given[best] += 1
                    return seat
                await self._changed.wait()

    @asynccontextmanager
    async def seat(self, seat: str) -> AsyncGenerator[Member]:
        """The worker on a seat, which is nobody else's for as long as the block takes."""
        worker = self._team.seated(seat)
        assert worker is not None  # seats are those of workers
        async with self._changed:
            try:
                while seat in self._taken:
                    await self._changed.wait()
            finally:
                if seat in self._promised:
                    self._promised.remove(seat)
            self._taken.add(seat)
        try:
            yield worker
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._taken.discard(seat)
                    self._changed.notify_all()

    def _free(self, worker: Member) -> list[str]:
        return [seat for seat in seats_of(worker) if seat not in self._taken]

    def _busy(self, worker_id: str) -> int:
        return sum(base_of(seat) == worker_id for seat in [*self._taken, *self._promised])


def seats_of(worker: Member) -> list[str]:
    """The names it works under: its own, and of one that may be doubled some numbered ones."""
    more = _INSTANCES if worker.supports_multiple_instances else 1
    return [worker.id, *(f"{worker.id}{INSTANCE}{n}" for n in range(2, more + 1))]


def _within(member: Member, minutes: float) -> Member:
    """The member with a limit to its turns, where it has none of its own."""
    limit = member.timeout_ms or round(minutes * 60_000)
    return member.model_copy(update={"timeout_ms": limit})
