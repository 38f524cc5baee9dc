"""The transition table: every pair of states is checked against the list in the design."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model.ticket import STATES, IllegalMove, Moment, Ticket, TicketState

ALLOWED = {
    ("pending", "discussing"),
    ("pending", "in_progress"),
    ("discussing", "in_progress"),
    ("in_progress", "blocked"),
    ("blocked", "in_progress"),
    ("in_progress", "awaiting_review"),
    ("awaiting_review", "in_progress"),
    ("awaiting_review", "done"),
    ("blocked", "error"),
    ("error", "pending"),
}
AT = "2026-01-01T00:00:00.000Z"


def a_ticket(state: TicketState) -> Ticket:
    return Ticket("T1", "a", "A", state)


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_only_what_the_design_lists_can_happen(before: TicketState, after: TicketState) -> None:
    ticket = a_ticket(before)
    if (before, after) in ALLOWED:
        moved = ticket.moved(after, AT, "why")
        assert moved == replace(
            ticket, state=after, history=(Moment(AT, after, "why"),), reason="why"
        )
    else:
        with pytest.raises(IllegalMove, match=f"T1 is {before}: it can become .*, not {after}"):
            ticket.moved(after, AT, "why")


@given(st.lists(st.sampled_from(STATES), max_size=30))
def test_no_walk_leaves_the_table(wanted: list[TicketState]) -> None:
    ticket = a_ticket("pending")
    for state in wanted:
        try:
            ticket = ticket.moved(state, AT)
        except IllegalMove:
            continue
    walked = ["pending", *(moment.event for moment in ticket.history)]
    assert set(pairwise(walked)) <= ALLOWED
    assert walked[-1] == ticket.state


@pytest.mark.parametrize("state", STATES)
def test_closing_and_noting_move_nothing(state: TicketState) -> None:
    ticket = a_ticket(state)
    closed = ticket.closed("T2", AT, "replaced")
    assert (closed.state, closed.closed_by, closed.is_over) == (state, "T2", True)
    assert ticket.noted(AT, "stalled", "x").state == state
    assert ticket.is_over == (state == "done")
