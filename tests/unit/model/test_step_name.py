"""Step names are built and parsed in one place, and recorded names parse back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model import step_name
from coterie.model.step_name import PermissionKey, parse

WORDS = st.text(st.characters(exclude_characters="/@", exclude_categories=["Cs"]), min_size=1)


@given(WORDS, st.integers(1, 9), st.text(min_size=1).filter(lambda s: "/asked/" not in s), WORDS)
def test_a_permission_is_read_back(step: str, attempt: int, call: str, member: str) -> None:
    name = parse(step_name.permission(step, attempt, call, member))
    assert name.asked_in == step
    assert name.subject == PermissionKey(attempt, call, member)
    assert not name.is_own


def test_the_budget_of_a_ticket_is_asked_about_there() -> None:
    name = parse(step_name.budget("ticket", "usd", "k3f9/T2", 2.5, 1))
    assert (name.ticket, name.is_own, name.subject) == ("T2", False, None)
    assert parse(step_name.budget("day", "turns", "", 3, 1)).ticket is None


def test_turns() -> None:
    assert [parse(step_name.turn(4, tries)).text for tries in (0, 2)] == [
        "turn/4",
        "turn/4/again/2",
    ]


def test_tickets() -> None:
    worker, manager = (
        parse(make("T2", 5, "work")) for make in (step_name.ticket, step_name.manager)
    )
    assert (worker.ticket, worker.topic, manager.ticket, manager.topic) == ("T2", "T2", "T2", "")
    assert parse(step_name.ticket("T2", 5, "failed")).is_failed_ticket
    assert not parse(step_name.ticket("T2", 5, "work/said/1")).is_failed_ticket
    assert parse(step_name.history("T2", 3)).ticket == "T2"
    assert parse(step_name.check(step_name.ticket("T2", 5, "review"), 1)).is_check


@pytest.mark.parametrize("tries", [1, 2])
def test_every_turn_of_a_role_in_a_pipeline_belongs_to_its_thread(tries: int) -> None:
    """Recorded names stay as they are, so their text is here too."""
    step = step_name.again(step_name.pipeline_step(3, "codegen", 2), tries)
    turn = step_name.ask(step, "codegen", "codegen_intent")
    repeated = step_name.ask(step_name.ask_again(step, "codegen", 2), "codegen", "codegen_intent")
    middle = "" if tries == 1 else "/again/2"
    assert [turn, repeated] == [
        f"phase/3/step/codegen/2{middle}/ask/codegen/codegen_intent",
        f"phase/3/step/codegen/2{middle}/ask/codegen/again/2/ask/codegen/codegen_intent",
    ]
    assert [parse(one).topic for one in (turn, repeated)] == ["codegen", "codegen"]


def test_what_the_engine_asks_for() -> None:
    question = step_name.asked("turn/2", "ask.1")
    assert parse(question).asked_in == "turn/2"
    assert parse(step_name.subtask(question)).is_subtask
    assert parse(step_name.superseded(5) + step_name.subtask(question)).is_subtask
    assert parse(step_name.workflow_changed("turn/2", "ab12")).changed == "turn/2"
    assert parse(step_name.workflow_changed("turn/2", "ab12", 2)).changed == "turn/2"
    assert parse(step_name.superseded(9) + "turn/2").is_superseded
    assert parse("anything/of/another").is_own
