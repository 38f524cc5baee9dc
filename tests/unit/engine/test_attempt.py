"""One attempt at a turn: how a denied tool call is recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.engine.attempt import Attempt
from coterie.model.journal import Step
from coterie.model.team import Member
from coterie.model.tool_call import AuditEntry
from coterie.model.update import ToolCallFinished, ToolCallStarted

STEP = Step("k3f9", "turn/1", "turn", "", "")
ADA = Member(id="ada", name="ada", display_name="Ada", agent="claude")


@pytest.mark.parametrize("asked_about", ["c1", "c1#2"])
def test_a_refused_call_is_kept_as_denied_whatever_its_agent_says(asked_about: str) -> None:
    attempt = Attempt(STEP, True, ADA, 1, 1, 1)
    attempt.tool_call(ToolCallStarted("c1", "shell", {"command": "make"}))
    attempt.deny(asked_about, "use ninja")
    entry, record = attempt.tool_call(ToolCallFinished("c1", is_error=False, output={"code": 0}))
    assert replace(entry, timestamp="", duration_ms=None) == AuditEntry(
        "ToolCallCompleted", "c1", "shell", "ada", "k3f9", "",
        output={"code": 0, "denied": "use ninja"}, is_error=True,
    )  # fmt: skip
    assert (record.denied, record.is_error) == ("use ninja", True)


def test_a_call_of_the_same_id_later_is_another() -> None:
    attempt = Attempt(STEP, True, ADA, 1, 1, 1)
    attempt.deny("c1", "no")
    attempt.tool_call(ToolCallFinished("c1", is_error=True))
    entry, record = attempt.tool_call(ToolCallFinished("c1", is_error=False))
    assert (entry.output, record.denied) == ({}, "")
