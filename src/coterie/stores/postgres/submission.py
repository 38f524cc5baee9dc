"""What is handed to the writer: writes that belong together, or a reading."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coterie.model.journal import Fence
from coterie.stores.statements import After, Reading


@dataclass(slots=True, eq=False)
class Submission:
    """One submission.  Without a future it was posted: its caller does not wait for it."""

    statements: Sequence[str] = ()
    fence: Fence | None = None
    future: asyncio.Future[Any] | None = None
    after: After = None
    answers: int = 0
    """How many of the statements return a value."""
    reading: Reading[Any] | None = None
    message: str = ""
    """The message whose reply the reading waits for."""
    has_event: bool = False
    """Whether it appends to the history."""
    is_urgent: bool = False
    is_alone: bool = False
    result: Any = None
    error: Exception | None = None


def writes_in(queue: Sequence[Submission]) -> int:
    """Count the writes at the head of the queue that may go together."""
    count = 0
    for job in queue:
        if job.reading is not None or job.is_alone:
            break
        count += 1
    return count
