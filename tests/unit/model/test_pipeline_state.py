"""What the result of a step decides, and how it is read back from the journal."""

from __future__ import annotations

import pytest

from coterie.model.pipeline_state import StepResult


@pytest.mark.parametrize(
    ("actions", "command", "needs_user"),
    [
        (("codegen",), "codegen", False),
        (("ask_user",), None, True),
        (("call_review",), None, False),
    ],
)
def test_only_results_of_before_decide_by_what_they_suggest(
    actions: tuple[str, ...], command: str | None, *, needs_user: bool
) -> None:
    made = StepResult(actions=actions)
    assert StepResult.stored(made.model_dump(mode="json")) == made
    assert (made.command, made.needs_user) == (None, False)
    before = made.model_dump(mode="json", exclude={"command", "needs_user"})
    read = StepResult.stored(before)
    assert (read.command, read.needs_user) == (command, needs_user)
