"""Tickets and envelopes: each state change and what was said of it in one transaction."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from coterie.model.journal import AppendEnvelope, IllegalWrite, PutTicket
from coterie.model.ticket import IllegalMove, Moment, Ticket, TicketState, check_move
from coterie.stores.sqlite.failures import damaged
from coterie.stores.sqlite.queries import SQL, execute
from coterie.stores.sqlite.rows import select
from coterie.stores.sqlite.writer import Writer

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope


def append_envelope(connection: sqlite3.Connection, write: AppendEnvelope) -> None:
    """The session's next envelope."""
    envelope = write.envelope
    body = envelope.model_dump_json(exclude_none=True)
    execute(connection, SQL["insert_envelope"], (envelope.session_id, body))


def put_ticket(connection: sqlite3.Connection, write: PutTicket) -> None:
    """A ticket as it is now, and the lines that its history has more."""
    ticket, session = write.ticket, write.session_id
    body = json.dumps(
        {
            "task_id": ticket.task_id,
            "title": ticket.title,
            "owner": ticket.owner,
            "dependencies": ticket.dependencies,
            "closed_by": ticket.closed_by,
            "reason": ticket.reason,
            "stalls": ticket.stalls,
        },
        ensure_ascii=False,
    )
    if write.before is None:
        row = (session, ticket.id, ticket.state, body)
        done = execute(connection, SQL["insert_ticket"], row)
    else:
        _check(ticket, write)
        row = (ticket.state, body, session, ticket.id, write.before)
        done = execute(connection, SQL["update_ticket"], row)
    if done.rowcount != 1:
        was = "there already" if write.before is None else f"not {write.before}"
        raise IllegalWrite(f"{session}: ticket {ticket.id} is {was}")
    (last,) = connection.execute(SQL["last_moment"], (session, ticket.id)).fetchall()[0]
    for place, moment in enumerate(ticket.history[last:], last + 1):
        line = (session, ticket.id, place, moment.at, moment.event, moment.message)
        execute(connection, SQL["insert_moment"], line)


def _check(ticket: Ticket, write: PutTicket) -> None:
    if write.before is None or write.before == ticket.state:
        return
    try:
        check_move(ticket.id, write.before, ticket.state)
    except IllegalMove as problem:
        raise IllegalWrite(f"{write.session_id}: {problem}") from None


def _ticket(ticket_id: str, state: TicketState, body: str, history: tuple[Moment, ...]) -> Ticket:
    facts = json.loads(body)
    facts["dependencies"] = tuple(facts["dependencies"])
    return Ticket(id=ticket_id, state=state, history=history, **facts)


class SqliteTickets:
    """Tickets and envelopes, read."""

    def __init__(self, writer: Writer, path: Path) -> None:
        self._writer = writer
        self._path = path

    async def tickets(self, session_id: str) -> list[Ticket]:
        def read(connection: sqlite3.Connection) -> list[Ticket]:
            histories: dict[str, list[Moment]] = {}
            for ticket_id, *moment in select(connection, "ticket_history", session_id):
                histories.setdefault(ticket_id, []).append(Moment(*moment))
            return [
                _ticket(ticket_id, state, body, tuple(histories.get(ticket_id, ())))
                for ticket_id, state, body in select(connection, "tickets", session_id)
            ]

        return await self._writer.read(read)

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        def read(connection: sqlite3.Connection) -> list[tuple[int, Envelope]]:
            from coterie.model.envelope import Envelope

            found = select(connection, "envelopes", session_id, after)
            return [(sequence, Envelope.model_validate_json(body)) for sequence, body in found]

        try:
            return await self._writer.read(read)
        except ValidationError as error:
            raise damaged(self._path, f"An envelope of {session_id} is none: {error}") from None
