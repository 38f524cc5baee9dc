"""One attempt at a turn: how a denied tool call is recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.engine.attempt import Attempt
from coterie.model.journal import Step
from coterie.model.team import Member
from coterie.model.tool_call import AuditEntry
from coterie.model.update import PendingCall, ToolCallFinished, ToolCallStarted

STEP = Step("k3f9", "turn/1", "turn", "", "")
ADA = Member(id="ada", name="ada", display_name="Ada", agent="claude")


@pytest.mark.parametrize("call_id", ["c1", "call#7"])
def test_a_refused_call_is_kept_as_denied_whatever_its_agent_says(call_id: str) -> None:
    attempt = Attempt(STEP, True, ADA, 1, 1, 1)
    attempt.tool_call(ToolCallStarted(call_id, "shell", {"command": "make"}))
    attempt.ask(PendingCall(call_id, "shell", {"command": "make"}, "/w", number=2))
    attempt.deny(call_id, "use ninja")
    ended = ToolCallFinished(call_id, is_error=False, output={"code": 0})
    entry, record = attempt.tool_call(ended)
    assert replace(entry, timestamp="", duration_ms=None) == AuditEntry(
        "ToolCallCompleted", call_id, "shell", "ada", "k3f9", "",
        output={"code": 0, "denied": "use ninja"}, is_error=True,
    )  # fmt: skip
    assert (record.denied, record.is_error) == ("use ninja", True)
    assert attempt.calls_not_run() == []


def test_a_call_of_the_same_id_later_is_another() -> None:
    attempt = Attempt(STEP, True, ADA, 1, 1, 1)
    attempt.deny("c1", "no")
    attempt.tool_call(ToolCallFinished("c1", is_error=True))
    entry, record = attempt.tool_call(ToolCallFinished("c1", is_error=False))
    assert (entry.output, record.denied) == ({}, "")
