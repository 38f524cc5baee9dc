"""`coterie worker`: run what is on offer in a store on this machine until stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import uniform
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.agent_health import health_in
from coterie.app.elsewhere import local_fingerprint, require_needs
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

ANSWER_TIMEOUT = 60.0
"""How many seconds a question keeps its seat; if answered later, the task is resumed then."""
SESSIONS = 8
"""How many sessions a machine runs at once per seat: they wait most of the time."""
SWEEP = 1.0
"""The most seconds between two sweeps for tasks to queue."""
SWEEP_JITTER = 0.02
"""The most seconds from a change to a sweep, per machine: it is enough if one of many sweeps."""
ANNOUNCE = 10.0
"""Seconds between two announcements of a machine, and two checks of what its refusals depend on."""
RETRY_FIRST, RETRY_MAX = 10.0, 300.0
"""Seconds until refused tasks are tried again, at first and in the long run, if nothing relevant is
known to have changed."""
RECONNECT_DELAY = 1.0
"""Seconds until an unreachable store is tried again."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a machine offers."""

    name: str | None = None
    agents: tuple[str, ...] = ()
    """Empty: the registered agents that are ready."""
    seats: int = 2
    allow_full: bool = False
    once: bool = False
    """Whether to end when nothing is left that this machine could run."""


WorkerState = Literal["ready", "taken", "refused", "over", "cut off", "unreachable"]


@dataclass(frozen=True)
class WorkerEvent:
    """Something that a worker did."""

    state: WorkerState
    task: str = ""
    detail: str = ""


Tell = Callable[[WorkerEvent], None]


def machine_row(project: Project, options: WorkerOptions) -> MachineRow:
    """Return what this machine is and has; raises UsageError if it has no agents.  Blocks."""
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
    facts = (commit, version(), instant.now(), options.allow_full)
    return MachineRow(name, agents, options.seats, *facts)


async def work(project: Project, options: WorkerOptions, tell: Tell) -> None:
    """Run what is on offer until cancelled; after each lost lease, start over as a new owner.

    Raises any problem at the first start; later it waits for an unreachable store.
    """
    machine = await anyio.to_thread.run_sync(machine_row, project, options)
    await anyio.to_thread.run_sync(ProjectRemote(project))  # raises now if it is unusable
    opened = False
    while True:
        try:
            async with OpenProject.open(project.root, project.home, machine=machine.name) as app:
                if app.shared is None:
                    raise UsageError(
                        "No shared store is configured for this project.", "--store URL"
                    )
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
        await anyio.sleep(RECONNECT_DELAY)


@dataclass
class Worker:
    """One life of a worker, as one owner with one lease."""

    app: OpenProject
    shared: SharedStore
    machine: MachineRow
    options: WorkerOptions
    tell: Tell
    _taken: int = 0
    _taken_tasks: set[str] = field(default_factory=set[str])
    _refused: dict[str, str] = field(default_factory=dict[str, str])
    """By task: why it was refused, as last reported."""
    _retry_after: float = RETRY_FIRST
    """How many seconds after the last attempt refused tasks are tried again."""
    _limits: dict[Pool, anyio.CapacityLimiter] = field(init=False)
    _runs: TaskGroup = field(init=False)
    _queues: TaskGroup | None = None
    """What serves the queues, unless it is only done once."""

    async def serve(self) -> None:
        """Run the tasks that are handed out."""
        seats = self.options.seats
        self._limits = {
            "seat": anyio.CapacityLimiter(seats),
            "session": anyio.CapacityLimiter(seats * SESSIONS),
        }
        await self.app.claimant()  # become an owner: others see that this machine is alive
        await self.shared.dispatch.clear_refusals(self.machine.name)
        with plain_errors():
            async with anyio.create_task_group() as self._runs:
                self._runs.start_soon(self._announce)
                if self.options.once:
                    await self._serve_what_there_is()
                else:
                    self._runs.start_soon(self._sweep)
                    await self._serve_always()
                self._runs.cancel_scope.cancel()

    async def _serve_always(self) -> None:
        """Serve the queues of what this machine has; start over when that changes."""
        while True:
            async with anyio.create_task_group() as self._queues:
                for pool in self._limits:
                    self._queues.start_soon(self._serve, pool)

    async def _serve(self, pool: Pool, *, once: bool = False) -> None:
        queues = queues_of(pool, self.machine.has, self.machine.name)
        seats = int(self._limits[pool].total_tokens)

        async def run(task_id: str) -> None:
            over = anyio.Event()
            # In the worker's own task group: a run must not end with the queue's worker.
            self._runs.start_soon(self._take, task_id, pool, over)
            await over.wait()

        await self.shared.dispatch.serve(pool, queues, seats, run, once=once)

    async def _serve_what_there_is(self) -> None:
        """Take everything that can be taken, and what follows from it, until nothing is left."""
        done = -1
        while done != (done := self._taken):
            await self.shared.dispatch.sweep()
            async with anyio.create_task_group() as pools:
                for pool in self._limits:
                    pools.start_soon(lambda pool=pool: self._serve(pool, once=True))
                await self._take_refused_by_others(pools)

    async def _sweep(self) -> None:
        """Queue what is to be run, after each change and at regular intervals."""
        seen = 0
        while True:
            with suppress(StorageError):
                await self.shared.dispatch.sweep()
                await self._take_refused_by_others(self._runs)
            with anyio.move_on_after(SWEEP):
                seen = await self.app.storage.changed(seen)
            most = min(SWEEP, SWEEP_JITTER * (1 + self.shared.owners.others))
            await anyio.sleep(uniform(SWEEP_JITTER, most))  # noqa: S311  several in a row are one

    async def _take_refused_by_others(self, runs: TaskGroup) -> None:
        """Take what other machines refused, as far as there is room."""
        if not any(limit.available_tokens for limit in self._limits.values()):
            return
        room = {pool: int(limit.available_tokens) for pool, limit in self._limits.items()}
        for offer in await self.shared.dispatch.refused_offers(self.machine.has, self.machine.name):
            if offer.task_id not in self._taken_tasks and room[offer.pool] > 0:
                room[offer.pool] -= 1
                runs.start_soon(self._take, offer.task_id, offer.pool, anyio.Event())

    async def _announce(self) -> None:
        """Announce this machine.  Retry what it refused when something relevant has changed, and
        otherwise ever more rarely."""
        dispatch, project = self.shared.dispatch, Project(self.app.root, self.app.home)
        known, at = await anyio.to_thread.run_sync(local_fingerprint, project), anyio.current_time()
        while True:
            with suppress(StorageError):
                await dispatch.announce(replace(self.machine, seen=instant.now()))
            await anyio.sleep(ANNOUNCE)
            stamp = await anyio.to_thread.run_sync(local_fingerprint, project)
            if stamp == known and anyio.current_time() - at < self._retry_after:
                continue
            await self._refresh_agents(project)
            with suppress(StorageError):
                await dispatch.clear_refusals(self.machine.name)
                self._retry_after = (
                    RETRY_FIRST if stamp != known else min(2 * self._retry_after, RETRY_MAX)
                )
                known, at = stamp, anyio.current_time()

    async def _refresh_agents(self, project: Project) -> None:
        """Offer the agents that are ready now, unless the user has named those to offer."""
        with suppress(CoterieError):  # none is ready, or the registry is being edited
            row = await anyio.to_thread.run_sync(machine_row, project, self.options)
            if row.agents != self.machine.agents:
                self.machine = replace(self.machine, agents=row.agents)
                if self._queues is not None:
                    self._queues.cancel_scope.cancel()

    async def _take(self, task_id: str, pool: Pool, over: anyio.Event) -> None:
        dispatch, me = self.shared.dispatch, self.app.owners.me
        offer: Offer | None = None
        if task_id in self._taken_tasks:  # handed out twice
            over.set()
            return
        self._taken_tasks.add(task_id)
        try:
            async with self._limits[pool]:
                offer = await dispatch.take(task_id, me)
                if offer is not None:
                    self._taken += 1
                    await self._run(offer, me)
        except StorageError:
            await self._require_storage()
            # The offer may have been taken all the same, and nobody else would look for it.
            await self._let_go(offer or Offer(task_id), me)
        except BaseException:
            if offer is not None and not self._is_over:
                with anyio.CancelScope(shield=True), suppress(StorageError):
                    await dispatch.put_back(offer, me)
            raise
        finally:
            self._taken_tasks.discard(task_id)
            over.set()

    async def _require_storage(self) -> None:
        """Raise StorageError if this process's storage has failed for good and must be reopened."""
        await self.app.storage.leases.park(Fence("", 0))  # a write that changes nothing

    async def _let_go(self, offer: Offer, me: str) -> None:
        while not self._is_over:
            with suppress(StorageError):
                await self.shared.dispatch.put_back(offer, me)
                break
            await anyio.sleep(RECONNECT_DELAY)

    @property
    def _is_over(self) -> bool:
        """Whether the lease is over: then nothing is written, and others find what was taken."""
        deadline = self.app.owners.deadline
        return deadline is None or deadline.passed()

    async def _run(self, offer: Offer, me: str) -> None:
        dispatch, task = self.shared.dispatch, offer.task_id
        watch = TaskWatch(task, self.tell)
        try:
            # Do not rely on the offer: anyone who can write to the store could make one up.
            created = fold(await self.app.storage.events.of_task(task)).created
            require_needs(created, self.machine.has)
            result = await self.app.run(task, watch, wait=ANSWER_TIMEOUT, for_others=True)
        except (LeaseExpired, LeaseLost, HistoryLost):
            raise
        except (TaskBusy, SurvivorsElsewhere):
            await dispatch.defer(offer, me)
        except StorageError as error:
            self.tell(WorkerEvent("unreachable", task, str(error)))
            await dispatch.defer(offer, me)
            await self._require_storage()
        except CoterieError as error:
            if self._refused.get(task) != str(error):  # reported once, and retried soon
                self._refused[task], self._retry_after = str(error), RETRY_FIRST
                self.tell(WorkerEvent("refused", task, str(error)))
            await dispatch.refuse(offer, me, self.machine.name, str(error))
        else:
            self.tell(WorkerEvent("over", task, result.reason or result.status))
            await self._put_back(offer, me, result)

    async def _put_back(self, offer: Offer, me: str, result: ResultRecord) -> None:
        dispatch = self.shared.dispatch
        if isinstance(result.stop, RateLimited):
            await dispatch.defer(offer, me, result.stop.until)
        else:  # a task that has ended is no longer on offer
            await dispatch.put_back(offer, me, held=True)


@dataclass
class TaskWatch:
    """An observer for a run that nobody watches here, since everything is in the store: reports
    its start, and a remote that it waits for."""

    task: str
    tell: Tell

    def saw(self, record: Record) -> None:
        """Report a start or an unreachable remote."""
        if isinstance(record, TaskRecord) and record.status == "running":
            self.tell(WorkerEvent("taken", self.task))
        elif isinstance(record, ErrorRecord) and record.code == REMOTE_AWAY:
            message = " ".join(record.message.split())
            self.tell(WorkerEvent("unreachable", self.task, f"{self.task}: {message}"))
