"""What the timeline says about tickets."""

from __future__ import annotations

from coterie.engine.timeline import entries
from coterie.model.envelope import Envelope
from coterie.model.journal import AppendEnvelope, PutTicket
from coterie.model.record import TicketRecord
from coterie.model.ticket import Ticket, TicketState
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import TASK, TICKET, at, created
from coterie.workflows.tickets.tracker import announcement

MOVES: tuple[tuple[TicketState, str], ...] = (
    ("in_progress", "wren"),
    ("blocked", "wren"),
    ("in_progress", "finn"),
)


async def test_who_worked_is_known_of_moments_with_one_timestamp() -> None:
    storage = await SqliteStorage.in_memory()
    try:
        fence = await storage.create(created(), "me", None)
        assert fence is not None

        async def put(ticket: Ticket, before: TicketState | None) -> None:
            draft = announcement(ticket)
            sent = Envelope.of(TASK, at(1), draft.source, draft.target, draft.payload, ticket.id)
            await storage.commit(fence, PutTicket(TASK, ticket, before), AppendEnvelope(sent))

        ticket = TICKET
        await put(ticket, None)
        for state, owner in MOVES:
            before, ticket = ticket.state, ticket.moved(state, at(1), owner=owner)
            await put(ticket, before)
        shown = await entries(storage, await storage.timeline.after(0, TASK))
        records = [one.record for one in shown if isinstance(one.record, TicketRecord)]
        assert [(one.state, one.owner) for one in records] == [("pending", None), *MOVES]
    finally:
        await storage.close()
