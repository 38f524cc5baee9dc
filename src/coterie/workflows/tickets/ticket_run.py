"""What all tickets of a session share, and what all stages of the work on a ticket share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from coterie.model import step_name
from coterie.model.envelope import Error, Instruction, Payload, PlanTask
from coterie.model.task import TaskCreated
from coterie.model.team import Member, base_of
from coterie.model.ticket import SchedulerConfig, Ticket, TicketState
from coterie.ports import Context
from coterie.workflows.tickets.messenger import COTERIE, Draft, Manager, Messenger
from coterie.workflows.tickets.repository import MergeQueue, ProjectWatch
from coterie.workflows.tickets.tracker import TicketTracker
from coterie.workflows.tickets.workers import WorkerPool
from coterie.workspace.ticket_worktrees import TicketWorktrees

T = TypeVar("T")


@dataclass(frozen=True)
class SessionServices:
    """What the work on tickets needs."""

    task: TaskCreated
    context: Context
    messenger: Messenger
    tracker: TicketTracker
    workers: WorkerPool
    manager: Manager
    worktrees: TicketWorktrees | None
    queue: MergeQueue
    project: ProjectWatch

    @property
    def config(self) -> SchedulerConfig:
        """Limits and retries."""
        return self.task.scheduler


@dataclass(frozen=True)
class TicketRun:
    """The work on one ticket; each of its stages is a subclass."""

    services: SessionServices
    id: str

    @property
    def ticket(self) -> Ticket:
        """The ticket as it is now."""
        return self.services.tracker.ticket(self.id)

    @property
    def part(self) -> PlanTask:
        """What is to be done, as it was last planned."""
        return self.services.tracker.part(self.id)

    @property
    def owner(self) -> str:
        """The worker it is assigned to, else Coterie."""
        return self.ticket.owner or COTERIE

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
        """Where it is worked on."""
        return await self.git(TicketWorktrees.open, self.services.context.root)

    async def at_work(self, worker: Member) -> Member:
        """A worker in the ticket's folder, with a limit to its turn."""
        limit = worker.timeout_ms or round(self.services.config.time_limits.work * 60_000)
        folder = str(await self.folder())
        own = {"execution_dir": folder, "work": "link", "timeout_ms": limit}
        return worker.model_copy(update=own)

    # -- messages ------------------------------------------------------------------------------

    async def instruction(self, prompt: str, **facts: object) -> Instruction:
        """The manager's instruction, by the prompt of this name."""
        text = self.services.messenger.prompt(
            prompt, ticket=self.id, description=self.part.description, **facts
        )
        name = self.manager_step(prompt)
        reply = await self.services.manager.ask(name, text, "instruction", self.id)
        assert isinstance(reply, Instruction)
        return reply

    def draft(self, source: str, target: str, payload: Payload) -> Draft:
        """A message about the ticket."""
        return Draft(source, target, payload, self.id)

    def to_manager(self, source: str, payload: Payload) -> Draft:
        """A message about the ticket to the manager."""
        return Draft(source, self.services.manager.id, payload, self.id)

    def to_owner(self, payload: Payload, source: str = COTERIE) -> Draft:
        """A message about the ticket to its worker."""
        return Draft(source, self.owner, payload, self.id)

    async def move(
        self, state: TicketState, message: str, *drafts: Draft, owner: str | None = None
    ) -> None:
        """Put the ticket into its next state, in one transaction with the messages about it."""
        await self.services.tracker.move(self.id, state, message, *drafts, owner=owner)

    # -- history -------------------------------------------------------------------------------

    @property
    def newest_payloads(self) -> Sequence[Payload]:
        """The payloads of all messages about it, the newest first."""
        return [one.payload for one in reversed(self.services.tracker.messages(self.id))]

    @property
    def failed_workers(self) -> Sequence[str]:
        """Workers that already failed at it."""
        return [
            base_of(one.source)
            for one in self.services.tracker.messages(self.id)
            if isinstance(one.payload, Error) and one.source != COTERIE
        ]

    def times(self, state: TicketState) -> int:
        """How often it was in a state since it was last reset."""
        events = [moment.event for moment in self.ticket.history]
        begun = max((n for n, event in enumerate(events) if event == "pending"), default=0)
        return events[begun:].count(state)
