"""What is known of the machines and processes that run tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnerRow:
    """A process that may own tasks, as a store of several machines knows it; never used again."""

    id: str
    machine: str
    """Where it runs, by the name that the machine has in the store."""
    beat: int
    """How often it has renewed its lease."""
    dead: bool
    """Whether it was declared dead, which is never taken back."""
    started_at: str
    version: str
    """Of Coterie."""


@dataclass(frozen=True)
class OwnerFacts:
    """What an owner wrote about itself: good for a message, never for a decision."""

    pid: int | None = None
    host: str | None = None
