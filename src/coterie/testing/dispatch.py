"""Offers and their queue in memory, on whatever clock one has: the rules, with no database.

`MemoryOffers` does what `stores/postgres/dispatch.py` and the triggers of its schema do, and passes
the same contract.  Nothing in it waits, so a simulation can call it as often as it likes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio

from coterie.model.machine import MachineRow, MachineView, Offer, Pool

AGAIN = 5.0
"""How soon a machine that could not take an offer may be asked again, in seconds."""
_POLL = 0.05
"""How often the queue is asked while it has nothing, in seconds."""


@dataclass
class _Row:
    offer: Offer
    due: float | None
    is_open: bool = True
    taker: str | None = None
    job: int | None = None


class MemoryOffers:
    """The table of offers, the queue beside it, and who has what in hand."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        """Seconds since 1970, or since whenever: offers are due by it."""
        self.owners: dict[str, str] = {}
        """The machine of each owner that lives."""
        self._rows: dict[str, _Row] = {}
        self._in_hand: defaultdict[str, set[str]] = defaultdict(set)
        self._of_the_dead: set[str] = set()
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
        """Open, and queued where it belongs now."""
        row = self._rows.get(offer.task_id)
        if row is None:
            made = replace(offer, needs=tuple(sorted(offer.needs)), woken=0, refused={})
            row = self._rows[offer.task_id] = _Row(made, due)
        else:
            if due is not None or row.offer.machine != offer.machine:
                row.job = None  # its job comes too early, or is in the wrong queue
            woken = row.offer.woken + 1
            row.offer = replace(row.offer, machine=offer.machine, woken=woken, refused={})
            row.is_open, row.due = True, due
        self._changed(row)
        self.queue()

    def get(self, task_id: str) -> Offer | None:
        """In whatever state."""
        row = self._rows.get(task_id)
        return replace(row.offer, taker=row.taker) if row else None

    def open_ones(self) -> dict[str, Offer]:
        """Those that are to be run."""
        return {task: row.offer for task, row in self._rows.items() if row.is_open}

    def hold(self, task_id: str) -> None:
        """Its job, if there is one, finds nothing to take."""
        if row := self._rows.get(task_id):
            row.is_open, row.job = False, None
            self._changed(row)

    def take(self, task_id: str, owner: str) -> Offer | None:
        """One of several that are handed it has it."""
        row = self._rows.get(task_id)
        if row is None or not row.is_open or row.taker is not None:
            return None
        if row.due is not None and row.due > self.now():
            return None
        row.taker = owner
        self._in_hand[owner].add(task_id)
        if owner in self._dead:
            self._of_the_dead.add(owner)
        return row.offer

    def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Held only if nothing has happened since it was taken."""
        if row := self._let_go(offer, owner):
            row.is_open = row.is_open and not (held and row.offer.woken == offer.woken)
            self._changed(row)
            self.queue()

    def put_off(self, offer: Offer, owner: str, due: float | None = None) -> None:
        """Unless something has happened since it was taken."""
        if row := self._let_go(offer, owner):
            later = self.now() + AGAIN if due is None else due
            row.due = later if row.offer.woken == offer.woken else None
            self._changed(row)
            self.queue()

    def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Others may look for it."""
        if row := self._let_go(offer, owner):
            row.offer = replace(row.offer, refused={**row.offer.refused, machine: why})
            self._changed(row)

    def left_over(self, has: Sequence[str], machine: str) -> list[Offer]:
        """By task."""
        rows = [row for _, row in sorted(self._rows.items()) if row.is_open and row.offer.refused]
        return [
            row.offer
            for row in rows
            if (row.taker is None and (row.due is None or row.due <= self.now()))
            and row.offer.machine in (None, machine)
            and machine not in row.offer.refused
            and set(row.offer.needs) <= set(has)
        ]

    def ask_anew(self, machine: str) -> None:
        """What nobody else refused is queued again."""
        for row in self._rows.values():
            if machine in row.offer.refused:
                others = {one: why for one, why in row.offer.refused.items() if one != machine}
                row.offer = replace(row.offer, refused=others)
                self._changed(row)
        self.queue()

    def sweep(self) -> bool:
        """Give back what the dead have in hand, and queue what is not."""
        for owner in self._of_the_dead:
            for task_id in self._in_hand.pop(owner, ()):
                row = self._rows[task_id]
                row.taker = row.job = None
                self._changed(row)
        self._of_the_dead.clear()
        for task_id in self._lost & self._rows.keys():
            row = self._rows[task_id]
            if row.taker is None and row.job not in self._jobs:
                row.job = None
                self._changed(row)
        self._lost.clear()
        self.queue()
        return any(row.is_open for row in self._rows.values())

    # -- what happens in the store besides -----------------------------------------------------

    def wake(self, task_id: str) -> None:
        """A question of a task was answered, or something was said to it; or one below it ended.

        The next sweep queues it.
        """
        for one in {task_id, task_id.partition("/")[0]} & self._rows.keys():
            row = self._rows[one]
            row.offer = replace(row.offer, woken=row.offer.woken + 1)
            row.is_open, row.due = True, None
            self._changed(row)

    def drop(self, task_id: str, *, is_child: bool = False) -> None:
        """A task has ended."""
        row = self._rows.pop(task_id, None)
        if row is not None:
            self._unqueued.discard(task_id)
            if row.taker is not None:
                self._in_hand[row.taker].discard(task_id)
        if is_child:
            self.wake(task_id.partition("/")[0])

    def declare_dead(self, owner: str) -> None:
        """What it has in hand is given back by the next sweep."""
        self.owners.pop(owner, None)
        self._dead.add(owner)
        if self._in_hand.get(owner):
            self._of_the_dead.add(owner)

    # -- the queue -----------------------------------------------------------------------------

    def fetch(self, queues: Iterable[str]) -> int | None:
        """The oldest job of these queues; it is the caller's until it is finished."""
        found = [self._queues[name] for name in queues if self._queues.get(name)]
        if not found:
            return None
        job = min(found, key=lambda queue: queue[0]).popleft()
        self._handed_out.add(job)
        return job

    def has(self, queues: Iterable[str]) -> bool:
        """Whether they have a job."""
        return any(self._queues.get(name) for name in queues)

    @property
    def jobs(self) -> int:
        """How many are queued."""
        return len(self._jobs) - len(self._handed_out)

    @property
    def last_job(self) -> int:
        """The number of the job that was queued last."""
        return self._last_job

    def task_of(self, job: int) -> str:
        """Which task a job is for."""
        return self._jobs[job]

    def finish(self, job: int) -> None:
        """A job was done, or is lost: the next sweep queues its offer anew, if nobody has it."""
        self._handed_out.discard(job)
        row = self._rows.get(self._jobs.pop(job, ""))
        if row is not None and row.job == job and row.taker is None:
            self._lost.add(row.offer.task_id)

    def queue(self) -> None:
        """Queue what is open and due, in nobody's hand, and not queued."""
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

    def _let_go(self, offer: Offer, owner: str) -> _Row | None:
        row = self._rows.get(offer.task_id)
        if row is None or row.taker != owner:
            return None
        self._in_hand[owner].discard(offer.task_id)
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
        """Queued at once."""
        self.offers.offer(offer, _seconds(at))

    async def get(self, task_id: str) -> Offer | None:
        """In whatever state."""
        return self.offers.get(task_id)

    async def offered(self) -> Mapping[str, Offer]:
        """Those that are open."""
        return self.offers.open_ones()

    async def hold(self, task_id: str) -> None:
        """Not before something happens."""
        self.offers.hold(task_id)

    async def take(self, task_id: str, owner: str) -> Offer | None:
        """One of several has it."""
        return self.offers.take(task_id, owner)

    async def put_back(self, offer: Offer, owner: str, *, held: bool = False) -> None:
        """Let go of it."""
        self.offers.put_back(offer, owner, held=held)

    async def put_off(self, offer: Offer, owner: str, at: str | None = None) -> None:
        """Not before `at`, or for a few seconds."""
        self.offers.put_off(offer, owner, _seconds(at))

    async def refuse(self, offer: Offer, owner: str, machine: str, why: str) -> None:
        """Others may."""
        self.offers.refuse(offer, owner, machine, why)

    async def left_over(self, has: Sequence[str], machine: str) -> list[Offer]:
        """What others refused."""
        return self.offers.left_over(has, machine)

    async def ask_anew(self, machine: str) -> None:
        """It has refused nothing."""
        self.offers.ask_anew(machine)

    async def sweep(self) -> bool:
        """Whether anything is open."""
        return self.offers.sweep()

    async def serve(
        self,
        pool: Pool,
        queues: Sequence[str],
        seats: int,
        run: Callable[[str], Awaitable[None]],
        *,
        until_empty: bool = False,
    ) -> None:
        """Ask the queue whenever a seat is free."""
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
                if until_empty:
                    return
                await anyio.sleep(_POLL)

    async def announce(self, machine: MachineRow) -> None:
        """As it says."""
        self._machines[machine.name] = machine

    async def machines(self) -> list[MachineView]:
        """By name; which tasks they run is told by leases, of which nothing is known here."""
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
        """Nothing is open."""


def _seconds(at: str | None) -> float | None:
    return None if at is None else datetime.fromisoformat(at).timestamp()
