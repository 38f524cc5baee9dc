"""Tickets that wait too long for another: announced once, and left waiting."""

from __future__ import annotations

import anyio

from coterie.model import instant
from coterie.model.envelope import Report
from coterie.model.record import ErrorRecord
from coterie.model.ticket import Ticket
from coterie.ports import Context
from coterie.workflows.tickets.board import Board
from coterie.workflows.tickets.correspondence import COTERIE, Said


class Stalls:
    """Looks for work that stands still while other work waits for it."""

    def __init__(self, task_id: str, context: Context, board: Board, manager: str) -> None:
        self._task = task_id
        self._context = context
        self._board = board
        self._manager = manager
        # What stood still while nobody ran the session did not stand still by itself.
        self._since = instant.now()

    async def watch(self, minutes: float) -> None:
        """Announce whatever has stood still for so long; does not end."""
        while True:
            after = await self.look(minutes * 60)
            await anyio.sleep(after)

    async def look(self, patience: float) -> float:
        """Announce what has stood still for so many seconds; after how many to look again."""
        soonest = patience
        for stuck, waiting in list(self._board.agenda.standing_in_the_way):
            left = patience - self._still(stuck)
            if left <= 0:
                await self._announce(stuck, waiting)
            else:
                soonest = min(soonest, left)
        return soonest

    def _still(self, ticket: Ticket) -> float:
        last = max(ticket.history[-1].at, self._since)
        return instant.seconds_between(last, instant.now())

    async def _announce(self, stuck: Ticket, waiting: Ticket) -> None:
        last = stuck.history[-1].at
        if waiting.stalls.get(stuck.id, "") >= last:
            return
        what = f"which is {stuck.state}" + (f" ({stuck.owner})" if stuck.owner else "")
        why = f"waits for {stuck.id}, {what} and has not moved since {last}"
        report = Report(
            status="blocked",
            issues=(f"{waiting.id} {why}.",),
            next_actions=(f"Look at {stuck.id}.",),
        )
        said = Said(COTERIE, self._manager, report, waiting.id)
        await self._board.announce_stall(waiting.id, stuck.id, why, said)
        self._context.tell(
            ErrorRecord(
                "stalled", f"{waiting.id} {why}.", f"coterie show {self._task}", task=self._task
            )
        )
