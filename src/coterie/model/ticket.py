"""Tickets: the work on the parts of a plan, and how it is scheduled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from coterie.errors import NotFound

Count = Annotated[int, Field(ge=0, le=100)]
Minutes = Annotated[float, Field(gt=0, le=7 * 24 * 60)]


class _Settings(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class TimeLimits(_Settings):
    """Time limits in minutes."""

    work: Minutes = Field(default=60, description="One turn of a worker.")
    manager: Minutes = Field(default=30, description="One turn of the manager.")
    check: Minutes = Field(default=10, description="One check.")


class Alerts(_Settings):
    """When the user is told that something has stalled."""

    stalled: Minutes = Field(
        default=15, description="A ticket that waits this long for another is reported once."
    )


class SchedulerConfig(_Settings):
    """Limits, retries, concurrency and alerts of `coterie run`."""

    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="How many tickets are worked on at once."
    )
    instances: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4,
        description="How many instances of a worker run at once, if it supports several.",
    )
    retries: Count = Field(
        default=2, description="How often a ticket may be blocked before it fails."
    )
    rework: Count = Field(
        default=3, description="How often a ticket may be sent back by review before it fails."
    )
    replans: Count = Field(
        default=2, description="How often the manager may replan before you are asked."
    )
    clarifications: Count = Field(
        default=3, description="How many rounds of questions the manager may have."
    )
    checks: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Commands that every ticket and merge must pass, such as make test."
    )
    time_limits: TimeLimits = TimeLimits()
    alerts: Alerts = Alerts()
    sign: StrictBool = Field(default=False, description="Sign every envelope with a session key.")


TicketState = Literal[
    "pending", "discussing", "in_progress", "blocked", "awaiting_review", "done", "error"
]
TicketKind = Literal[
    "ready", "working", "in review", "blocked", "failed", "done", "dropped", "replaced"
]
"""What a ticket counts as: by its state, and by what became of it and of those it waits for."""
STATES: tuple[TicketState, ...] = get_args(TicketState)
TicketNote = Literal["created", "closed", "discussed", "re-pointed", "resumed", "stalled"]
"""Entries in a ticket's history other than its state changes."""

TRANSITIONS: Mapping[TicketState, frozenset[TicketState]] = {
    "pending": frozenset({"discussing", "in_progress"}),
    "discussing": frozenset({"in_progress"}),
    "in_progress": frozenset({"blocked", "awaiting_review"}),
    "blocked": frozenset({"in_progress", "error"}),
    "awaiting_review": frozenset({"in_progress", "done"}),
    "done": frozenset(),
    "error": frozenset({"pending"}),
}
"""The only valid state changes; `error` goes back to `pending` only by hand."""


BASE_COMMIT = "ground"
"""The step whose result is the commit at which a session began; empty without git."""
FINAL_COMMIT = "final/commit"
"""The step whose result is the commit with which a session ended: only that commit is accepted."""


TICKET_ID = "T[0-9]{1,6}"
"""The pattern of a ticket's id in its session."""
_NAME = re.compile(f"([^/\\s]*)/({TICKET_ID})", re.IGNORECASE)


def named_ticket(name: str) -> tuple[str, str] | None:
    """Return the session and the ticket that a person means by `k3f9/t2`; the session is empty for
    `/t2`.  None if it names no ticket."""
    match = _NAME.fullmatch(name)
    return (match[1], match[2].upper()) if match else None


def no_ticket(ticket: str, session: str, known: Iterable[str]) -> NotFound:
    """Return the error for a ticket that its session does not have."""
    there = ", ".join(known) or "none"
    return NotFound(
        f"No ticket {ticket} in {session}. There are: {there}.", f"coterie show {session}"
    )


def after_session(session: str, *, has_branch: bool) -> tuple[str, ...]:
    """Return what to type once a session is completed; without a branch of its own its work is in
    the folder already, and there is nothing to accept."""
    verbs = ("diff", "accept", "revert") if has_branch else ("diff", "revert")
    return tuple(f"coterie {verb} {session}" for verb in verbs)


class IllegalMove(ValueError):
    """A state change that TRANSITIONS does not allow."""


def check_move(ticket_id: str, before: TicketState, after: TicketState) -> None:
    """Raise IllegalMove unless TRANSITIONS allows the change."""
    if after not in TRANSITIONS[before]:
        known = ", ".join(sorted(TRANSITIONS[before])) or "nothing"
        raise IllegalMove(f"{ticket_id} is {before}: it can become {known}, not {after}")


@dataclass(frozen=True)
class Moment:
    """One entry of a ticket's history."""

    at: str
    event: TicketState | TicketNote
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The current state of a ticket."""

    id: str
    task_id: str
    """The part of the plan that it tracks."""
    title: str
    state: TicketState = "pending"
    owner: str | None = None
    """The worker; None until one is chosen."""
    dependencies: tuple[str, ...] = ()
    """Tickets that must be done before this one begins."""
    closed_by: str | None = None
    """Why it no longer counts: the ticket that replaced it, or `dropped`."""
    reason: str = ""
    stalls: Mapping[str, str] = field(default_factory=dict[str, str])
    """When it was last announced that this ticket is stalled, by the ticket it waits for."""
    history: tuple[Moment, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether no more work on it remains."""
        return self.state == "done" or self.closed_by is not None

    def moved(
        self, state: TicketState, at: str, message: str = "", owner: str | None = None
    ) -> Ticket:
        """The ticket in its next state, with a new owner if one is given.  Raises IllegalMove."""
        check_move(self.id, self.state, state)
        history, owner = (*self.history, Moment(at, state, message)), owner or self.owner
        return replace(self, state=state, owner=owner, history=history, reason=message)

    def noted(self, at: str, event: TicketNote, message: str, stuck: str | None = None) -> Ticket:
        """The ticket with another history entry; `stuck` is the ticket whose delay it announces."""
        history = (*self.history, Moment(at, event, message))
        stalls = {**self.stalls, stuck: at} if stuck else self.stalls
        return replace(self, stalls=stalls, history=history)

    def closed(self, by: str, at: str, reason: str) -> Ticket:
        """The ticket removed from the run; its state stays unchanged."""
        history = (*self.history, Moment(at, "closed", reason))
        return replace(self, closed_by=by, reason=reason, history=history)


class CheckScore(NamedTuple):
    """How many checks passed; shown as `2/3`."""

    passed: int
    total: int

    def __str__(self) -> str:
        return f"{self.passed}/{self.total}"


@dataclass(frozen=True)
class TicketView:
    """One row of a session's ticket table."""

    ticket: Ticket
    checks: CheckScore | None = None
    """How many of its checks passed in their last run; None if none was run."""
    turns: int = 0
    seconds: float = 0.0
    """The duration of its turns, including the manager's."""
    tokens: int | None = None
    """None if no agent reported them."""
