"""The roles of a pipeline, and the member of a team that fills each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from coterie.errors import NotFound
from coterie.model.team import Member, Team

CODER = "codegen"
REVIEWER = "review"
WORKSHOP = ("product", "system", "senior_developer", "test", "risk", "design", "file_impact")
"""The roles whose notes go into a plan; they do not depend on each other."""
REVIEWING = ("plan_review", REVIEWER, "second_opinion", "security")
"""The roles that review: not filled by the coder if anyone else is available."""

PIPELINE_ROLES: Mapping[str, str] = {
    "product": "says what the change is for and where it ends",
    "system": "knows how the parts of the project fit together",
    "senior_developer": "says how the change can be made simply",
    "test": "says how to verify the change",
    "risk": "says what could go wrong",
    "design": "says how the change fits into the project",
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
    """A mistake in the assignment of a role."""

    role: str
    problem: str


def role_mistakes(roles: Mapping[str, str], members: Sequence[Member]) -> Iterator[RoleMistake]:
    """The mistakes in a team's `roles`, given its members."""
    able = [member.id for member in members if member.type == "ai"]
    people = [member.id for member in members if member.type != "ai"]
    for role, named in roles.items():
        if role not in PIPELINE_ROLES:
            yield RoleMistake(role, f"is not a role; known roles: {', '.join(PIPELINE_ROLES)}")
        elif named in people:
            yield RoleMistake(role, f"names {named}, a person; roles are filled by agents")
        elif named not in able:
            yield RoleMistake(role, f"names no known member: {named}; there are {', '.join(able)}")
    coder = roles.get(CODER)
    for role in (REVIEWER, "second_opinion"):
        if coder in able and roles.get(role) == coder and len(able) > 1:
            others = ", ".join(one for one in able if one != coder)
            yield RoleMistake(role, f"names {coder}, who writes the code; use {others}")


class FilledRoles:
    """The member that fills each role of a pipeline in one team."""

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
        """The member that fills a role.  Raises NotFound if there is no such role."""
        if role not in PIPELINE_ROLES:
            known = ", ".join(PIPELINE_ROLES)
            raise NotFound(f'There is no role "{role}". The roles are: {known}.')
        stated = self._stated.get(role)
        if stated is not None:
            return stated
        if role in WORKSHOP:
            # Spread over all members: independent roles can then be asked concurrently.
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
        """Prefer members without an assigned review role, then those that may write."""
        judging = [self._stated[role].id for role in REVIEWING if role in self._stated]
        return min(
            self._members,
            key=lambda one: (one.id in judging, one.permissions.mode == "read", one.order),
        )

    def _other_than_coder(self) -> Member:
        others = [one for one in self._members if one.id != self._coder.id]
        return (others or list(self._members))[0]

    def _second_opinion(self) -> Member:
        """Avoid the coder, then the reviewer, then members on either's agent."""
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
        """Avoid the coder, then prefer the member with the fewest reviews."""
        busy = [self.member(REVIEWER).id, self.member("second_opinion").id]
        return min(
            self._members, key=lambda one: (one.id == self._coder.id, busy.count(one.id), one.order)
        )

    def _test_writer(self) -> Member:
        """A member that may write but is not the coder; otherwise the coder."""
        able = [one for one in self._members if one.permissions.mode != "read"]
        others = [one for one in able if one.id != self._coder.id]
        return (others or [self._coder])[0]
