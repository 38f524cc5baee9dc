"""The roles of a pipeline, and which member of a team fills each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.errors import NotFound
from coterie.model.team import Member, Team

CODER = "codegen"
REVIEWER = "review"
WORKSHOP = ("product", "system", "senior_developer", "test", "risk", "design", "file_impact")
"""The roles whose notes a plan is made of; none needs another's."""
REVIEWING = ("plan_review", REVIEWER, "second_opinion", "security")
"""Roles that judge: not filled by the coder where there is somebody else."""

PIPELINE_ROLES: Mapping[str, str] = {
    "product": "says what the change is for and where it ends",
    "system": "knows how the parts of the project fit together",
    "senior_developer": "says how the change can be made simply",
    "test": "says how it will be known that the change is right",
    "risk": "says what could go wrong",
    "design": "says how the change sits in the project",
    "file_impact": "says which files the change touches",
    "planning": "writes the plan",
    "plan_review": "reviews the plan",
    "chair": "chairs the meetings",
    CODER: "writes the code",
    REVIEWER: "reviews the code",
    "second_opinion": "gives an independent second opinion",
    "security": "reviews the code for security",
    "test_codegen": "writes tests",
    "debrief": "says why a test run failed",
}
"""Every role and what it does."""


class RoleMistake(NamedTuple):
    """What is wrong with who fills a role."""

    role: str
    problem: str


def role_mistakes(roles: Mapping[str, str], members: Sequence[Member]) -> Iterator[RoleMistake]:
    """What is wrong with a team's `roles`, for these members."""
    able = [member.id for member in members if member.type == "ai"]
    people = [member.id for member in members if member.type != "ai"]
    for role, named in roles.items():
        if role not in PIPELINE_ROLES:
            yield RoleMistake(role, f"is no role; there are {', '.join(PIPELINE_ROLES)}")
        elif named in people:
            yield RoleMistake(role, f"names {named}, a person; roles are filled by agents")
        elif named not in able:
            yield RoleMistake(role, f"names no member: {named}; there are {', '.join(able)}")
    coder = roles.get(CODER)
    for role in (REVIEWER, "second_opinion"):
        if coder in able and roles.get(role) == coder and len(able) > 1:
            others = ", ".join(one for one in able if one != coder)
            yield RoleMistake(role, f"names {coder}, who writes the code; take {others}")


class FilledRoles:
    """Who fills each role of a pipeline in one team."""

    def __init__(self, team: Team) -> None:
        self._members = team.ai_members
        if not self._members:
            raise NotFound(f"Team {team.name} has no member with an agent.", "coterie team add ID")
        self._stated = {
            role: member
            for role, named in team.roles.items()
            if (member := team.get(named)) is not None and member.type == "ai"
        }
        self._manager = team.manager
        self._coder = self._stated.get(CODER) or self._first_coder()

    def member(self, role: str) -> Member:
        """Who fills a role.  Raises NotFound for one that there is not."""
        if role not in PIPELINE_ROLES:
            raise NotFound(f'There is no role "{role}". Roles are: {", ".join(PIPELINE_ROLES)}.')
        stated = self._stated.get(role)
        if stated is not None:
            return stated
        if role in WORKSHOP:
            # Spread over all members: what is independent can then be asked for side by side.
            return self._members[WORKSHOP.index(role) % len(self._members)]
        return self._by_rule(role)()

    def _by_rule(self, role: str) -> Callable[[], Member]:
        rules: Mapping[str, Callable[[], Member]] = {
            CODER: lambda: self._coder,
            "planning": lambda: self._manager,
            "chair": lambda: self._manager,
            "second_opinion": self._second_opinion,
            "security": self._security,
            "test_codegen": self._test_writer,
        }
        return rules.get(role, self._other_than_coder)

    def _first_coder(self) -> Member:
        """Who may write comes first, and who was not asked to review."""
        judging = [self._stated[role].id for role in REVIEWING if role in self._stated]
        return min(
            self._members,
            key=lambda one: (one.id in judging, one.permissions.mode == "read", one.order),
        )

    def _other_than_coder(self) -> Member:
        others = [one for one in self._members if one.id != self._coder.id]
        return (others or list(self._members))[0]

    def _second_opinion(self) -> Member:
        """Not the coder; then not the reviewer; then of an agent that is neither's."""
        reviewer = self.member(REVIEWER)
        kinds = (reviewer.agent, self._coder.agent)
        return min(
            self._members,
            key=lambda one: (
                one.id == self._coder.id,
                one.id == reviewer.id,
                one.agent == kinds[0],
                one.agent in kinds,
            ),
        )

    def _security(self) -> Member:
        """Not the coder; then whoever has the least to review already."""
        busy = [self.member(REVIEWER).id, self.member("second_opinion").id]
        return min(
            self._members, key=lambda one: (one.id == self._coder.id, busy.count(one.id), one.order)
        )

    def _test_writer(self) -> Member:
        """Who may write and did not write the code; else who did."""
        able = [one for one in self._members if one.permissions.mode != "read"]
        others = [one for one in able if one.id != self._coder.id]
        return (others or [self._coder])[0]
