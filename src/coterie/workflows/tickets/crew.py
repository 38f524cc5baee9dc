"""What all tickets of a session share, and one ticket as those who work on it see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.model.envelope import Error, InstructionProposal, Payload, PlanTask, Report
from coterie.model.scheduler import SchedulerConfig
from coterie.model.team import Member, base_of
from coterie.model.ticket import Ticket
from coterie.ports import Context
from coterie.workflows.tickets.aside import aside
from coterie.workflows.tickets.board import Board
from coterie.workflows.tickets.correspondence import COTERIE, Correspondence
from coterie.workflows.tickets.managing import Managing
from coterie.workflows.tickets.merging import MergeQueue
from coterie.workflows.tickets.outside import Outside
from coterie.workflows.tickets.roster import Roster
from coterie.workspace.ticket_worktrees import TicketFolders


@dataclass(frozen=True)
class Crew:
    """Who and what a session works with."""

    context: Context
    letters: Correspondence
    board: Board
    roster: Roster
    managing: Managing
    ground: TicketFolders
    queue: MergeQueue
    outside: Outside
    config: SchedulerConfig


@dataclass(frozen=True)
class Job:
    """One ticket at work."""

    crew: Crew
    id: str

    @property
    def ticket(self) -> Ticket:
        """As it stands."""
        return self.crew.board.ticket(self.id)

    @property
    def part(self) -> PlanTask:
        """What is to be done, as it was last planned."""
        return self.crew.board.part(self.id)

    @property
    def manager(self) -> Member:
        """Who instructs and reviews."""
        return self.crew.managing.manager

    def step(self, what: str) -> str:
        """The name of a step: stable as long as nothing was recorded of the ticket since."""
        return f"ticket/{self.id}/at/{len(self.ticket.history)}/{what}"

    def managers_step(self, what: str) -> str:
        """The name of a step of the manager, which has one memory for all tickets."""
        return f"manager/{self.id}/at/{len(self.ticket.history)}/{what}"

    async def folder(self) -> Path:
        """Where it is worked on."""
        return await aside(self.crew.ground, self.crew.ground.open, self.id)

    async def manager_says(self, what: str, **facts: object) -> Payload:
        """An instruction of the manager's, by the prompt of that name."""
        text = self.crew.letters.prompt(
            what, ticket=self.id, description=self.part.description, **facts
        )
        return await self.crew.managing.say(
            self.managers_step(what), text, "instruction", ticket=self.id
        )

    # -- looking back --------------------------------------------------------------------------

    @property
    def newest_words(self) -> Sequence[Payload]:
        """All that was said of it, the newest first."""
        return [one.payload for one in reversed(self.crew.board.said(self.id))]

    @property
    def opinion(self) -> Report | None:
        """What its worker said of the newest proposal."""
        found = (one for one in self.newest_words if isinstance(one, Report | InstructionProposal))
        newest = next(found, None)
        return newest if isinstance(newest, Report) else None

    @property
    def failed_workers(self) -> Sequence[str]:
        """Workers that failed at it already."""
        return [
            base_of(one.source)
            for one in self.crew.board.said(self.id)
            if isinstance(one.payload, Error) and one.source != COTERIE
        ]

    def times(self, event: str) -> int:
        """How often something happened to it since it was last begun anew."""
        events = [moment.event for moment in self.ticket.history]
        begun = max((n for n, one in enumerate(events) if one == "pending"), default=0)
        return events[begun:].count(event)
