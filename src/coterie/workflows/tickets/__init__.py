"""The workflow `tickets`: a manager plans, workers deliver, every piece is checked and merged."""

from __future__ import annotations

from coterie.errors import UsageError
from coterie.model.task import TICKET_TURN, Ended, TaskCreated
from coterie.model.team import TICKETS, Team
from coterie.ports import Context


class Tickets:
    """Turns a goal into tickets, and tickets into reviewed work."""

    name: str = TICKETS
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry out the goal."""
        check_team(task.team)
        # Imported only when the workflow runs: other commands just look it up by name.
        from coterie.workflows.tickets.scheduler import TicketScheduler

        return await TicketScheduler(task, context).run()


class TicketTurn:
    """A worker's turn on a ticket, on whichever machine takes it."""

    name: str = TICKET_TURN
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Take the turn, and send its result."""
        from coterie.workflows.tickets.handed_out import take_turn

        return await take_turn(task, context)


def check_team(team: Team) -> None:
    """Raise UsageError if a team cannot work on tickets."""
    if len(team.ai_members) < 2:
        raise UsageError(
            f"Team {team.name} has too few AI members ({len(team.ai_members)}): tickets need a "
            "manager and at least one worker.",
            "coterie team add NAME --agent claude",
        )
