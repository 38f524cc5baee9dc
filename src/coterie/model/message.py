"""What one member said, as kept in the conversation."""

from __future__ import annotations

from dataclasses import dataclass

YOU = "you"
"""The person at the terminal, in a team that names no human member."""


@dataclass(frozen=True)
class Message:
    """One thing said; `seq` counts from 1 in each task, without gaps."""

    task_id: str
    seq: int
    member: str
    text: str
    at: str
    turn: int = 0
    """Which turn of the task it was; 0 for a word that was nobody's turn."""
    next: str | None = None
    """The member it names as the next speaker."""
    done: bool = False
    """Whether it carried `[DONE]`."""
    cut: bool = False
    """Whether the user broke it off before its end."""
