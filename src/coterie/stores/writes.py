"""What databases are told of a write: the statement, its row, and what it means where it does
nothing.  How statements are run, and how a failure is noticed, is each database's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from coterie.model import journal
from coterie.model.journal import IllegalWrite, Write
from coterie.model.ticket import IllegalMove, check_move
from coterie.stores import codec
from coterie.stores.codec import Value
from coterie.stores.statements import Query

_UPDATES: Mapping[type, tuple[str, str]] = {
    journal.AppendThread: ("insert_thread", "{thread} has no place {place} next"),
    journal.CloseStep: ("close_step", "step {name!r} is not open"),
    journal.SpendTurn: ("spend_turn", "attempt {attempt} of {step!r} is not open"),
    journal.CloseTurn: ("close_turn", "attempt {attempt} of {step!r} is not open"),
    journal.ParkLease: ("park_lease", "token {token} does not hold the lease"),
}
"""Writes that are one statement on their fields."""

Update = tuple[str, Callable[[Any], tuple[Value, ...]], str]
"""A statement, what takes its values from a write, and what its failure means."""


def updates(statements: Mapping[str, str]) -> dict[type, Update]:
    """How a database runs writes that are one statement on their `:fields`.

    Values in their order are bound in half the time that values by name take.
    """
    return {
        kind: (
            re.sub(r"(?<!:):\w+", "?", statements[name]),
            attrgetter(*re.findall(r"(?<!:):(\w+)", statements[name])),
            f"{{task_id}}: {problem}",
        )
        for kind, (name, problem) in _UPDATES.items()
    }


def problem_of(problem: str, write: Write) -> str:
    """The failure of an update, in words."""
    return problem.format(**write._asdict())


def _append_envelope(write: journal.AppendEnvelope) -> Iterator[Query]:
    session = write.envelope.session_id
    yield "insert_envelope", session, session, codec.envelope_text(write.envelope)


def _take_request(write: journal.TakeRequest) -> Iterator[Query]:
    yield "delete_request", write.request_id


def _supersede_steps(write: journal.SupersedeSteps) -> Iterator[Query]:
    for name in write.names:
        yield "supersede_step", write.prefix, write.task_id, name
        yield "supersede_turns", write.prefix, write.task_id, name


def _set_member_state(write: journal.SetMemberState) -> Iterator[Query]:
    if write.state in codec.KEPT_STATES:
        yield "set_member_state", *codec.MEMBER_STATE.row(write)
    else:
        yield "drop_member_state", write.task_id, write.member


PLAIN: Mapping[type, Callable[[Any], Iterator[Query]]] = {
    journal.AppendEnvelope: _append_envelope,
    journal.TakeRequest: _take_request,
    journal.SupersedeSteps: _supersede_steps,
    journal.SetMemberState: _set_member_state,
}
"""Writes that are the same statements everywhere, and may change nothing."""


def put_ticket(write: journal.PutTicket) -> tuple[str, tuple[Value, ...], str]:
    """The statement for a ticket as it is now, its row, and what is wrong where it does nothing.

    Raises IllegalWrite for a move that no ticket makes.
    """
    session = write.session_id
    ticket_id, state, body = codec.TICKET.row(write.ticket)
    if write.before is None:
        problem = f"{session}: ticket {ticket_id} is there already"
        return "insert_ticket", (ticket_id, state, body, session, session), problem
    if write.before != write.ticket.state:
        try:
            check_move(write.ticket.id, write.before, write.ticket.state)
        except IllegalMove as problem:
            raise IllegalWrite(f"{session}: {problem}") from None
    problem = f"{session}: ticket {ticket_id} is not {write.before}"
    return "update_ticket", (state, body, session, ticket_id, write.before), problem


def moments(write: journal.PutTicket, last: int = 0) -> Iterator[tuple[Value, ...]]:
    """The lines of a ticket's history behind the first `last` of them."""
    for place, moment in enumerate(write.ticket.history[last:], last + 1):
        yield (write.session_id, write.ticket.id, place, *codec.MOMENT.row(moment))
