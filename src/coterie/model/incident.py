"""Pending notifications, as stored; `notification.py` has their texts.

In a separate module, because otherwise every command that opens the store would build those models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["sent", "failed", "seen"]
"""`seen`: not sent, because the person was at the terminal that showed it."""


@dataclass(frozen=True)
class PendingNotification:
    """A notification that has yet to be sent, or could not be sent."""

    incident: str
    """The question, the ended task, or the task's rate limit (`limit_incident`)."""
    task_id: str
    at: str
    problem: str
    """Why it could not be sent; empty if it was never tried."""

    @property
    def is_end(self) -> bool:
        """Whether it reports the end of a task."""
        return self.incident == self.task_id

    @property
    def limited_until(self) -> str:
        """When the rate limit that parked the task ends; empty if it was not one."""
        task, _, until = self.incident.partition(_UNTIL)
        return until if task == self.task_id else ""


_UNTIL = "@"


def limit_incident(task_id: str, until: str) -> str:
    """The incident of a task waiting for a rate limit to end: the same name for every attempt made
    before then."""
    return f"{task_id}{_UNTIL}{until}"
