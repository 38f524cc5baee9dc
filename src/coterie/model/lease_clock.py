"""The rules of an owner's lease, on whatever clock one has.

An owner's agents are dead `ttl` after it *sent* the last renewal that succeeded, by its own clock.
Another that sees no new beat for `ttl` and a margin, by its own clock, may say that it is dead,
unless a beat comes before that is said.  What the other saw happened after it was sent, so the
agents are gone before anybody takes their task over, as long as no clock runs faster than another
by more than margin / ttl.  Instants are seconds of a clock that never stands still while its
machine runs; those of two machines are never compared.

The owner's half, which its keepers follow too, is `process/deadline.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LeaseTimes:
    """How long everything takes, in seconds; the same for all that use a store."""

    ttl: float = 60.0
    """The agents of an owner are dead this long after its last renewal was sent."""
    beat: float = 5.0
    """How often it is renewed, and how long one renewal may take."""
    soft: float = 10.0
    """So long before that its agents are asked to end; from then on nothing is written."""
    margin: float = 5.0
    """Others wait so much longer: clocks differ, and a kill takes a moment."""
    look: float = 1.0
    """How often others are looked at."""

    @classmethod
    def of(cls, ttl: float) -> LeaseTimes:
        """In the proportions of the defaults; a kill takes its moment however short the rest is."""
        return cls(ttl, ttl / 12, ttl / 6, max(1.0, ttl / 12), min(1.0, ttl / 12))

    def __post_init__(self) -> None:
        if not 0 < self.beat < self.ttl - self.soft < self.ttl or min(self.margin, self.look) <= 0:
            raise ValueError(f"an owner could not live by {self}")


@dataclass
class SilentOwners:
    """What one process saw of the others: since when each has not given a beat."""

    times: LeaseTimes
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def saw(self, owner: str, beat: int, received: float) -> bool:
        """An owner's beat was read, and known here at that instant; whether it is overdue.

        The instant is that of the answer: a beat may be younger than the question for it.
        """
        known, since = self._seen.get(owner, (None, received))
        if known != beat:
            self._seen[owner] = beat, received
            return False
        return received - since >= self.times.ttl + self.times.margin

    def since(self, owner: str) -> float:
        """When the beat was first seen that is the last one of an owner that was seen."""
        return self._seen[owner][1]

    def forget(self, living: set[str]) -> None:
        """Know only of these from now on."""
        for owner in self._seen.keys() - living:
            del self._seen[owner]
