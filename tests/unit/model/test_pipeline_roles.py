"""Which member fills each role of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie.errors import NotFound
from coterie.model.pipeline_roles import (
    PIPELINE_ROLES,
    REVIEWING,
    WORKSHOP,
    FilledRoles,
    role_mistakes,
)
from coterie.model.team import Member, Permissions, Team


def member(given: str, order: int) -> Member:
    """A member from `ada:claude` or `rex:codex:read`; a person if no agent is given."""
    id_, agent, mode = (*given.split(":"), "", "")[:3]
    return Member.model_validate(
        {
            "id": id_,
            "name": id_,
            "displayName": id_,
            "order": order,
            "type": "ai" if agent else "human",
            "agentConfigId": agent or None,
            "permissions": Permissions(mode="read") if mode else Permissions(),
        }
    )


def team(members: str, roles: Mapping[str, str] | None = None) -> Team:
    made = tuple(member(one, place) for place, one in enumerate(members.split(), 1))
    return Team(name="t", members=made, roles=roles or {})


def test_one_member_fills_all() -> None:
    filled = FilledRoles(team("ada:claude you"))
    assert {filled.member(role).id for role in PIPELINE_ROLES} == {"ada"}


@pytest.mark.parametrize("members", ["ada:claude rex:codex:read", "rex:codex:read ada:claude"])
def test_with_two_the_reviewer_is_never_the_coder(members: str) -> None:
    filled = FilledRoles(team(members))
    assert filled.member("codegen").id == filled.member("test_codegen").id == "ada"
    assert {filled.member(role).id for role in REVIEWING} == {"rex"}
    assert {filled.member(role).id for role in WORKSHOP} == {"ada", "rex"}


@pytest.mark.parametrize(
    ("members", "roles", "wanted"),
    [
        # review, second_opinion, security
        ("ada:claude bob:claude rex:codex", {}, ("bob", "rex", "bob")),
        ("ada:claude rex:codex bob:claude", {}, ("rex", "bob", "rex")),
        ("ada:claude rex:codex dan:codex gem:gemini", {}, ("rex", "gem", "dan")),
        ("ada:claude rex:codex", {"second_opinion": "rex"}, ("rex", "rex", "rex")),
        ("ada:claude rex:codex", {"review": "ada"}, ("ada", "ada", "ada")),
        ("ada:claude rex:codex", {"codegen": "rex"}, ("ada", "ada", "ada")),
        ("ada:claude rex:codex bob:claude", {"security": "bob"}, ("rex", "bob", "bob")),
    ],
)
def test_the_second_opinion_is_independent(
    members: str, roles: Mapping[str, str], wanted: tuple[str, str, str]
) -> None:
    filled = FilledRoles(team(members, roles))
    asked = ("review", "second_opinion", "security")
    assert tuple(filled.member(role).id for role in asked) == wanted
    assert filled.member("codegen").id not in wanted


def test_tests_are_written_by_somebody_else_who_may_write() -> None:
    assert FilledRoles(team("a:x b:y:read c:z")).member("test_codegen").id == "c"


@pytest.mark.parametrize(
    ("roles", "problem"),
    [
        ({"revew": "rex"}, ("revew", "is not a role; known roles: product")),
        ({"review": "bob"}, ("review", "names no known member: bob; there are ada, rex")),
        ({"review": "you"}, ("review", "names you, a person")),
        ({"codegen": "ada", "review": "ada"}, ("review", "names ada, who writes the code")),
    ],
)
def test_a_role_that_nobody_can_fill_is_a_mistake(
    roles: Mapping[str, str], problem: tuple[str, str]
) -> None:
    [found] = role_mistakes(roles, team("ada:claude rex:codex you").members)
    assert found.role == problem[0]
    assert found.problem.startswith(problem[1])


def test_one_member_may_be_named_for_all() -> None:
    assert [*role_mistakes({"codegen": "ada", "review": "ada"}, team("ada:claude").members)] == []


def test_nobody_fills_a_role_that_there_is_not() -> None:
    with pytest.raises(NotFound, match="no role"):
        FilledRoles(team("ada:claude")).member("cook")
    with pytest.raises(NotFound, match="no member with an agent"):
        FilledRoles(team("you"))
