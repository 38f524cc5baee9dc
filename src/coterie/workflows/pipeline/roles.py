"""Who fills which role of a pipeline: as the team says, else by what makes reviews independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.model.team import Member, Team

WORKSHOP = ("product", "system", "senior_developer", "test", "risk", "design", "file_impact")
"""The roles that plan together."""
CODING = ("codegen", "test_codegen")
REVIEWING = ("plan_review", "review", "security")
CHAIRING = ("planning", "planning_meeting", "review_meeting")
SECOND_OPINION = "second_opinion"
DEBRIEF = "debrief"


def fill_roles(team: Team, stated: Mapping[str, str] | None = None) -> dict[str, Member]:
    """The member in each role.  One member alone fills all; of several, whoever codes reviews
    nothing, and the second opinion comes from another kind of agent where there is one."""
    stated = stated or {}
    members = team.ai_members
    named = {role: team.member(member) for role, member in stated.items()}
    coder = named.get("codegen") or members[0]
    others = [one for one in members if one.id != coder.id] or [coder]
    reviewer = named.get("review") or others[0]
    filled = {role: members[place % len(members)] for place, role in enumerate(WORKSHOP)}
    filled |= dict.fromkeys(CODING, coder)
    filled |= dict.fromkeys(REVIEWING, reviewer)
    filled |= dict.fromkeys(CHAIRING, members[0])
    filled |= {SECOND_OPINION: _second(others, reviewer), DEBRIEF: reviewer}
    return filled | named


def _second(others: Sequence[Member], reviewer: Member) -> Member:
    """Who is least like the reviewer among those who did not write the code."""
    return min(
        others, key=lambda one: (one.agent == reviewer.agent, one.id == reviewer.id, one.order)
    )
