"""The rules of an owner's lease, independent of a particular clock.

An owner's agents are dead `ttl` after it *sent* the last renewal that succeeded, by its own clock.
Another process that sees no new beat for `ttl` plus a margin, by its own clock, may declare the
owner dead, unless a beat arrives first.  It saw the last beat after that beat was sent, so the
agents are gone before anybody takes over their tasks, as long as no clock runs faster than another
by more than margin / ttl.  Instants are seconds of a clock that never stops while its machine runs;
those of two machines are never compared.

The owner's half, which its keepers follow too, is `process/deadline.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LeaseTimes:
    """All lease durations, in seconds; the same for all processes that use a store."""

    ttl: float = 60.0
    """An owner's agents are dead this long after its last renewal was sent."""
    beat: float = 5.0
    """The interval between renewals, and the time limit of one renewal."""
    soft: float = 10.0
    """How long before the end of `ttl` its agents are asked to end; from then on nothing is
    written."""
    margin: float = 5.0
    """How much longer others wait: clocks differ, and a kill takes a moment."""
    look: float = 1.0
    """How often other owners are checked."""

    @classmethod
    def of(cls, ttl: float) -> LeaseTimes:
        """Scale the defaults to a `ttl`; the margin has a minimum, as a kill always takes time."""
        return cls(ttl, ttl / 12, ttl / 6, max(1.0, ttl / 12), min(1.0, ttl / 12))

    def __post_init__(self) -> None:
        if not 0 < self.beat < self.ttl - self.soft < self.ttl or min(self.margin, self.look) <= 0:
            raise ValueError(f"invalid lease times: {self}")


@dataclass
class SilentOwners:
    """What one process has seen of other owners: how long each has not sent a new beat."""

    times: LeaseTimes
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def saw(self, owner: str, beat: int, received: float) -> bool:
        """Record an owner's beat, read at the instant `received`; return whether it is overdue.

        `received` is when the result of the query arrived: the beat may be newer than the query.
        """
        known, since = self._seen.get(owner, (None, received))
        if known != beat:
            self._seen[owner] = beat, received
            return False
        return received - since >= self.times.ttl + self.times.margin

    def since(self, owner: str) -> float:
        """When the latest beat of an owner was first seen."""
        return self._seen[owner][1]

    def forget(self, living: set[str]) -> None:
        """Forget all owners except those that are living."""
        for owner in self._seen.keys() - living:
            del self._seen[owner]
