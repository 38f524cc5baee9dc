"""The workflow as it is found by its name; all that it needs is imported when it runs."""

from __future__ import annotations

from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context


class Tickets:
    """A goal becomes tickets, tickets become reviewed work."""

    name: str = "tickets"
    version: int = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        """Carry the goal out."""
        from coterie.workflows.tickets.session import Session

        return await Session(task, context).to_its_end()
