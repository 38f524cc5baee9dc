"""Who speaks next, and when a round is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model.conversation import Message, Rounds, mentioned, next_in_order, pick
from coterie.model.team import Member, MemberType, Team


def member(name: str, kind: MemberType = "ai", order: int = 0) -> Member:
    return Member(
        id=name,
        name=name,
        display_name=name.capitalize(),
        type=kind,
        order=order,
    )


TEAM = Team(
    name="t",
    members=(member("bob", order=2), member("alice", order=1), member("you", "human", order=3)),
)


def test_the_order_is_followed_and_wraps() -> None:
    assert [next_in_order(TEAM.in_order, name).id for name in ("alice", "bob", "you")] == [
        "bob",
        "you",
        "alice",
    ]


def test_somebody_from_outside_is_followed_by_the_first_ai() -> None:
    assert next_in_order(TEAM.in_order, "stranger").id == "alice"


def test_the_first_known_name_counts_and_unknown_ones_are_reported() -> None:
    found, unknown = pick(TEAM, ["nobody", "BOB", "alice"])
    assert (found and found.id, unknown) == ("bob", ("nobody",))
    assert pick(TEAM, ["x", "y"]) == (None, ("x", "y"))


def test_accents_may_be_written_either_way() -> None:
    jose = member("jo").model_copy(update={"display_name": "Jos\u00e9"})
    assert Team(name="t", members=(jose,)).find("jose\u0301") == jose


@pytest.mark.parametrize(
    ("said", "called"),
    [
        ("````\n```\n@bob\n```\n````", []),
        ("~~~\n```\n~~~\n@bob", ["bob"]),
        ("a ``x ` @bob`` b", []),
        ("Press ` first.\n\n@bob, look at `x`.", ["bob"]),
        ("x " + "`" * 20_000 + "a" * 20_000 + " @bob", ["bob"]),
    ],
)
def test_code_in_an_agents_message_mentions_nobody(said: str, called: list[str]) -> None:
    message = Message("k3f9", 1, "alice", said, "")
    assert [one.id for one in mentioned(TEAM, message)] == called


speakers = st.lists(st.sampled_from(["alice", "bob", "you", None]))


@given(speakers)
def test_a_round_is_over_when_every_ai_has_spoken_since_a_human_did(said: list[str | None]) -> None:
    rounds = Rounds(frozenset({"alice", "bob"}))
    spoken: set[str] = set()
    over = 0
    for name in said:
        rounds = rounds.after(TEAM.get(name) if name else None)
        if name in (None, "you"):
            spoken, over = set(), 0
        else:
            assert name is not None
            spoken.add(name)
            if spoken == {"alice", "bob"}:
                spoken, over = set(), over + 1
        assert rounds.over == over


@given(st.lists(st.text(max_size=8), max_size=5), st.sampled_from(["alice", "bob", "you", "zoe"]))
def test_there_is_always_a_next_speaker(names: list[str], speaker: str) -> None:
    found, _ = pick(TEAM, names)
    assert (found or next_in_order(TEAM.in_order, speaker)) in TEAM.members
