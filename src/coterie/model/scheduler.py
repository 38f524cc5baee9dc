"""How a session with tickets is scheduled: the user's `scheduler_config.json`, with defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar

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
