"""Offers and their queue in memory, on any clock: the rules without a database.

`MemoryOffers` does what `stores/postgres/dispatch.py` and the triggers of its schema do, and passes
the same contract.  It never waits, so a simulation can call it as often as it likes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio

from coterie.model.machine import MachineRow, MachineView, Offer, Pool
from coterie.model.task import running_task
from coterie.ports import RunTask

AGAIN = 5.0
"""How soon a machine that could not take an offer may be asked again, in seconds."""
_POLL = 0.05
"""How often an empty queue is polled, in seconds."""


@dataclass
class _Row:
    offer: Offer
    due: float | None
    is_open: bool = True
    taker: str | None = None
    job: int | None = None


class MemoryOffers:
    """The table of offers, the queue, and which owner has taken what."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        """Seconds since 1970 or any other moment; due times are compared with it."""
        self.owners: dict[str, str] = {}
        """The machine of each living owner."""
        self._rows: dict[str, _Row] = {}
        self._taken_by: defaultdict[str, set[str]] = defaultdict(set)
        self._dead_takers: set[str] = set()
        self._dead: set[str] = set()
        self._unqueued: set[str] = set()
        self._lost: set[str] = set()
        self._later: list[tuple[float, str]] = []
        self._queues: defaultdict[str, deque[int]] = defaultdict(deque)
        self._jobs: dict[int, str] = {}
        self._handed_out: set[int] = set()
        self._last_job = 0

    # -- offers --------------------------------------------------------------------------------

    def offer(self, offer: Offer, due: float | None = None) -> None:
        """Open an offer, and queue it where it now belongs."""
        row = self._rows.get(offer.task_id)
        if row is None:
            stored = replace(offer, needs=tuple(sorted(offer.needs)), woken=0, refused={})
            row = self._rows[offer.task_id] = _Row(stored, due)
        else:
            if due is not None or row.offer.machine != offer.machine:
                row.job = None  # its job comes too early, or is in the wrong queue
            woken = row.offer.woken + 1
            row.offer = replace(row.offer, machine=offer.machine, woken=woken, refused={})
            row.is_open, row.due = True, due
        self._changed(row)
        self.queue()

    def get(self, task_id: str) -> Offer | None:
        """Return the offer of a task, in whatever state."""
        row = self._rows.get(task_id)
        return replace(row.offer, taker=row.taker) if row else None

    def open_offers(self) -> dict[str, Offer]:
        """Return the open offers, by task id."""
        return {task: row.offer for task, row in self._rows.items() if row.is_open}

    def hold(self, task_id: str) -> None:
        """Withdraw a task from offer; a job already queued for it finds nothing to take."""
        if row := self._rows.get(task_id):
            row.is_open, row.job = False, None
            self._changed(row)

    def take(self, task_id: str, owner: str) -> Offer | None:
        """Take an offer; of several owners that are handed it, one gets it."""
        row = self._rows.get(task_id)
        if row is None or not row.is_open or row.taker is not None:
            return None
        if row.due is not None and row.due > self.now():
            return None
        row.taker = owner
        self._taken_by[owner].add(task_id)
        if owner in self._dead:
            self._dead_takers.add(owner)
        return row.offer

    def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Release an offer; `held` applies only if nothing has happened since it was taken."""
        if row := self._release(offer, owner):
            row.is_open = row.is_open and not (held and row.offer.woken == offer.woken)
            self._changed(row)
            self.queue()

    def defer(self, offer: Offer, owner: str, due: float | None = None) -> None:
        """Release an offer and delay it, unless something has happened since it was taken."""
        if row := self._release(offer, owner):
            later = self.now() + AGAIN if due is None else due
            row.due = later if row.offer.woken == offer.woken else None
            self._changed(row)
            self.queue()

    def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Release an offer that `machine` does not run; others find it as refused."""
        if row := self._release(offer, owner):
            row.offer = replace(row.offer, refused={**row.offer.refused, machine: why})
            self._changed(row)

    def refused_offers(self, has: Sequence[str], machine: str) -> list[Offer]:
        """Return what others refused and this machine may take, ordered by task id."""
        rows = [row for _, row in sorted(self._rows.items()) if row.is_open and row.offer.refused]
        return [
            row.offer
            for row in rows
            if (row.taker is None and (row.due is None or row.due <= self.now()))
            and row.offer.machine in (None, machine)
            and machine not in row.offer.refused
            and set(row.offer.needs) <= set(has)
        ]

    def clear_refusals(self, machine: str) -> None:
        """Forget what a machine refused; what nobody else refused is queued again."""
        for row in self._rows.values():
            if machine in row.offer.refused:
                others = {one: why for one, why in row.offer.refused.items() if one != machine}
                row.offer = replace(row.offer, refused=others)
                self._changed(row)
        self.queue()

    def sweep(self) -> bool:
        """Release what dead owners had taken, and requeue; returns whether anything is open."""
        for owner in self._dead_takers:
            for task_id in self._taken_by.pop(owner, ()):
                row = self._rows[task_id]
                row.taker = row.job = None
                self._changed(row)
        self._dead_takers.clear()
        for task_id in self._lost & self._rows.keys():
            row = self._rows[task_id]
            if row.taker is None and row.job not in self._jobs:
                row.job = None
                self._changed(row)
        self._lost.clear()
        self.queue()
        return any(row.is_open for row in self._rows.values())

    # -- other events in the store -------------------------------------------------------------

    def wake(self, task_id: str) -> None:
        """Reopen a task that got an answer or a message, or whose child ended; also its session.

        The next sweep queues them.
        """
        for one in {task_id, running_task(task_id)} & self._rows.keys():
            row = self._rows[one]
            row.offer = replace(row.offer, woken=row.offer.woken + 1)
            row.is_open, row.due = True, None
            self._changed(row)

    def drop(self, task_id: str, *, is_child: bool = False) -> None:
        """Remove the offer of a task that ended; a child's end wakes its session."""
        row = self._rows.pop(task_id, None)
        if row is not None:
            self._unqueued.discard(task_id)
            if row.taker is not None:
                self._taken_by[row.taker].discard(task_id)
        if is_child:
            self.wake(running_task(task_id))

    def declare_dead(self, owner: str) -> None:
        """Declare an owner dead; the next sweep releases what it had taken."""
        self.owners.pop(owner, None)
        self._dead.add(owner)
        if self._taken_by.get(owner):
            self._dead_takers.add(owner)

    # -- the queue -----------------------------------------------------------------------------

    def fetch(self, queues: Iterable[str]) -> int | None:
        """Fetch the oldest job of these queues; it is the caller's until it is finished."""
        waiting = [self._queues[name] for name in queues if self._queues.get(name)]
        if not waiting:
            return None
        job = min(waiting, key=lambda queue: queue[0]).popleft()
        self._handed_out.add(job)
        return job

    def has(self, queues: Iterable[str]) -> bool:
        """Whether any of these queues has a job."""
        return any(self._queues.get(name) for name in queues)

    @property
    def jobs(self) -> int:
        """How many jobs are queued."""
        return len(self._jobs) - len(self._handed_out)

    @property
    def last_job(self) -> int:
        """The number of the job that was queued last."""
        return self._last_job

    def task_of(self, job: int) -> str:
        """Return the task that a job is for."""
        return self._jobs[job]

    def finish(self, job: int) -> None:
        """End a job, done or lost; the next sweep queues its offer again if nobody has taken it."""
        self._handed_out.discard(job)
        row = self._rows.get(self._jobs.pop(job, ""))
        if row is not None and row.job == job and row.taker is None:
            self._lost.add(row.offer.task_id)

    def queue(self) -> None:
        """Queue the offers that are open, due, not taken and not queued yet."""
        now = self.now()
        while self._later and self._later[0][0] <= now:
            if row := self._rows.get(heapq.heappop(self._later)[1]):
                self._changed(row)
        unqueued, self._unqueued = self._unqueued, set()
        for task_id in sorted(unqueued):
            row = self._rows[task_id]
            if row.due is not None and row.due > now:
                heapq.heappush(self._later, (row.due, task_id))
                continue
            self._last_job = row.job = self._last_job + 1
            self._jobs[row.job] = task_id
            self._queues[row.offer.queue].append(row.job)

    def _release(self, offer: Offer, owner: str) -> _Row | None:
        row = self._rows.get(offer.task_id)
        if row is None or row.taker != owner:
            return None
        self._taken_by[owner].discard(offer.task_id)
        row.taker = row.job = None
        return row

    def _changed(self, row: _Row) -> None:
        waits = row.job is None and row.taker is None
        if row.is_open and waits and not row.offer.refused:
            self._unqueued.add(row.offer.task_id)
        else:
            self._unqueued.discard(row.offer.task_id)


@dataclass
class MemoryDispatch:
    """`ports.Dispatch` for the tasks of one process."""

    offers: MemoryOffers
    _machines: dict[str, MachineRow] = field(default_factory=dict[str, MachineRow])

    async def offer(self, offer: Offer, at: str | None = None) -> None:
        """Offer a task, which is queued at once if it is due."""
        self.offers.offer(offer, _seconds(at))

    async def get(self, task_id: str) -> Offer | None:
        """Return the offer of a task, in whatever state."""
        return self.offers.get(task_id)

    async def offered(self) -> Mapping[str, Offer]:
        """Return the open offers, by task id."""
        return self.offers.open_offers()

    async def hold(self, task_id: str) -> None:
        """Withdraw a task from offer until its next event."""
        self.offers.hold(task_id)

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """Take an offer; None if it cannot be taken now."""
        return self.offers.take(task_id, owner)

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Release an offer."""
        self.offers.put_back(offer, owner, held=held)

    async def defer(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """Release an offer, not to be taken before `at` or for a few seconds."""
        self.offers.defer(offer, owner, _seconds(at))

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Release an offer that `machine` does not run; others may take it."""
        self.offers.refuse(offer, owner, machine, why)

    async def refused_offers(self, has: Sequence[str], machine: str) -> list[Offer]:
        """Return what others refused and this machine may take."""
        return self.offers.refused_offers(has, machine)

    async def clear_refusals(self, machine: str) -> None:
        """Forget what a machine refused."""
        self.offers.clear_refusals(machine)

    async def sweep(self) -> bool:
        """Sweep the offers; returns whether anything is open."""
        return self.offers.sweep()

    async def serve(
        self, pool: Pool, queues: Sequence[str], seats: int, run: RunTask, *, once: bool = False
    ) -> None:
        """Fetch from the queue whenever a seat is free."""
        free = anyio.Semaphore(seats)

        async def do(job: int) -> None:
            try:
                await run(self.offers.task_of(job))
            finally:
                self.offers.finish(job)
                free.release()

        async with anyio.create_task_group() as group:
            while True:
                await free.acquire()
                job = self.offers.fetch(queues)
                if job is not None:
                    group.start_soon(do, job)
                    continue
                free.release()
                if once:
                    return
                await anyio.sleep(_POLL)

    async def announce(self, machine: MachineRow) -> None:
        """Record what a machine says about itself."""
        self._machines[machine.name] = machine

    async def machines(self) -> list[MachineView]:
        """Return the machines by name, without the tasks they run: no leases are known here."""
        alive = set(self.offers.owners.values())
        return [
            MachineView(
                name,
                "alive" if name in alive else "dead",
                row.agents,
                row.seats,
                version=row.version,
                seen=row.seen,
                allows_full=row.allows_full,
            )
            for name, row in sorted(self._machines.items())
        ]

    async def close(self) -> None:
        """Do nothing: nothing is open."""


def _seconds(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp()
