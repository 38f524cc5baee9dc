"""A ticket as surfaces show it: how it stands, what was checked, what it took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coterie.model.check import CheckOutcome
from coterie.model.ticket import Ticket

if TYPE_CHECKING:
    from coterie.model.envelope import ArtifactRef, CheckRun, Envelope


@dataclass(frozen=True)
class TicketView:
    """One row of a session's table."""

    ticket: Ticket
    checks: str = ""
    """How many of its checks passed when they were last run, as `2/3`; empty where none was."""
    turns: int = 0
    seconds: float = 0.0
    """What its turns took, the manager's included."""
    tokens: int | None = None
    """None where no agent told."""


def ended(outcome: CheckOutcome | CheckRun) -> str:
    """How a check ended, in a few words."""
    return "no end in time" if outcome.exit_code is None else f"exit {outcome.exit_code}"


def check_results(envelopes: Iterable[Envelope]) -> dict[str, dict[str, bool]]:
    """By ticket and command: whether it passed when it was last run."""
    found: dict[str, dict[str, bool]] = {}
    for one in envelopes:
        if one.payload_type == "artifact_ref" and one.ticket_id:
            check = cast("ArtifactRef", one.payload).checked
            if check is not None:
                found.setdefault(one.ticket_id, {})[check.command] = check.passed
    return found


def check_scores(envelopes: Iterable[Envelope]) -> dict[str, str]:
    """By ticket: how many of its checks passed when they were last run, as `2/3`."""
    results = check_results(envelopes)
    return {ticket: f"{sum(one.values())}/{len(one)}" for ticket, one in results.items()}
