"""Answers with an option and a comment, and tickets as a table to choose from."""

from __future__ import annotations

import json

import pytest

import coterie
from coterie.cli.card import QuestionContext, card
from coterie.model.interaction import Interaction
from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, register_agents


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up()


def test_a_plan_is_approved_with_a_comment_and_a_report_names_the_ticket(
    project: TicketProject,
) -> None:
    asked = project("run", "--json", "Add coupons only-one")
    (plan,) = asked.of("interaction")
    assert (asked.code, plan["kind"], plan["about"]["kind"]) == (3, "Composite", "plan_approval")
    # A comment on the approval does not change the plan; it reaches the members who work on it.
    assert project("answer", plan["id"], "approve", "--say", "looked-at, please").code == 0
    worked = project("resume", "--json")
    assert any("looks right on a phone" in said["text"] for said in worked.of("message"))
    paths = (project.root / ".coterie").rglob("*-review.json")
    reviews = [json.loads(path.read_text()) for path in paths]
    assert [one["payload"]["notes"] for one in reviews if one["source"] == "you"] == [
        "looked-at, please"
    ]
    # The question about the report lists its tickets, one per row.
    report = worked.of("interaction")[-1]
    assert (report["kind"], report["content_kind"]) == ("Composite", "Table")
    assert json.loads(report["content"]) == [
        {"ticket": "T1", "state": "done", "who": "wren", "what": "Form", "checks": "none"}
    ]
    assert [one["id"] for one in report["options"]] == ["approve", "change", "stop", "T1"]
    assert "ticket  state  who   what  checks" in project("show", report["id"]).out
    assert project("answer", report["id"], "T1", "--say", "and a footer").code == 0
    again = project("resume", "--json").of("interaction")[-1]
    assert again["about"]["replaces"] is True
    assert "T1 (Form) is not done. and a footer" in again["about"]["why"]
    assert again["about"]["tickets"] == 2


DESIGN = {
    "interactionId": "q7",
    "taskId": "k3f9",
    "authorActorId": "ada",
    "kind": "Select",
    "purpose": "choose_strategy",
    "display": {
        "title": "Which one?",
        "content": [{"ticket": "T1", "what": "the model"}, {"ticket": "T2", "what": "the form"}],
        "contentKind": "Table",
    },
    "options": [
        {"id": "a", "label": "the first", "style": "default", "isDefault": True},
        {"id": "b", "label": "the second", "style": "danger"},
    ],
    "validation": {"required": True},
}
"""A question as written in the design."""


def test_a_question_is_read_as_the_design_spells_it() -> None:
    question = Interaction.model_validate(DESIGN)
    assert [(one.style, one.default) for one in question.options] == [
        ("plain", True),
        ("danger", False),
    ]
    shown = "\n".join(card(QuestionContext(question, "ada (claude)"), 80))
    assert "ticket  what" in shown
    assert "T2      the form" in shown
    assert "(default)" in shown
    # A serialized question can be parsed again and is equal.
    assert Interaction.model_validate_json(question.model_dump_json()) == question


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        ({"a": 1}, "Json", '{"a": 1}'),
        ([1, 2], "Json", "[1, 2]"),
        (None, "PlainText", ""),
        ("as it is", "PlainText", "as it is"),
    ],
)
def test_content_may_be_data(content: object, kind: str, text: str) -> None:
    read = coterie.Display.model_validate({"title": "x", "content": content})
    assert (read.content_kind, read.content) == (kind, text)
