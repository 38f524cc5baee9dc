"""Rate limits: turns of a member in any minute, counted over all its instances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coterie.engine.lease import FlockOwners
from coterie.engine.limits import RateLimiter, sleep_until
from coterie.engine.questions import NEVER, Questions
from coterie.engine.task_run import RedactingObserver, TaskRun
from coterie.model import instant
from coterie.model.journal import Fence, Journal
from coterie.model.record import MemberRecord
from coterie.model.redaction import Redactor
from coterie.model.task import TaskCreated
from coterie.model.team import Member, Team
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.scripted import Recorder, ScriptedChannels


class Clock:
    """A clock that only advances while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def member(name: str, **metadata: object) -> Member:
    return Member(id=name, name=name, display_name=name, agent="x", metadata=metadata)


async def task_run(recorder: Recorder, storage: SqliteStorage) -> TaskRun:
    created = TaskCreated(
        task_id="k3f9",
        at="2026-01-01T00:00:00Z",
        session_id="k3f9",
        workflow="chat",
        workflow_version=1,
        goal="",
        author="you",
        team=Team(name="t", members=()),
    )
    channels = ScriptedChannels(lambda member, prompt: "")
    assert await storage.create(created, "me", None) == Fence("k3f9", 1)
    seen = RedactingObserver(recorder, Redactor())
    run = created, Fence("k3f9", 1), storage, channels, seen, None, Journal("k3f9", ()), []
    return TaskRun(*run, owners=FlockOwners(Path("owners"), "here"))


async def test_the_third_turn_of_two_a_minute_waits_and_says_so() -> None:
    recorder, clock = Recorder(), Clock()
    storage = await SqliteStorage.in_memory()
    run = await task_run(recorder, storage)
    pace = RateLimiter(run, Questions(run), clock, clock.sleep)
    wren = member("wren", rate_limit={"turns_per_minute": 2})
    await pace.begin(wren, NEVER)
    clock.now += 10
    await pace.begin(wren.model_copy(update={"id": "wren#2"}), NEVER)
    await pace.begin(member("finn"), NEVER)  # has no limit
    assert clock.slept == []
    await pace.begin(wren, NEVER)
    await pace.begin(wren, NEVER)
    assert clock.slept == [50.0, 10.0]
    told = [record for record in recorder.records if isinstance(record, MemberRecord)]
    assert [(one.member, one.state, one.waits_for) for one in told] == [
        ("wren", "waiting", "limit"),
        ("wren", "waiting", "limit"),
    ]
    left = [instant.seconds_until(one.until or "") for one in told]
    assert left == [pytest.approx(50, abs=5), pytest.approx(10, abs=5)]
    await storage.close()


async def test_a_wait_for_an_instant_ends_soon_after_the_machine_was_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, clock = datetime(2031, 1, 1, tzinfo=UTC), Clock()
    monkeypatch.setattr(instant, "now", lambda: instant.of(start + timedelta(seconds=clock.now)))

    async def suspended(seconds: float) -> None:
        await clock.sleep(seconds)
        if len(clock.slept) == 2:
            clock.now += 8 * 3600

    await sleep_until(instant.of(start + timedelta(seconds=100 + 8 * 3600 + 70)), suspended)
    assert clock.slept == [30.0, 30.0, 10.0]
    await sleep_until(instant.of(start), suspended)
    assert len(clock.slept) == 3


def test_metadata_that_says_nothing_is_no_limit() -> None:
    for metadata in ({}, {"rate_limit": 4}, {"rate_limit": {"turns_per_minute": "4"}}):
        assert member("wren", **metadata).turns_per_minute is None
