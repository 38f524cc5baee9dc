"""Budgets in words: the limits, and how much of them has been used."""

from __future__ import annotations

from coterie.model.amount import format_amounts
from coterie.model.team import Allowance, Budget, Tally


def limits(budget: Budget) -> str:
    """`500k tokens · $5.00 · a day: 2000k tokens`; empty if nothing is limited."""
    day, ticket = _of_each(budget.per_day), _of_each(budget.per_ticket)
    parts = (_of_each(budget), day and f"a day: {day}", ticket and f"a ticket: {ticket}")
    return " · ".join(part for part in parts if part)


def used(allowance: Allowance, tally: Tally) -> str:
    """`214k of 500k tokens · $1.90 of $5.00`; empty if nothing is limited."""
    return " · ".join(
        format_amounts(measure, tally.of(measure), limit) for measure, limit in allowance.limits()
    )


def _of_each(allowance: Allowance) -> str:
    return " · ".join(format_amounts(measure, limit) for measure, limit in allowance.limits())
