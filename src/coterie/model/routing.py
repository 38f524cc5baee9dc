"""Who speaks next, and when a team has talked enough without a human."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from coterie.model import markers
from coterie.model.message import Message
from coterie.model.team import Member, Team

RUNAWAY = 20
"""Turns without a human word after which a chat that nobody capped hands the floor back."""


def pick(team: Team, names: Iterable[str]) -> tuple[Member | None, tuple[str, ...]]:
    """The first name that means a member, and the names before it that mean nobody."""
    unknown: list[str] = []
    for name in names:
        member = team.find(name)
        if member is not None:
            return member, tuple(unknown)
        unknown.append(name)
    return None, tuple(unknown)


def spoken(team: Team, said: Message, text: str) -> tuple[Message, tuple[str, ...]]:
    """What somebody said, with its markers read and taken off; and the names that mean nobody.

    `said` carries everything but what the text says.
    """
    member = team.get(said.member)
    human = member is None or member.type == "human"
    marked = markers.parse_human(text) if human else markers.parse(text)
    chosen, unknown = pick(team, marked.names)
    following = chosen.id if chosen else None
    return replace(said, text=marked.text, next=following, done=marked.done), unknown


def following(team: Team, speaker: str) -> Member:
    """Whoever follows the speaker in the team's order.

    A speaker who is not of the team (the person at the terminal) is followed by its first AI.
    """
    members = team.in_order
    for place, member in enumerate(members):
        if member.id == speaker:
            return members[(place + 1) % len(members)]
    return next((member for member in members if member.type == "ai"), members[0])


@dataclass(frozen=True)
class Rounds:
    """A round is over when every AI member has spoken since a human last did."""

    ai: frozenset[str]
    over: int = 0
    spoken: frozenset[str] = frozenset()
    turns: int = 0
    """AI turns since a human last spoke."""

    def after(self, member: Member | None) -> Rounds:
        """The count after somebody spoke; None is the person at the terminal."""
        if member is None or member.type == "human":
            return Rounds(self.ai)
        spoken = (self.spoken | {member.id}) & self.ai
        if spoken == self.ai:
            return replace(self, over=self.over + 1, spoken=frozenset[str](), turns=self.turns + 1)
        return replace(self, spoken=spoken, turns=self.turns + 1)
