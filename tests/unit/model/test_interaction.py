"""An answer fits its question, or is refused with the reason."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from coterie.errors import AnswerRefused
from coterie.model.interaction import (
    Display,
    Interaction,
    Kind,
    Option,
    Response,
    Validation,
    check,
    choose,
)


def question(kind: Kind, validation: Validation | None = None) -> Interaction:
    return Interaction(
        interaction_id="q4",
        task_id="k3f9",
        author_actor_id="ada",
        kind=kind,
        display=Display(title="Which?"),
        options=(Option(id="retry", label="again"), Option(id="replace-bob", label="bob")),
        validation=validation or Validation(),
    )


def response(option: str | None = None, text: str | None = None) -> Response:
    return Response(
        interaction_id="q4",
        task_id="k3f9",
        author_actor_id="you",
        selected_option_id=option,
        input_value=text,
    )


@pytest.mark.parametrize(
    ("choice", "meant"),
    [("retry", "retry"), ("2", "replace-bob"), ("rep", "replace-bob"), ("REP", "replace-bob")],
)
def test_a_choice_is_an_id_a_number_or_a_prefix(choice: str, meant: str) -> None:
    assert choose(question("Select"), choice) == meant


@pytest.mark.parametrize("choice", ["re", "", "0", "3", "²", "9" * 5000, "nope"])
def test_an_unclear_choice_is_refused_with_the_choices_named(choice: str) -> None:
    with pytest.raises(AnswerRefused, match="retry, replace-bob"):
        choose(question("Select"), choice)


@pytest.mark.parametrize("kind", ["Select", "Confirm", "Composite"])
def test_an_option_must_be_one_of_the_question(kind: Kind) -> None:
    check(question(kind), response("retry", "text"))
    with pytest.raises(AnswerRefused, match="needs a choice"):
        check(question(kind), response())
    with pytest.raises(AnswerRefused, match="has no choice 'x'"):
        check(question(kind), response("x"))


@pytest.mark.parametrize("kind", ["Input", "Composite"])
def test_text_is_checked_where_the_question_says_so(kind: Kind) -> None:
    strict = question(kind, Validation(regex="[0-9]+", required=True))
    check(strict, response("retry", "42"))
    with pytest.raises(AnswerRefused, match="needs some text"):
        check(strict, response("retry", "  "))
    with pytest.raises(AnswerRefused, match=r"matches \[0-9\]\+"):
        check(strict, response("retry", "42 or so"))
    check(question(kind, Validation(regex="[0-9]+")), response("retry", ""))


def test_the_wire_form_has_the_names_of_the_design() -> None:
    assert question("Select").model_dump(by_alias=True, mode="json") == snapshot(
        {
            "interactionId": "q4",
            "taskId": "k3f9",
            "authorActorId": "ada",
            "kind": "Select",
            "purpose": "generic",
            "display": {
                "title": "Which?",
                "description": "",
                "content": "",
                "contentKind": "PlainText",
            },
            "options": [
                {"id": "retry", "label": "again", "style": "plain", "default": False, "detail": ""},
                {
                    "id": "replace-bob",
                    "label": "bob",
                    "style": "plain",
                    "default": False,
                    "detail": "",
                },
            ],
            "validation": {"regex": None, "required": False, "meaning": "", "example": ""},
            "about": None,
        }
    )
    assert response("retry").model_dump(by_alias=True, mode="json") == snapshot(
        {
            "interactionId": "q4",
            "taskId": "k3f9",
            "authorActorId": "you",
            "selectedOptionId": "retry",
            "inputValue": None,
            "comment": None,
        }
    )


def test_a_tool_call_of_an_earlier_release_is_read() -> None:
    recorded = {
        "interactionId": "q1",
        "taskId": "k3f9",
        "authorActorId": "ada",
        "kind": "Confirm",
        "purpose": "confirm_risky_action",
        "display": {"title": "Run a command"},
        "risk": {"tool": "Bash", "cwd": "/w", "command": "make", "why": "", "said": "", "note": ""},
    }
    call = Interaction.model_validate(recorded).permission
    assert call is not None
    assert (call.tool, call.cwd, call.command, call.effect) == ("Bash", "/w", "make", "run")
