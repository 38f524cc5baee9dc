"""Tickets: the work on the parts of a plan, and how it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool

Count = Annotated[int, Field(ge=0, le=100)]
Minutes = Annotated[float, Field(gt=0, le=7 * 24 * 60)]


class _Settings(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class TimeLimits(_Settings):
    """After how long something is given up, in minutes."""

    work: Minutes = Field(default=60, description="One piece of a worker's work.")
    manager: Minutes = Field(default=30, description="One answer of the manager.")
    check: Minutes = Field(default=10, description="One check.")


class Alerts(_Settings):
    """When the user is told that something stands still."""

    stalled: Minutes = Field(
        default=15, description="A ticket that waits this long for another is announced, once."
    )


class SchedulerConfig(_Settings):
    """Limits, retries, concurrency and alerts of `coterie run`."""

    concurrency: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="How many tickets are worked on at once."
    )
    instances: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4,
        description="How many of a worker work at once, where it supports several instances.",
    )
    retries: Count = Field(
        default=2, description="How often failed work is tried again before the manager is asked."
    )
    rework: Count = Field(
        default=3, description="How often a ticket may be sent back by review before it fails."
    )
    replans: Count = Field(
        default=2, description="How often the manager may plan anew before you are asked."
    )
    clarifications: Count = Field(
        default=3, description="How many rounds of questions the manager may have."
    )
    checks: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Commands that every merged tree must pass, such as make test."
    )
    time_limits: TimeLimits = TimeLimits()
    alerts: Alerts = Alerts()
    sign: StrictBool = Field(default=False, description="Sign every envelope with a session key.")


TicketState = Literal[
    "pending", "discussing", "in_progress", "blocked", "awaiting_review", "done", "error"
]
STATES: tuple[TicketState, ...] = get_args(TicketState)
TicketNote = Literal["created", "closed", "discussed", "re-pointed", "resumed", "stalled"]
"""What is kept in a ticket's history besides its changes of state."""

TRANSITIONS: Mapping[TicketState, frozenset[TicketState]] = {
    "pending": frozenset({"discussing", "in_progress"}),
    "discussing": frozenset({"in_progress"}),
    "in_progress": frozenset({"blocked", "awaiting_review"}),
    "blocked": frozenset({"in_progress", "error"}),
    "awaiting_review": frozenset({"in_progress", "done"}),
    "done": frozenset(),
    "error": frozenset({"pending"}),
}
"""The only changes of state there are; `error` goes back to `pending` by hand alone."""


BASE_COMMIT = "ground"
"""The step whose result is the commit at which a session began; empty where there is no git."""
FINAL_COMMIT = "final/commit"
"""The step whose result is the commit with which it ended: that one is accepted, and no other."""


class IllegalMove(ValueError):
    """A change of state that the table does not have."""


def check_move(ticket_id: str, before: TicketState, after: TicketState) -> None:
    """Raise IllegalMove unless the table has the change."""
    if after not in TRANSITIONS[before]:
        known = ", ".join(sorted(TRANSITIONS[before])) or "nothing"
        raise IllegalMove(f"{ticket_id} is {before}: after that comes {known}, never {after}")


@dataclass(frozen=True)
class Moment:
    """One line of a ticket's history."""

    at: str
    event: TicketState | TicketNote
    message: str = ""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as it stands."""

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
    """Why it no longer counts: the ticket that took its place, `dropped`, `canceled`."""
    reason: str = ""
    stalls: Mapping[str, str] = field(default_factory=dict[str, str])
    """By ticket that it waits for: when it was last announced that this one stands still."""
    history: tuple[Moment, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done about it."""
        return self.state == "done" or self.closed_by is not None

    def moved(
        self, state: TicketState, at: str, message: str = "", owner: str | None = None
    ) -> Ticket:
        """The ticket in its next state, with its owner where one is named.  Raises IllegalMove."""
        check_move(self.id, self.state, state)
        history, owner = (*self.history, Moment(at, state, message)), owner or self.owner
        return replace(self, state=state, owner=owner, history=history, reason=message)

    def noted(self, at: str, event: TicketNote, message: str, stuck: str | None = None) -> Ticket:
        """The ticket with one more line in its history; `stuck`: whose stall that announces."""
        history = (*self.history, Moment(at, event, message))
        stalls = {**self.stalls, stuck: at} if stuck else self.stalls
        return replace(self, stalls=stalls, history=history)

    def closed(self, by: str, at: str, reason: str) -> Ticket:
        """The ticket taken out of the run; its state stays what it was."""
        history = (*self.history, Moment(at, "closed", reason))
        return replace(self, closed_by=by, reason=reason, history=history)


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
