"""What a person is to be told elsewhere, as it is kept; `notification.py` has the words for it.

Apart from those, since every command that opens the store would else make their models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["sent", "failed", "seen"]
"""`seen`: the person sat where it was shown."""


@dataclass(frozen=True)
class PendingNotification:
    """What is to be told, or could not be."""

    incident: str
    """The question, the task that ended, or its limit (`limit_incident`)."""
    task_id: str
    at: str
    problem: str = ""

    @property
    def is_end(self) -> bool:
        """Whether it is the end of a task."""
        return self.incident == self.task_id

    @property
    def limited_until(self) -> str:
        """Where a rate limit parked the task, when that ends; else empty."""
        task, _, until = self.incident.partition(_UNTIL)
        return until if task == self.task_id else ""


_UNTIL = "@"


def limit_incident(task_id: str, until: str) -> str:
    """What goes by one name: that a task waits for the end of one limit, however often it is
    tried before."""
    return f"{task_id}{_UNTIL}{until}"
