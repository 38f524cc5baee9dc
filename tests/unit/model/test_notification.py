"""Notifications about questions and about finished tasks."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from coterie.model.interaction import Interaction, Question, Validation
from coterie.model.notification import MOST, of_end, of_question
from coterie.model.task import TaskCompleted, TaskCreated, TaskStarted, fold
from coterie.testing.contracts.samples import at, created
from tests.cli.recorded import plain, wants_to_run


def question(asked: Interaction) -> Question:
    return Question(asked, "turn/1", "open", at(1))


def task(**more: str) -> TaskCreated:
    return created(**more)


def test_each_choice_comes_with_its_command() -> None:
    told = of_question(
        question(wants_to_run("q4", "npm ci", rule="run(npm ci)")), task(), "/my shop"
    )
    assert told.question is not None
    assert (told.text, told.command) == snapshot(
        ("q4: ada wants to run: npm ci", "coterie answer -C '/my shop' q4 once|deny|task|rule")
    )
    assert [(one.id, one.label, one.command) for one in told.question.choices] == snapshot(
        [
            ("approve", "once", "coterie answer -C '/my shop' q4 once"),
            ("reject", "deny", "coterie answer -C '/my shop' q4 deny"),
            ("task", "this task", "coterie answer -C '/my shop' q4 task"),
            ("rule", "rule", "coterie answer -C '/my shop' q4 rule"),
        ]
    )


@pytest.mark.parametrize(
    ("required", "command"),
    [
        (False, "coterie answer -C /shop q1 left"),
        (True, 'coterie answer -C /shop q1 left --say "…"'),
    ],
)
def test_a_choice_that_needs_text_says_so(*, required: bool, command: str) -> None:
    asked = plain("q1", "Composite", "left").model_copy(
        update={"validation": Validation(required=required)}
    )
    told = of_question(question(asked), task(), "/shop").question
    assert told is not None
    assert told.choices[0].command == command


def test_what_agents_wrote_is_one_line_that_steers_nothing_and_has_an_end() -> None:
    begun = task(goal="\n\x1b[2J Mend it\nand more")
    summary = "a\n" * 1000
    events = [
        begun,
        TaskStarted(task_id=begun.task_id, at=at(1)),
        TaskCompleted(task_id=begun.task_id, at=at(1), reason="done", summary=summary),
    ]
    told = of_end(fold(events), "/shop")
    assert told.title == "<U+001B>[2J Mend it"
    assert told.ended is not None
    assert (len(told.ended.summary), told.ended.summary[-1]) == (MOST, "…")
    asked = wants_to_run("q4", "x" * 1000)
    assert len(of_question(question(asked), begun, "/shop").text) == len("q4: ") + MOST
