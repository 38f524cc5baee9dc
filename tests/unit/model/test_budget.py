"""The limits of a budget, and what answers grant to them."""

from __future__ import annotations

import pytest

from coterie.model import instant
from coterie.model.about import BudgetReached, BudgetScope, Measure
from coterie.model.budget import Limit, granted_by
from coterie.model.interaction import Display, Interaction, Question, Response

TOKENS = Limit("task", "tokens", 500, "k3f9", "k3f9")
TODAY = "2031-01-02T09:00:00.000Z"


def question(
    task: str,
    whose: str,
    answer: str | None,
    scope: BudgetScope = "task",
    measure: Measure = "tokens",
    answered_at: str = TODAY,
) -> Question:
    about = BudgetReached(scope=scope, measure=measure, used=5, limit=5, member=whose)
    asked = Interaction(
        interaction_id="q1",
        task_id=task,
        author_actor_id="coterie",
        kind="Input",
        about=about,
        display=Display(title="", content=""),
    )
    response = Response(
        interaction_id="q1", task_id=task, author_actor_id="you", input_value=answer
    )
    return Question(asked, "", "answered", "", response, answered_at)


@pytest.mark.parametrize(
    ("limit", "asked", "granted"),
    [
        (TOKENS, question("k3f9", "k3f9", "+200k"), 200_000),
        (TOKENS, question("k3f9.1", "k3f9", "+7"), 7),  # a subtask asked
        (TOKENS, question("k3f9/T1", "k3f9/T1", "+7"), 7),  # recorded by an earlier release
        (TOKENS, question("k3f9", "k3f9", "stop"), 0),
        (TOKENS, question("k3f9", "k3f9", None), 0),  # closed
        (TOKENS, question("k3f9", "k3f9", "+7", measure="turns"), 0),
        (TOKENS, question("m2n4", "m2n4", "+7"), 0),
        (TOKENS._replace(scope="ticket"), question("k3f9/T1", "k3f9/T1", "+7", "ticket"), 0),
        (
            TOKENS._replace(scope="ticket", whose="k3f9/T1"),
            question("k3f9/T1", "k3f9/T1", "+7", "ticket"),
            7,
        ),
        (
            TOKENS._replace(scope="member", whose="ada"),
            question("k3f9.1", "ada", "+7", "member"),
            7,
        ),
        (
            TOKENS._replace(scope="member", whose="ada"),
            question("m2n4", "ada", "+7", "member"),
            0,
        ),
        (TOKENS._replace(scope="day", whose=""), question("m2n4", "", "+7", "day"), 7),
        (
            TOKENS._replace(scope="day", whose=""),
            question("k3f9", "", "+7", "day", answered_at="2031-01-01T23:59:59.999Z"),
            0,
        ),
    ],
)
def test_an_answer_raises_only_the_limit_that_it_was_asked_about(
    monkeypatch: pytest.MonkeyPatch, limit: Limit, asked: Question, granted: float
) -> None:
    monkeypatch.setattr(instant, "now", lambda: TODAY)
    assert limit.granted([asked]) == granted


def test_only_answers_about_budgets_grant_anything() -> None:
    asked = question("k3f9", "k3f9", "")
    assert granted_by(asked.interaction, "+3") == 3
    assert granted_by(asked.interaction, "") == 0
    assert granted_by(asked.interaction.model_copy(update={"about": None}), "+3") == 0
