"""The workflow `tickets`: a manager plans, workers deliver, every piece is checked and merged."""

from __future__ import annotations

from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context


class Tickets:
    """A goal becomes tickets, tickets become reviewed work."""

    name: str = "tickets"
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the goal out."""
        # All that it needs is imported when it runs: other commands only look it up by its name.
        from coterie.workflows.tickets.scheduler import TicketScheduler

        return await TicketScheduler(task, context).run()
