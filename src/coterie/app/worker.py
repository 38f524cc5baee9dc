"""`coterie worker`: this machine runs what is on offer in a store, for as long as it lives."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import uniform
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.agent_health import health_in
from coterie.app.elsewhere import require_needs, stamp_of
from coterie.app.open_project import OpenProject
from coterie.app.store import SharedStore, identity, machine_name, version
from coterie.app.travel import ProjectRemote
from coterie.config.project import Project
from coterie.config.registry import load_registry, registry_path
from coterie.engine.run import plain_errors
from coterie.errors import (
    CoterieError,
    HistoryLost,
    LeaseExpired,
    LeaseLost,
    NotFound,
    StorageError,
    SurvivorsElsewhere,
    TaskBusy,
    UsageError,
)
from coterie.model import instant
from coterie.model.journal import Fence
from coterie.model.machine import MachineRow, Offer, Pool, queues_of
from coterie.model.record import ErrorRecord, Record, ResultRecord, TaskRecord
from coterie.model.remote import REMOTE_AWAY
from coterie.model.task import RateLimited, fold

PATIENCE = 60.0
"""How long a question keeps its seat, in seconds; answered later, the task is taken up again."""
SESSIONS = 8
"""How many sessions a machine runs at once for each of its seats: they wait most of the time."""
SWEEP = 1.0
"""How often what is to be queued is looked for, in seconds."""
PAUSE = 0.02
"""How long after a change that is, for each machine there is: one of many is enough."""
ANNOUNCE = 10.0
"""How often a machine says what it is, and looks at what it goes by, in seconds."""
SOON, RARELY = 10.0, 300.0
"""How soon what was refused is tried again, in seconds, at first and after a long time, where
nothing has changed that is known to matter."""
AGAIN = 1.0
"""How soon a store that is out of reach is tried again, in seconds."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a machine has to give."""

    name: str | None = None
    agents: tuple[str, ...] = ()
    """None: those of the registry that are ready."""
    seats: int = 2
    allow_full: bool = False
    once: bool = False
    """Whether it ends when nothing is left that it could run."""


WorkerState = Literal["ready", "taken", "refused", "over", "cut off", "unreachable"]


@dataclass(frozen=True)
class WorkerEvent:
    """Something that a worker did."""

    state: WorkerState
    task: str = ""
    detail: str = ""


Tell = Callable[[WorkerEvent], None]


def machine_row(project: Project, options: WorkerOptions) -> MachineRow:
    """What this machine is and has.  Blocks; raises UsageError where it has no agent to give."""
    registry = load_registry(KNOWN_AGENTS, registry_path(project.home))
    ready = [one.name for one in health_in(registry) if one.ready]
    unknown = [name for name in options.agents if name not in registry.agents]
    if unknown:
        known = ", ".join(registry.agents) or "none"
        raise NotFound(f"No agent {unknown[0]} in the registry; it has {known}.")
    agents = options.agents or tuple(ready)
    if not agents:
        raise UsageError("No agent is ready on this machine.", "coterie doctor")
    name = options.name or machine_name(project.home)
    commit = identity(project).root_commit
    said = (commit, version(), instant.now(), options.allow_full)
    return MachineRow(name, agents, options.seats, *said)


async def work(project: Project, options: WorkerOptions, tell: Tell) -> None:
    """Run what is on offer until cancelled; each time the lease is over, as a new owner.

    Raises what is wrong at the first start; later a store that is away is waited for.
    """
    machine = await anyio.to_thread.run_sync(machine_row, project, options)
    await anyio.to_thread.run_sync(ProjectRemote(project))  # what is wrong with it is told now
    opened = False
    while True:
        try:
            async with OpenProject.open(project.root, project.home, machine=machine.name) as app:
                if app.shared is None:
                    raise UsageError("No store of this project is named.", "--store URL")
                opened = True
                tell(WorkerEvent("ready", detail=machine.name))
                await Worker(app, app.shared, machine, options, tell).serve()
                return
        except (LeaseExpired, LeaseLost) as over:
            tell(WorkerEvent("cut off", detail=str(over)))
        except StorageError as away:
            if not opened or isinstance(away, HistoryLost):
                raise
            tell(WorkerEvent("unreachable", detail=str(away)))
        await anyio.sleep(AGAIN)


@dataclass
class Worker:
    """One life of a worker: as one owner, with one lease."""

    app: OpenProject
    shared: SharedStore
    machine: MachineRow
    options: WorkerOptions
    tell: Tell
    _taken: int = 0
    _in_hand: set[str] = field(default_factory=set[str])
    _refused: dict[str, str] = field(default_factory=dict[str, str])
    """By task: why it was not taken, as it was told."""
    _again: float = SOON
    """How many seconds after the last time what was refused is tried again."""
    _limits: dict[Pool, anyio.CapacityLimiter] = field(init=False)
    _runs: TaskGroup = field(init=False)

    async def serve(self) -> None:
        """Run what is handed out."""
        seats = self.options.seats
        self._limits = {
            "seat": anyio.CapacityLimiter(seats),
            "session": anyio.CapacityLimiter(seats * SESSIONS),
        }
        await self.app.claimant()  # an owner from now on: others see that this machine lives
        await self.shared.dispatch.ask_anew(self.machine.name)
        with plain_errors():
            async with anyio.create_task_group() as self._runs:
                self._runs.start_soon(self._announce)
                if self.options.once:
                    await self._serve_what_there_is()
                else:
                    self._runs.start_soon(self._sweep)
                    for pool in self._limits:
                        self._runs.start_soon(self._serve, pool)
                    await anyio.sleep_forever()
                self._runs.cancel_scope.cancel()

    async def _serve(self, pool: Pool, *, until_empty: bool = False) -> None:
        queues = queues_of(pool, self.machine.has, self.machine.name)
        seats = int(self._limits[pool].total_tokens)

        async def run(task_id: str) -> None:
            over = anyio.Event()
            # In a group of ours: what runs does not end with the queue's worker.
            self._runs.start_soon(self._take, task_id, pool, over)
            await over.wait()

        await self.shared.dispatch.serve(pool, queues, seats, run, until_empty=until_empty)

    async def _serve_what_there_is(self) -> None:
        """Take all that can be taken, and what comes of it, until there is nothing more."""
        done = -1
        while done != (done := self._taken):
            await self.shared.dispatch.sweep()
            async with anyio.create_task_group() as pools:
                for pool in self._limits:
                    pools.start_soon(lambda pool=pool: self._serve(pool, until_empty=True))
                await self._take_left_over(pools)

    async def _sweep(self) -> None:
        """Queue what is to be run: when something happened, and now and then in any case."""
        seen = 0
        while True:
            with suppress(StorageError):
                await self.shared.dispatch.sweep()
                await self._take_left_over(self._runs)
            with anyio.move_on_after(SWEEP):
                seen = await self.app.storage.changed(seen)
            most = min(SWEEP, PAUSE * (1 + self.shared.owners.others))
            await anyio.sleep(uniform(PAUSE, most))  # noqa: S311  several in a row are one

    async def _take_left_over(self, runs: TaskGroup) -> None:
        """Take what others refused, as far as there is room."""
        if not any(limit.available_tokens for limit in self._limits.values()):
            return
        room = {pool: int(limit.available_tokens) for pool, limit in self._limits.items()}
        for offer in await self.shared.dispatch.left_over(self.machine.has, self.machine.name):
            if offer.task_id not in self._in_hand and room[offer.pool] > 0:
                room[offer.pool] -= 1
                runs.start_soon(self._take, offer.task_id, offer.pool, anyio.Event())

    async def _announce(self) -> None:
        """Say what this machine is.  What it refused is looked at anew when something changed that
        it goes by, and else ever more rarely."""
        dispatch, project = self.shared.dispatch, Project(self.app.root, self.app.home)
        known, at = await anyio.to_thread.run_sync(stamp_of, project), anyio.current_time()
        while True:
            with suppress(StorageError):
                await dispatch.announce(self.machine)
            await anyio.sleep(ANNOUNCE)
            stamp = await anyio.to_thread.run_sync(stamp_of, project)
            if stamp == known and anyio.current_time() - at < self._again:
                continue
            with suppress(StorageError):
                await dispatch.ask_anew(self.machine.name)
                self._again = SOON if stamp != known else min(2 * self._again, RARELY)
                known, at = stamp, anyio.current_time()

    async def _take(self, task_id: str, pool: Pool, over: anyio.Event) -> None:
        dispatch, me = self.shared.dispatch, self.app.owners.me
        offer: Offer | None = None
        if task_id in self._in_hand:  # handed out twice
            over.set()
            return
        self._in_hand.add(task_id)
        try:
            async with self._limits[pool]:
                offer = await dispatch.take(task_id, me)
                if offer is not None:
                    self._taken += 1
                    await self._run(offer, me)
        except StorageError:
            await self._require_storage()
            # It may be in our hand all the same, where nobody looks for it.
            await self._let_go(offer or Offer(task_id), me)
        except BaseException:
            if offer is not None and not self._is_over:
                with anyio.CancelScope(shield=True), suppress(StorageError):
                    await dispatch.put_back(offer, me)
            raise
        finally:
            self._in_hand.discard(task_id)
            over.set()

    async def _require_storage(self) -> None:
        """Raise StorageError where ours has failed, which is for good: it is opened anew then."""
        await self.app.storage.leases.park(Fence("", 0))  # a write that changes nothing

    async def _let_go(self, offer: Offer, me: str) -> None:
        while not self._is_over:
            with suppress(StorageError):
                await self.shared.dispatch.put_back(offer, me)
                break
            await anyio.sleep(AGAIN)

    @property
    def _is_over(self) -> bool:
        """Whether our lease is: then nothing is written, and another finds what we had in hand."""
        deadline = self.app.owners.deadline
        return deadline is None or deadline.passed()

    async def _run(self, offer: Offer, me: str) -> None:
        dispatch, task = self.shared.dispatch, offer.task_id
        watch = TaskWatch(task, self.tell)
        try:
            # Whatever the offer says: who can write to the store could make up one.
            created = fold(await self.app.storage.events.of_task(task)).created
            require_needs(created, self.machine.has)
            result = await self.app.run(task, watch, patience=PATIENCE, for_others=True)
        except (LeaseExpired, LeaseLost, HistoryLost):
            raise
        except (TaskBusy, SurvivorsElsewhere):
            await dispatch.put_off(offer, me)
        except StorageError as error:
            self.tell(WorkerEvent("unreachable", task, str(error)))
            await dispatch.put_off(offer, me)
            await self._require_storage()
        except CoterieError as error:
            if self._refused.get(task) != str(error):  # told once, and soon tried once more
                self._refused[task], self._again = str(error), SOON
                self.tell(WorkerEvent("refused", task, str(error)))
            await dispatch.refuse(offer, me, self.machine.name, str(error))
        else:
            self.tell(WorkerEvent("over", task, result.reason or result.status))
            await self._put_back(offer, me, result)

    async def _put_back(self, offer: Offer, me: str, result: ResultRecord) -> None:
        dispatch = self.shared.dispatch
        if isinstance(result.stop, RateLimited):
            await dispatch.put_off(offer, me, result.stop.until)
        else:  # a task that has ended is on offer no more
            await dispatch.put_back(offer, me, held=True)


@dataclass
class TaskWatch:
    """An observer of what nobody looks at here, for it is all in the store: tells of the start, and
    of a remote that the task waits for."""

    task: str
    tell: Tell

    def saw(self, record: Record) -> None:
        """Something happened."""
        if isinstance(record, TaskRecord) and record.status == "running":
            self.tell(WorkerEvent("taken", self.task))
        elif isinstance(record, ErrorRecord) and record.code == REMOTE_AWAY:
            said = " ".join(record.message.split())
            self.tell(WorkerEvent("unreachable", self.task, f"{self.task}: {said}"))
