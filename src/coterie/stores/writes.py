"""The common part of writes: the statement, its row, and what it means if it changes nothing.
How statements run and how a failure is detected is up to each database."""

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
    journal.AppendThread: (
        "insert_thread",
        "entry {place} does not follow the last one of thread {thread}",
    ),
    journal.CloseStep: ("close_step", "step {name!r} is not open"),
    journal.SpendTurn: ("spend_turn", "attempt {attempt} of {step!r} is not open"),
    journal.CloseTurn: ("close_turn", "attempt {attempt} of {step!r} is not open"),
    journal.ParkLease: ("park_lease", "token {token} does not hold the lease"),
}
"""Writes that are one statement on their fields, with the problem if it changes nothing."""

Update = tuple[str, Callable[[Any], tuple[Value, ...]], str]
"""A statement, the getter of its values from a write, and what its failure means."""


def updates(statements: Mapping[str, str]) -> dict[type, Update]:
    """Prepare the writes that are one statement on their `:fields`.

    Binding values by position takes half the time of binding them by name.
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
    """Describe the failure of an update."""
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
"""Writes that are the same statements in every database, and may change nothing."""


def put_ticket(write: journal.PutTicket) -> tuple[str, tuple[Value, ...], str]:
    """Return the statement for a ticket's new state, its row, and the problem if it does nothing.

    Raises IllegalWrite for a state change that tickets do not make.
    """
    session = write.session_id
    ticket_id, state, body = codec.TICKET.row(write.ticket)
    if write.before is None:
        problem = f"{session}: ticket {ticket_id} already exists"
        return "insert_ticket", (ticket_id, state, body, session, session), problem
    if write.before != write.ticket.state:
        try:
            check_move(write.ticket.id, write.before, write.ticket.state)
        except IllegalMove as problem:
            raise IllegalWrite(f"{session}: {problem}") from None
    problem = f"{session}: ticket {ticket_id} is not in state {write.before}"
    return "update_ticket", (state, body, session, ticket_id, write.before), problem


def moments(write: journal.PutTicket, last: int = 0) -> Iterator[tuple[Value, ...]]:
    """Yield the rows of a ticket's history after the first `last` entries."""
    for place, moment in enumerate(write.ticket.history[last:], last + 1):
        yield (write.session_id, write.ticket.id, place, *codec.MOMENT.row(moment))
