"""The team model that the rest of the code uses."""

from __future__ import annotations

import pytest

from coterie.agents.table import KNOWN_AGENTS
from coterie.errors import NotFound
from coterie.model.team import YOU, Member, Team, breaks_isolation, is_instance_of, safe_name

ANN = Member(id="ann", name="first", display_name="Zoe", order=2, agent="x")
BOB = Member(id="bob", name="ann2", display_name="Ann Two", order=1, type="human")
TEAM = Team(name="t", members=(ANN, BOB))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ann", ANN),
        ("ANN", ANN),
        (" Ann ", ANN),
        ("first", ANN),
        ("zoe", ANN),
        ("ANN2", BOB),
        ("ann two", BOB),
        ("nobody", None),
        ("", None),
    ],
)
def test_members_are_found_by_any_of_their_names(name: str, found: Member | None) -> None:
    assert TEAM.find(name) == found


def test_an_id_counts_before_a_name_and_a_name_before_a_display_name() -> None:
    one = Member(id="x", name="b", display_name="c")
    two = Member(id="b", name="c", display_name="x")
    team = Team(name="t", members=(one, two))
    assert [team.find(name) for name in ("x", "b", "c")] == [one, two, two]


def test_in_order() -> None:
    assert TEAM.in_order == (BOB, ANN)
    assert TEAM.ai_members == (ANN,)


@pytest.mark.parametrize(
    ("author", "is_person"),
    [("bob", True), (YOU, True), ("somebody", True), ("ann", False), ("ann#2", False)],
)
def test_whoever_is_not_an_ai_member_speaks_as_a_person(author: str, *, is_person: bool) -> None:
    assert TEAM.is_person(author) is is_person


def test_the_humans_have_the_floor_else_the_user() -> None:
    assert TEAM.people == (BOB,)
    (user,) = TEAM.model_copy(update={"members": (ANN,)}).people
    assert (user.id, user.type) == (YOU, "human")


def test_the_instances_of_a_member_are_itself_and_the_numbered_ones() -> None:
    instances = ("wren", "wren#2", "wren2", "finn")
    assert [one for one in instances if is_instance_of("wren", one)] == ["wren", "wren#2"]
    assert [one for one in instances if is_instance_of("wren#2", one)] == ["wren#2"]


def test_a_member_by_its_id_alone() -> None:
    assert TEAM.member("ann") is ANN
    with pytest.raises(NotFound, match=r'^No member "first" in team t\. Here: ann, bob\.$'):
        TEAM.member("first")


def test_a_task_reads_back_the_team_it_kept() -> None:
    assert Team.model_validate_json(TEAM.model_dump_json()) == TEAM
    newer = {**TEAM.model_dump(), "fieldOfTheNextRelease": 1}
    assert Team.model_validate(newer) == TEAM


def test_a_kept_team_has_no_secrets_and_gets_them_back() -> None:
    secret = ANN.model_copy(update={"env": {"KEY": "sk-1", "B": "2"}})
    team = Team(name="t", members=(secret, BOB))
    assert "sk-1" not in team.sealed().model_dump_json()
    assert "sk-1" not in repr(team)
    assert team.sealed().unsealed(team) == team
    with pytest.raises(NotFound) as caught:
        team.sealed().unsealed(TEAM)
    assert str(caught.value) == (
        "ann was started with KEY, B in its env, which team t no longer gives it."
    )


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "9", "x" * 64])
def test_names_that_may_be_folders(name: str) -> None:
    assert safe_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "-x", "_x", "a/b", "a\n", "a b", "é", "x" * 65, "a\0"]
)
def test_names_that_may_not(name: str) -> None:
    assert not safe_name(name)


def test_variables_that_break_isolation() -> None:
    isolating = KNOWN_AGENTS.isolating(None)
    broken = ["HOME", "TMPDIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "COTERIE_X"]
    assert all(breaks_isolation(variable, isolating) for variable in broken)
    harmless = ["PATH", "ANTHROPIC_API_KEY", "HOMEPAGE"]
    assert not any(breaks_isolation(variable, isolating) for variable in harmless)
