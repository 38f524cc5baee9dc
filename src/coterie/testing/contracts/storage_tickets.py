"""Tickets and envelopes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.model.envelope import Envelope, Report, TicketPayload
from coterie.model.journal import AppendEnvelope, Fence, IllegalWrite, PutTicket
from coterie.model.ticket import Moment, Ticket
from coterie.ports import Storage
from coterie.testing.contracts.samples import TASK, at, created
from coterie.testing.contracts.storage_opening import OpenedStorage

TICKET = Ticket("T1", "t-1", "Coupon model", history=(Moment(at(1), "created"),))


def said(minute: int) -> Envelope:
    """That there is a ticket."""
    payload = TicketPayload(ticket_id="T1", task_id="t-1", owner=None, status="pending")
    return Envelope.of(TASK, at(minute), "coterie", "mira", payload, "T1")


class TicketsContract(OpenedStorage):
    """A ticket's state and its envelope are one."""

    async def _fence(self, storage: Storage) -> Fence:
        fence = await storage.create(created(), "me", None)
        assert fence is not None
        return fence

    async def test_tickets_come_back_in_the_order_they_were_made(self, storage: Storage) -> None:
        fence = await self._fence(storage)
        other = Ticket("T0", "t-0", "Price rules", dependencies=("T1",))
        await storage.commit(fence, PutTicket(TASK, TICKET, None), PutTicket(TASK, other, None))
        moved = replace(TICKET.moved("in_progress", at(2), "go"), owner="wren")
        await storage.commit(fence, PutTicket(TASK, moved, "pending"))
        assert await storage.tickets.tickets(TASK) == [moved, other]
        assert await storage.tickets.tickets("other") == []
        assert await storage.tickets.tickets(TASK, {"T1": 1, "T0": 0}) == [moved]
        assert await storage.tickets.tickets(TASK, {"T1": 2}) == [other]

    async def test_envelopes_have_numbers_without_gaps(self, storage: Storage) -> None:
        fence = await self._fence(storage)
        with pytest.raises(IllegalWrite):
            await storage.commit(
                fence, AppendEnvelope(said(1)), PutTicket(TASK, TICKET, "in_progress")
            )
        await storage.commit(fence, AppendEnvelope(said(2)))
        report = Envelope.of(TASK, at(3), "wren", "mira", Report(status="completed"), "T1")
        await storage.commit(fence, AppendEnvelope(report))
        assert await storage.tickets.envelopes(TASK) == [(1, said(2)), (2, report)]
        assert await storage.tickets.envelopes(TASK, after=1) == [(2, report)]

    async def test_a_move_that_the_table_does_not_have_is_refused(self, storage: Storage) -> None:
        fence = await self._fence(storage)
        await storage.commit(fence, PutTicket(TASK, TICKET, None))
        with pytest.raises(IllegalWrite, match="never done"):
            await storage.commit(fence, PutTicket(TASK, replace(TICKET, state="done"), "pending"))
        moved = replace(TICKET, state="in_progress")
        with pytest.raises(IllegalWrite, match="is not blocked"):
            await storage.commit(fence, PutTicket(TASK, moved, "blocked"))
        with pytest.raises(IllegalWrite, match="there already"):
            await storage.commit(fence, PutTicket(TASK, TICKET, None))
        assert await storage.tickets.tickets(TASK) == [TICKET]
