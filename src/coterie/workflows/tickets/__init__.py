"""The workflow `tickets`: a manager plans, workers deliver, every piece is checked and merged."""

from __future__ import annotations

from coterie.errors import UsageError
from coterie.model.task import TICKET_TURN, Ended, TaskCreated
from coterie.model.team import Team
from coterie.ports import Context


class Tickets:
    """A goal becomes tickets, tickets become reviewed work."""

    name: str = "tickets"
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the goal out."""
        check_team(task.team)
        # All that it needs is imported when it runs: other commands only look it up by its name.
        from coterie.workflows.tickets.scheduler import TicketScheduler

        return await TicketScheduler(task, context).run()


class TicketTurn:
    """A worker's turn on a ticket, on whichever machine takes it."""

    name: str = TICKET_TURN
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Take the turn, and send what came of it."""
        from coterie.workflows.tickets.handed_out import take_turn

        return await take_turn(task, context)


def check_team(team: Team) -> None:
    """Raise UsageError where a team cannot work on tickets."""
    if len(team.ai_members) < 2:
        raise UsageError(
            f"Team {team.name} has {len(team.ai_members)} AI member; tickets need a manager "
            "and at least one worker.",
            "coterie team add NAME --agent claude",
        )
