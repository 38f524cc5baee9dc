"""What a project's live state retains of a task."""

from __future__ import annotations

import pytest

from coterie.model.record import DeltaRecord, MemberRecord
from coterie.web.live import Live


@pytest.mark.parametrize("part", ["k3f9", "k3f9/T1", "k3f9/T1.2", "k3f9.1"])
def test_nothing_is_left_of_a_run_that_ended(part: str) -> None:
    live = Live(lambda: None)
    for task in (part, "k3f91"):
        live.on_record("k3f9", MemberRecord(task, "ada", "working"))
        live.on_record("k3f9", DeltaRecord(task, "ada", "hello"))
    live.ended("k3f9")
    assert [one.task for one in live.texts()] == ["k3f91"]
    assert [one.task for one in live.members()] == ["k3f91"]
