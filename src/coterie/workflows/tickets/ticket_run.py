"""The services shared by the tickets of a session, and the base of the stages of one ticket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from coterie.model import step_name
from coterie.model.envelope import Error, Payload, PlanTask, Report
from coterie.model.interaction import COTERIE
from coterie.model.plan_rules import capable
from coterie.model.task import TaskCreated
from coterie.model.team import INSTANCE, Member, Team, base_of
from coterie.model.ticket import Moment, SchedulerConfig, Ticket, TicketState
from coterie.ports import Context
from coterie.workflows.project_watch import ProjectWatch
from coterie.workflows.tickets.messenger import Draft, Manager, Messenger
from coterie.workflows.tickets.replies import AnyPayload
from coterie.workflows.tickets.tracker import TicketTracker
from coterie.workspace.ticket_worktrees import TicketWorktrees

if TYPE_CHECKING:
    from coterie.workflows.shared_branches import SharedBranches, SharedFiles


class WorkerPool:
    """The workers of a session: assigned by name, then by capability, then by how busy they are.

    The manager is never one of them.  An instance is a worker itself or a numbered one (`wren#2`).
    """

    def __init__(self, team: Team, config: SchedulerConfig) -> None:
        manager = team.manager
        limit = manager.timeout_ms or round(config.time_limits.manager * 60_000)
        self.manager: Member = manager.model_copy(update={"timeout_ms": limit})
        self._team = team
        self._instances = config.instances
        self.workers: Sequence[Member] = [m for m in team.ai_members if m.id != self.manager.id]
        self._released = anyio.Event()
        self._occupied: set[str] = set()
        self._reserved: list[str] = []
        """Instances that are assigned but not occupied yet: other instances are preferred."""
        self._assigned: dict[str, int] = {worker.id: 0 for worker in self.workers}
        """How many tickets each worker has had: of equally busy ones, the least used is next."""

    def load(self, assigned: Iterable[str]) -> None:
        """Restore an earlier run; `assigned` contains a worker once for each ticket it had."""
        for worker in assigned:
            if worker in self._assigned:
                self._assigned[worker] += 1

    def able(self, task: PlanTask, without: Sequence[str] = ()) -> list[Member]:
        """Return the workers who could do a task: the one it names, else all with the capability.

        Those in `without` already failed at it, so they are returned only if nobody else can do
        it: a task is never given to a worker without the capability.
        """
        named = task.assigned_to.role_id if task.assigned_to else None
        first = [worker for worker in self.workers if worker.id == named]
        able = [*first, *(one for one in self._capable(task, first) if one not in first)]
        fresh = [one for one in able if one.id not in without]
        return [one for one in fresh if one in first] or fresh or able

    def _capable(self, task: PlanTask, named: Sequence[Member]) -> Sequence[Member]:
        """Return the workers with the required capability, else with all of the named worker's."""
        if task.capability:
            return capable(self.workers, task.capability)
        needed = {can for worker in named for can in worker.capabilities}
        return [worker for worker in self.workers if needed <= {*worker.capabilities}]

    def unable(self, task: PlanTask) -> list[Member]:
        """Return the workers who could get a task only if the user decides so."""
        able = self.able(task, [worker.id for worker in self.workers])
        return [worker for worker in self.workers if worker not in able]

    async def assign(self, task: PlanTask, without: Sequence[str] = ()) -> str:
        """Reserve a free instance of the least busy worker who could do a task; waits for one."""
        able = self.able(task, without)
        while True:
            free = {one.id: instances for one in able if (instances := self._free(one))}
            if free:
                best = min(free, key=lambda one: (self._busy(one), self._assigned[one]))
                instance = min(free[best], key=self._reserved.count)
                self._reserved.append(instance)
                self._assigned[best] += 1
                return instance
            await self._released.wait()

    @asynccontextmanager
    async def occupy(self, instance: str) -> AsyncGenerator[Member]:
        """Occupy an instance until the block ends; nobody else gets it meanwhile."""
        worker = self._team.instance(instance)
        assert worker is not None  # every instance belongs to a worker
        try:
            while instance in self._occupied:
                await self._released.wait()
        finally:
            if instance in self._reserved:
                self._reserved.remove(instance)
        self._occupied.add(instance)
        try:
            yield worker
        finally:
            self._occupied.discard(instance)
            self._released.set()
            self._released = anyio.Event()

    def _free(self, worker: Member) -> list[str]:
        more = self._instances if worker.supports_multiple_instances else 1
        instances = [worker.id, *(f"{worker.id}{INSTANCE}{n}" for n in range(2, more + 1))]
        return [instance for instance in instances if instance not in self._occupied]

    def _busy(self, worker_id: str) -> int:
        return sum(
            base_of(instance) == worker_id for instance in [*self._occupied, *self._reserved]
        )


T = TypeVar("T")


class SessionServices:
    """What planning, scheduling and the work on tickets share."""

    def __init__(self, task: TaskCreated, context: Context) -> None:
        self.task: TaskCreated = task
        self.context: Context = context
        self.config: SchedulerConfig = task.scheduler
        self.workers: WorkerPool = WorkerPool(task.team, task.scheduler)
        self.messenger: Messenger = Messenger(task, context)
        self.manager: Manager = Manager(context, self.messenger, self.workers.manager)
        self.tracker: TicketTracker = TicketTracker(task, context, self.messenger)
        self.project: ProjectWatch = ProjectWatch()
        self.merging: anyio.Lock = anyio.Lock(fast_acquire=True)
        """Approved work is merged one ticket at a time, in order of arrival."""
        self.worktrees: TicketWorktrees | None = None
        """None without git: then everybody works in the project's folder itself."""
        self.branches: SharedBranches | None = None
        """Exchanges the branches with other machines; None if the store is not shared."""
        self.files: SharedFiles | None = None
        """The same for the session's files."""


@dataclass(frozen=True)
class TicketRun:
    """The work on one ticket; each of its stages is a subclass."""

    services: SessionServices
    id: str

    @property
    def ticket(self) -> Ticket:
        return self.services.tracker.ticket(self.id)

    @property
    def part(self) -> PlanTask:
        """The part of the plan that the ticket tracks, as it was last planned."""
        return self.services.tracker.part(self.id)

    @property
    def owner(self) -> str:
        """The worker it is assigned to, else Coterie."""
        return self.ticket.owner or COTERIE

    def named(self, instance: str) -> str:
        """Return a worker with its folder, as shown in errors."""
        return self.services.messenger.named(instance)

    def step(self, what: str) -> str:
        """The name of a step: stable as long as the ticket's history does not grow."""
        return step_name.ticket(self.id, len(self.ticket.history), what)

    def manager_step(self, what: str) -> str:
        """The name of a step of the manager, which has one memory for all tickets."""
        return step_name.manager(self.id, len(self.ticket.history), what)

    async def git(self, call: Callable[[TicketWorktrees, str], T], without: T) -> T:
        """Call a method of the worktrees for this ticket, in a thread; `without` if there is no
        git."""
        if self.services.worktrees is None:
            return without
        return await anyio.to_thread.run_sync(call, self.services.worktrees, self.id)

    async def folder(self) -> Path:
        return await self.git(TicketWorktrees.open, self.services.context.root)

    async def at_work(self, worker: Member) -> Member:
        """Return a worker set up for the ticket's folder, with a time limit for its turn."""
        limit = worker.timeout_ms or round(self.services.config.time_limits.work * 60_000)
        folder = str(await self.folder())
        own = {"execution_dir": folder, "work": "link", "timeout_ms": limit}
        return worker.model_copy(update=own)

    def prompt(self, name: str, **facts: object) -> str:
        """Return a prompt about the ticket, filled in."""
        described = "\n".join([self.part.description, *self._approval_notes()])
        return self.services.messenger.prompt(name, ticket=self.id, description=described, **facts)

    def _approval_notes(self) -> list[str]:
        """Return what the user said when approving a plan, for everybody who works by it."""
        return [
            f"The user approved the plan and says: {one}"
            for one in self.services.tracker.approval_notes
        ]

    async def ask_manager(
        self, prompt: str, wanted: type[AnyPayload], **facts: object
    ) -> AnyPayload:
        """Return the manager's reply to the prompt of this name, which the step is named after."""
        name, text = self.manager_step(prompt), self.prompt(prompt, **facts)
        return await self.services.manager.ask(name, text, wanted, self.id)

    def to_manager(self, source: str, payload: Payload) -> Draft:
        """Return a message about the ticket to the manager."""
        return Draft(source, self.services.manager.id, payload, self.id)

    def to_owner(self, payload: Payload, source: str = COTERIE) -> Draft:
        """Return a message about the ticket to its worker."""
        return Draft(source, self.owner, payload, self.id)

    async def move(
        self, state: TicketState, message: str, *drafts: Draft, owner: str | None = None
    ) -> None:
        """Move the ticket to its next state, in one transaction with the messages about it."""
        if self.services.files is not None:  # before anybody is told about them
            await self.services.files.send()
        await self.services.tracker.move(self.id, state, message, *drafts, owner=owner)

    async def settle(self, outcome: Draft, *drafts: Draft) -> None:
        """Move on after a worker's turn: to review if its outcome is completed work, else to
        blocked."""
        if is_completed(outcome):
            await self.move("awaiting_review", f"{outcome.source} reported", *drafts)
        else:
            await self.move("blocked", _trouble(outcome.payload), *drafts)

    @property
    def newest_payloads(self) -> Sequence[Payload]:
        """The payloads of all messages about the ticket, newest first."""
        return [one.payload for one in reversed(self.services.tracker.messages(self.id))]

    @property
    def last_source(self) -> str:
        """Who sent the newest message about the ticket."""
        messages = self.services.tracker.messages(self.id)
        return messages[-1].source if messages else COTERIE

    @property
    def failed_workers(self) -> Sequence[str]:
        """The workers that already failed at the ticket."""
        return [
            base_of(one.source)
            for one in self.services.tracker.messages(self.id)
            if isinstance(one.payload, Error) and one.source != COTERIE
        ]

    def times(self, state: TicketState) -> int:
        """Return how often the ticket was in a state since it was last reset."""
        return sum(moment.event == state for moment in self.since_reset)

    @property
    def since_reset(self) -> Sequence[Moment]:
        """The ticket's history since it was last reset."""
        history = self.ticket.history
        resets = (n for n, moment in enumerate(history) if moment.event == "pending")
        return history[max(resets, default=0) :]


def is_completed(outcome: Draft) -> bool:
    """Whether the outcome of a worker's turn is a report of completed work."""
    return isinstance(outcome.payload, Report) and outcome.payload.status == "completed"


def _trouble(outcome: Payload) -> str:
    """Say why work cannot continue after a turn with this outcome."""
    if isinstance(outcome, Report):
        needs = "; ".join([*outcome.issues, *outcome.next_actions])
        return needs or f"it reported {outcome.status}"
    return outcome.message if isinstance(outcome, Error) else ""
