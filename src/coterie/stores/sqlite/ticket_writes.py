"""What is written of tickets: each change of state and what was said of it in one transaction."""

from __future__ import annotations

import sqlite3

from coterie.model import journal
from coterie.model.journal import IllegalWrite
from coterie.model.ticket import IllegalMove, check_move
from coterie.stores.sqlite import codec
from coterie.stores.sqlite.codec import SQL, execute, select


def append_envelope(connection: sqlite3.Connection, write: journal.AppendEnvelope) -> None:
    """What was said, with the next number of its session."""
    session = write.envelope.session_id
    row = (session, session, codec.envelope_text(write.envelope))
    execute(connection, SQL["insert_envelope"], row)


def put_ticket(connection: sqlite3.Connection, write: journal.PutTicket) -> None:
    """A ticket as it is now, and the lines that its history has more."""
    ticket, session = write.ticket, write.session_id
    ticket_id, state, body = codec.TICKET.row(ticket)
    if write.before is None:
        row = (ticket_id, state, body, session, session)
        done = execute(connection, SQL["insert_ticket"], row)
    else:
        _check_move(write)
        row = (state, body, session, ticket_id, write.before)
        done = execute(connection, SQL["update_ticket"], row)
    if done.rowcount != 1:
        was = "there already" if write.before is None else f"not {write.before}"
        raise IllegalWrite(f"{session}: ticket {ticket.id} is {was}")
    last = select(connection, "last_moment", session, ticket.id)[0][0]
    for place, moment in enumerate(ticket.history[last:], last + 1):
        line = (session, ticket.id, place, *codec.MOMENT.row(moment))
        execute(connection, SQL["insert_moment"], line)


def _check_move(write: journal.PutTicket) -> None:
    if write.before is None or write.before == write.ticket.state:
        return
    try:
        check_move(write.ticket.id, write.before, write.ticket.state)
    except IllegalMove as problem:
        raise IllegalWrite(f"{write.session_id}: {problem}") from None
