"""The state of a task follows from its events, and only valid transitions are accepted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model import instant
from coterie.model.interaction import Display, Interaction, Response
from coterie.model.task import (
    ENDED,
    EVENT,
    Caps,
    Event,
    IllegalEvent,
    TaskCanceled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskStarted,
    TaskState,
    UserInteractionRequested,
    UserInteractionResponded,
    after,
    fold,
    is_below,
    leased_as,
    session_of,
)
from coterie.model.team import Member, Team

AT = instant.parse("2026-01-31T12:00:00Z")
TEAM = Team(name="t", members=(Member(id="a", name="a", display_name="A"),))
CREATED = TaskCreated(
    task_id="k3f9",
    at=AT,
    session_id="k3f9",
    workflow="chat",
    workflow_version=1,
    goal="hello",
    author="you",
    team=TEAM,
)


def asked(number: int) -> UserInteractionRequested:
    question = Interaction(
        interaction_id=f"q{number}",
        task_id="k3f9",
        author_actor_id="a",
        kind="Input",
        display=Display(title="?"),
    )
    return UserInteractionRequested(task_id="k3f9", at=AT, interaction=question)


def answered(number: int) -> UserInteractionResponded:
    response = Response(interaction_id=f"q{number}", task_id="k3f9", author_actor_id="you")
    return UserInteractionResponded(task_id="k3f9", at=AT, response=response)


events = st.one_of(
    st.just(TaskStarted(task_id="k3f9", at=AT)),
    st.just(TaskCompleted(task_id="k3f9", at=AT, reason="ended")),
    st.just(TaskFailed(task_id="k3f9", at=AT, reason="x", message="y")),
    st.just(TaskCanceled(task_id="k3f9", at=AT)),
    st.integers(1, 3).map(asked),
    st.integers(1, 3).map(answered),
)


@given(st.lists(events, max_size=12))
def test_the_fold_holds_its_rules_whatever_comes(attempts: list[Event]) -> None:
    state: TaskState = fold([CREATED])
    history: list[Event] = [CREATED]
    for event in attempts:
        try:
            state = after(state, event)
        except IllegalEvent:
            continue
        history.append(event)
        assert (state.status == "waiting") == bool(state.open_questions)
        if state.status in ENDED:
            assert not state.open_questions
    assert fold(history) == state
    ends = [
        event for event in history if event.type in ("TaskCompleted", "TaskFailed", "TaskCanceled")
    ]
    assert len(ends) <= 1


@given(st.lists(events, max_size=6))
def test_events_read_back_as_they_were_written(some: list[Event]) -> None:
    for event in [CREATED, *some]:
        assert EVENT.validate_json(event.model_dump_json()) == event


def test_a_task_is_created_once_and_first() -> None:
    with pytest.raises(IllegalEvent, match="twice"):
        fold([CREATED, CREATED])
    with pytest.raises(IllegalEvent, match="before TaskCreated"):
        fold([TaskStarted(task_id="k3f9", at=AT)])
    with pytest.raises(IllegalEvent, match="without"):
        fold([])


def test_a_fields_of_a_newer_release_are_passed_over() -> None:
    raw = '{"type":"TaskStarted","task_id":"k","at":"2026-01-31T12:00:00Z","new":{"x":1}}'
    assert EVENT.validate_json(raw) == TaskStarted(task_id="k", at=AT)


@pytest.mark.parametrize(
    ("task_id", "lease", "session"),
    [
        ("k3f9", "k3f9", "k3f9"),
        ("k3f9.1", "k3f9.1", "k3f9"),
        ("k3f9.1.2", "k3f9.1.2", "k3f9"),
        ("k3f9/T1", "k3f9", "k3f9"),
        ("k3f9/T1.2", "k3f9/T1.2", "k3f9"),  # a turn on a ticket that was handed out
        ("k3f9/T1.2.1", "k3f9/T1.2.1", "k3f9"),
    ],
)
def test_what_an_id_says_about_a_task(task_id: str, lease: str, session: str) -> None:
    assert (leased_as(task_id), session_of(task_id)) == (lease, session)
    assert is_below(task_id, "k3f9") is (task_id != "k3f9")
    assert is_below(f"{task_id}.1", task_id)
    assert not is_below(task_id, task_id)
    assert not is_below(f"{task_id}1", task_id)


@pytest.mark.parametrize(
    ("given", "by_turns", "by_mention"),
    [
        ({}, 1, None),
        ({"yes": True, "floor": "ask"}, 1, None),
        ({"max_turns": 6}, None, None),
        ({"max_rounds": 2}, 2, 2),
        ({"max_rounds": 1}, 1, 1),
        ({"max_turns": 6, "max_rounds": 2}, 2, 2),
    ],
)
def test_a_chat_has_one_round_unless_turns_are_capped_or_nobody_has_a_fixed_place(
    given: dict[str, Any], by_turns: int | None, by_mention: int | None
) -> None:
    free = TEAM.model_copy(update={"routing": "mention"})
    for team, rounds in ((TEAM, by_turns), (free, by_mention)):
        caps = Caps(**given).in_team(team)
        assert Caps.of(team, **given) == caps == Caps(**{**given, "max_rounds": rounds})
        stored = Caps.model_validate_json(caps.model_dump_json())
        assert stored == stored.in_team(free) == caps


def test_no_cap_at_all_stays_none() -> None:
    assert Caps(max_rounds=None).in_team(TEAM).max_rounds is None
