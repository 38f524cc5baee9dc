"""True time, the events in it, and the store as one server with limited capacity."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coterie.testing.dispatch import MemoryOffers


class World:
    """A virtual clock, and the list of upcoming events."""

    def __init__(self, seed: int) -> None:
        self.time = 0.0
        self.random = Random(seed)
        self._next: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        """Schedule a call at this time."""
        self._number += 1
        heapq.heappush(self._next, (when, self._number, call, args))

    def after(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        """Schedule a call after this many seconds."""
        self.at(self.time + seconds, call, *args)

    def run(self, until: Callable[[], bool], limit: float) -> None:
        """Run until the condition holds, or the time is up."""
        while self._next and self.time < limit and not until():
            self.time, _, call, args = heapq.heappop(self._next)
            call(*args)


@dataclass(frozen=True)
class Costs:
    """Core seconds of the server, as measured on PostgreSQL 15: docs/machines.md."""

    cores: int = 2
    commit: float = 0.37e-3
    listener: float = 16e-6
    """Per commit, for each process that is notified."""
    chain: float = 1 / 300
    """How long a commit holds the one row that all wait for, mostly for its `fsync`."""
    renew: float = 0.1e-3
    look: float = 0.1e-3
    look_row: float = 0.65e-6
    """Per look, for each live owner."""
    sweep: float = 0.1e-3
    sweep_offer: float = 0.0
    """Per sweep, for each offer."""
    fetch: float = 0.5e-3
    """A poll of the queue that finds something."""
    poll: float = 0.15e-3
    poll_job: float = 0.15e-6
    """Per poll that finds nothing, for each job that is for others."""
    take: float = 0.5e-3
    """To take or release an offer, including the effect on the queue."""


CONNECTING = Costs(sweep=6.3e-3, sweep_offer=0.57e-6, take=6.7e-3)
"""The costs when every call opened a connection and every sweep read everything."""


@dataclass
class OwnerState:
    """The row of an owner."""

    beat: int = 0
    dead: bool = False
    beat_at: float = 0.0
    """When its beat was written, in true time, which nothing in the simulation may look at."""


@dataclass
class TaskState:
    """The lease of a task, and the progress of its journal."""

    turns: int
    done: int = 0
    owner: str = ""
    token: int = 0
    is_run: bool = False
    ended: int = 0
    asks: set[int] = field(default_factory=set[int])
    """The turns before which a question is asked."""


class Store:
    """Rows, offers, and a queue for each scarce resource: cores, the chain."""

    def __init__(self, world: World, costs: Costs) -> None:
        self.world = world
        self.costs = costs
        self.offers = MemoryOffers(lambda: world.time)
        self.owners: OrderedDict[str, OwnerState] = OrderedDict()
        """The live ones, starting with the one that has been silent for longest."""
        self.dead: dict[str, OwnerState] = {}
        self.tasks: dict[str, TaskState] = {}
        self.is_down = False
        self.asked: Counter[str] = Counter()
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.slowest = 0.0
        self.ended = 0
        self.idle = 0
        """How many machines have a free seat: each of them polls when something is queued."""
        self._told_jobs = 0
        self._cores = [0.0] * costs.cores
        self._chain = 0.0

    def serve(self, kind: str, cost: float, times: int = 1) -> float:
        """Return when the request will be done, by the first core to become free."""
        now = self.world.time
        begin = max(now, heapq.heappop(self._cores))
        done = begin + cost * times
        heapq.heappush(self._cores, done)
        if kind == "commit":
            done = self._chain = max(done, self._chain) + self.costs.chain
        self.asked[kind] += times
        self.spent[kind] += cost * times
        self.slowest = max(self.slowest, done - now)
        return done

    def cost(self, kind: str) -> float:
        """Return what one request of a kind costs now."""
        costs, living = self.costs, len(self.owners)
        match kind:
            case "commit":
                return costs.commit + costs.listener * living
            case "look":
                return costs.look + costs.look_row * living
            case "sweep":
                return costs.sweep + costs.sweep_offer * self.open_tasks
            case "poll":
                return costs.poll + costs.poll_job * self.offers.jobs
            case "fetch":
                return costs.fetch
            case "renew":
                return costs.renew
            case _:
                return costs.take

    def notify_idle(self) -> None:
        """Charge for machines with a free seat that poll too late for a newly queued job.

        All of them are notified; the polls of those that get a job are accounted for elsewhere.
        """
        is_new, self._told_jobs = self.offers.last_job > self._told_jobs, self.offers.last_job
        late = self.idle - self.offers.jobs
        if is_new and late > 0:
            self.serve("poll", self.cost("poll"), late)

    @property
    def open_tasks(self) -> int:
        """Tasks that are on offer, taken or held."""
        return len(self.tasks) - self.ended

    # -- owners --------------------------------------------------------------------------------

    def add(self, owner: str) -> None:
        """Add an owner."""
        self.owners[owner] = OwnerState(beat_at=self.world.time)

    def renew(self, owner: str) -> bool:
        """Record a beat, unless the owner is dead."""
        row = self.owners.get(owner)
        if row is None:
            return False
        row.beat, row.beat_at = row.beat + 1, self.world.time
        self.owners.move_to_end(owner)
        return True

    def silent(self, seconds: float) -> list[tuple[str, OwnerState]]:
        """Return the owners without a beat for this long.

        A shortcut that changes nothing: `SilentOwners` rejects all others.
        """
        found: list[tuple[str, OwnerState]] = []
        for owner, row in self.owners.items():
            if self.world.time - row.beat_at < seconds:
                break
            found.append((owner, row))
        return found

    def declare_dead(self, owner: str, beat: int | None) -> bool:
        """Declare an owner dead, by compare-and-set."""
        row = self.owners.get(owner)
        if row is None or beat not in (None, row.beat):
            return False
        self.dead[owner] = self.owners.pop(owner)
        row.dead = True
        self.offers.declare_dead(owner)
        return True

    # -- leases and the journal ----------------------------------------------------------------

    def claim(self, task_id: str, owner: str) -> int | None:
        """Return the new token; None if an owner that is not dead runs the task."""
        task = self.tasks[task_id]
        if task.ended or (task.is_run and task.owner in self.owners):
            return None
        task.owner, task.token, task.is_run = owner, task.token + 1, True
        return task.token

    def holds(self, task_id: str, token: int) -> bool:
        """Whether a commit with this token is accepted."""
        return self.tasks[task_id].token == token

    def end(self, task_id: str) -> None:
        """Complete a task."""
        task = self.tasks[task_id]
        task.ended, task.is_run = task.ended + 1, False
        self.ended += task.ended == 1
        self.offers.drop(task_id)

    def answered(self, task_id: str) -> None:
        """Answer a question, as a user may from anywhere."""
        if self.is_down:
            self.world.after(1.0, self.answered, task_id)
        else:
            self.world.at(self.serve("commit", self.cost("commit")), self.offers.wake, task_id)
