"""What is known of the machines and processes that run tasks, and of the tasks on offer to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

Pool = Literal["seat", "session"]
"""`seat`: a task that runs agents.  `session`: one that waits for tasks of its own; were it to take
a seat, all seats could wait for what nobody has a seat to run."""

FULL = "allow full"
"""What a machine must allow, where a member may do everything unasked."""
MOST_NEEDS = 4
"""How many different things a task may need at once."""


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


@dataclass(frozen=True)
class MachineRow:
    """A machine that runs `coterie worker`, as it described itself: for people."""

    name: str
    agents: tuple[str, ...]
    seats: int
    root_commit: str
    version: str
    seen: str
    allows_full: bool = False
    """Whether it takes members that never ask."""

    @property
    def has(self) -> list[str]:
        """What it has to give, as tasks need it."""
        return _has(self.agents, allows_full=self.allows_full)


@dataclass(frozen=True)
class MachineView:
    """A machine as it is shown."""

    name: str
    state: Literal["alive", "dead"]
    """`dead`: no process of it lives that could own a task."""
    agents: tuple[str, ...] = ()
    seats: int = 0
    running: tuple[str, ...] = ()
    """The tasks that it runs."""
    version: str = ""
    seen: str = ""
    allows_full: bool = False

    @property
    def has(self) -> list[str]:
        """What it has to give, as tasks need it."""
        return _has(self.agents, allows_full=self.allows_full)


def _has(agents: Iterable[str], *, allows_full: bool) -> list[str]:
    return [*agents, *([FULL] if allows_full else [])]


@dataclass(frozen=True)
class Offer:
    """A task that any machine may run which has what it needs."""

    task_id: str
    pool: Pool = "seat"
    needs: tuple[str, ...] = ()
    """Names of agents, and FULL."""
    machine: str | None = None
    """Which alone may take it."""
    woken: int = 0
    """How often something has happened to it that is to be looked at."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """By machine: why it did not take it."""
    taker: str | None = field(default=None, compare=False)
    """The owner that has it in hand."""

    @property
    def queue(self) -> str:
        """Where it is queued, so that only those who can take it are asked."""
        return queue_of(self.pool, self.needs, self.machine)


@dataclass(frozen=True)
class SentRef:
    """A branch of a session as it was last sent, for whichever machine goes on with it."""

    name: str
    """A ticket, or what all that is approved is called."""
    commit: str
    digest: str | None = None
    """Of the bundle that holds it."""
    remote_ref: str | None = None
    """What it is called in the repository that branches travel by.  Neither: every clone has it, or
    can fetch it."""


def queue_of(pool: Pool, needs: Iterable[str], machine: str | None = None) -> str:
    """The queue of all that needs the same; a name in PostgreSQL is no longer than 63 bytes."""
    meant = json.dumps([machine] if machine else [None, *sorted(needs)])
    return f"{pool}-{hashlib.blake2b(meant.encode(), digest_size=8).hexdigest()}"


def queues_of(pool: Pool, offers: Iterable[str], machine: str) -> list[str]:
    """The queues that a machine serves: its own, and those of all that it can run."""
    has = sorted(set(offers))
    together = {part for count in range(MOST_NEEDS + 1) for part in combinations(has, count)}
    return [queue_of(pool, (), machine), *sorted(queue_of(pool, part) for part in together)]
