"""What is known about the machines and processes that run tasks, and about the tasks on offer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

Pool = Literal["seat", "session"]
"""`seat`: a task that runs agents.  `session`: a task that waits for its child tasks; if sessions
took seats, they could fill all of them while no seat is left for the tasks they wait for."""

FULL = "allow full"
"""The need of a task with a member that may do everything without asking."""
MOST_NEEDS = 4
"""The maximum number of different needs of a task."""


@dataclass(frozen=True)
class OwnerRow:
    """A process that may own tasks, as recorded in a shared store; ids are never reused."""

    id: str
    machine: str
    """The machine that it runs on, by its name in the store."""
    beat: int
    """How often it has renewed its lease."""
    dead: bool
    """Whether it was declared dead, which is final."""
    started_at: str
    version: str
    """The version of Coterie."""


@dataclass(frozen=True)
class OwnerFacts:
    """What an owner wrote about itself: only for messages, never for decisions."""

    pid: int | None = None
    host: str | None = None


@dataclass(frozen=True)
class MachineRow:
    """A machine that runs `coterie worker`, as it described itself, for people to read."""

    name: str
    agents: tuple[str, ...]
    seats: int
    root_commit: str
    version: str
    seen: str
    allows_full: bool = False
    """Whether it accepts members that never ask for permission."""

    @property
    def has(self) -> list[str]:
        """What it offers, in the terms of tasks' needs."""
        return _has(self.agents, allows_full=self.allows_full)


@dataclass(frozen=True)
class MachineView:
    """A machine, as shown to people."""

    name: str
    state: Literal["alive", "dead"]
    """`dead`: it has no live process that could own a task."""
    agents: tuple[str, ...] = ()
    seats: int = 0
    running: tuple[str, ...] = ()
    """The tasks that it runs."""
    version: str = ""
    seen: str = ""
    allows_full: bool = False

    @property
    def has(self) -> list[str]:
        """What it offers, in the terms of tasks' needs."""
        return _has(self.agents, allows_full=self.allows_full)


def _has(agents: Iterable[str], *, allows_full: bool) -> list[str]:
    return [*agents, *([FULL] if allows_full else [])]


@dataclass(frozen=True)
class Offer:
    """A task that any machine that has what it needs may run."""

    task_id: str
    pool: Pool = "seat"
    needs: tuple[str, ...] = ()
    """Names of agents, and FULL."""
    machine: str | None = None
    """The only machine that may take it, if any."""
    woken: int = 0
    """How often it was put on offer again, because something happened that a run must handle."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why machines did not take it, by machine."""
    taker: str | None = field(default=None, compare=False)
    """The owner that has taken it."""

    @property
    def queue(self) -> str:
        """Its queue, chosen so that only machines that can take it are asked."""
        return queue_of(self.pool, self.needs, self.machine)


@dataclass(frozen=True)
class SentRef:
    """A branch of a session as last sent, for any machine that continues the session."""

    name: str
    """A ticket, or the name for all approved work."""
    commit: str
    digest: str | None = None
    """The digest of the bundle that contains it."""
    remote_ref: str | None = None
    """Its ref in the remote repository that branches travel by.  With neither a digest nor a ref,
    every clone has the commit or can fetch it."""


def queue_of(pool: Pool, needs: Iterable[str], machine: str | None = None) -> str:
    """The queue for all tasks with these needs; hashed, as PostgreSQL names have at most 63
    bytes."""
    meant = json.dumps([machine] if machine else [None, *sorted(needs)])
    return f"{pool}-{hashlib.blake2b(meant.encode(), digest_size=8).hexdigest()}"


def queues_of(pool: Pool, offers: Iterable[str], machine: str) -> list[str]:
    """The queues that a machine serves: its own, and one for every set of needs it can meet."""
    has = sorted(set(offers))
    together = {part for count in range(MOST_NEEDS + 1) for part in combinations(has, count)}
    return [queue_of(pool, (), machine), *sorted(queue_of(pool, part) for part in together)]
