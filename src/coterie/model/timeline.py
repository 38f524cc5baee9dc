"""The rows of a project's timeline: everything reported about its tasks, in a single order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coterie.model.conversation import Message
from coterie.model.interaction import Interaction
from coterie.model.journal import Turn
from coterie.model.task import Event, UserInteractionRequested, UserInteractionResponded
from coterie.model.tool_call import AuditEntry


@dataclass(frozen=True)
class StatusChange:
    """A task changed its status."""

    event: Event
    workflow: str


@dataclass(frozen=True)
class AskedQuestion:
    """A question was asked, answered or closed."""

    event: UserInteractionRequested | UserInteractionResponded
    interaction: Interaction


@dataclass(frozen=True)
class SentMessage:
    """A message, and the turn that it ended; None for a message outside any turn."""

    message: Message
    turn: Turn | None


@dataclass(frozen=True)
class AuditedCall:
    """A tool call began or ended; `given` is its input, which the row of its end lacks."""

    entry: AuditEntry
    given: Mapping[str, object]


@dataclass(frozen=True)
class TicketMoment:
    """An entry of a ticket's history, by its position, from 1."""

    session_id: str
    ticket_id: str
    place: int


TimelineSource = Literal["status", "question", "message", "call", "failure", "ticket"]
"""The kinds of sources that rows come from."""
Source = StatusChange | AskedQuestion | SentMessage | AuditedCall | Turn | TicketMoment
"""The content of a row; a turn is a failed one."""


@dataclass(frozen=True)
class TimelineRow:
    """One row, with its number in the project: later commits have higher numbers."""

    sequence: int
    task_id: str
    source: Source
