"""Tickets that wait too long: one announcement per stall; and changes at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from coterie.model import instant
from coterie.model.envelope import Envelope, Plan, PlanTask, Report
from coterie.model.journal import AppendEnvelope, PutTicket, Write
from coterie.model.record import ErrorRecord, Record
from coterie.model.task import TaskCreated
from coterie.ports import Context
from coterie.testing.scripted import team
from coterie.workflows.tickets.scheduler import StallWatch
from coterie.workflows.tickets.ticket_run import SessionServices


@dataclass
class FakeContext:
    """The part of a context that a board needs."""

    now: str = "2026-01-01T12:00:00.000Z"
    root: Path = Path("/shop")
    envelopes: list[Envelope] = field(default_factory=list[Envelope])
    records: list[Record] = field(default_factory=list[Record])
    states: dict[str, str] = field(default_factory=dict[str, str])

    async def record(
        self, name: str, intent: object, writes: Callable[[str], Sequence[Write]]
    ) -> str:
        made = writes(self.now)
        await anyio.lowlevel.checkpoint()  # others write meanwhile
        for one in made:
            if isinstance(one, PutTicket):  # a store refuses anything else
                assert self.states.get(one.ticket.id) == one.before
                self.states[one.ticket.id] = one.ticket.state
        self.envelopes += [w.envelope for w in made if isinstance(w, AppendEnvelope)]
        return self.now

    def has_child(self, task_id: str) -> bool:
        return True

    def tell(self, record: Record) -> None:
        self.records.append(record)

    @property
    def alarms(self) -> list[str]:
        return [one.message for one in self.records if isinstance(one, ErrorRecord)]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> FakeContext:
    made = FakeContext()
    monkeypatch.setattr(instant, "now", lambda: made.now)
    return made


async def session_of(context: FakeContext, **dependencies: tuple[str, ...]) -> SessionServices:
    created = TaskCreated(
        task_id="k3f9",
        at=context.now,
        session_id="k3f9",
        workflow="tickets",
        workflow_version=1,
        goal="",
        author="you",
        team=team("mira", "wren"),
    )
    services = SessionServices(created, cast("Context", context))
    parts = [
        PlanTask(task_id=name, description=name, dependencies=after)
        for name, after in dependencies.items()
    ]
    plan = Plan(tasks=tuple(parts))
    await services.tracker.adopt(plan, "mira")
    return services


async def test_what_stands_still_is_announced_once_for_each_that_waits(
    context: FakeContext,
) -> None:
    session = await session_of(context, a=(), b=("a",), c=("a",), d=("b",))
    board, stalls = session.tracker, StallWatch(session)
    assert await stalls.announce(900) == 900  # nothing has started
    await board.move("T1", "in_progress", "go", owner="wren")
    context.now = "2026-01-01T12:10:00.000Z"
    assert await stalls.announce(900) == 300
    context.now = "2026-01-01T12:15:00.000Z"
    for _ in range(3):
        await stalls.announce(900)
    since = "has not moved since 2026-01-01T12:00:00.000Z."
    why = f"waits for T1, which is in_progress (wren) and {since}"
    assert context.alarms == [f"T2 {why}", f"T3 {why}"]  # T4 waits for T2, which is itself waiting
    reports = [one for one in context.envelopes if isinstance(one.payload, Report)]
    assert [(one.source, one.target, one.ticket_id) for one in reports] == [
        ("coterie", "mira", "T2"),
        ("coterie", "mira", "T3"),
    ]
    assert board.ticket("T2").state == "pending"


async def test_another_stop_is_another_incident_but_not_another_run(context: FakeContext) -> None:
    session = await session_of(context, a=(), b=("a",))
    board, stalls = session.tracker, StallWatch(session)
    await board.move("T1", "in_progress", "go")
    context.now = "2026-01-01T13:00:00.000Z"
    await stalls.announce(900)
    again = StallWatch(session)
    context.now = "2026-01-01T13:14:59.000Z"
    assert round(await again.announce(900)) == 1  # the time before this run does not count
    context.now = "2026-01-01T14:00:00.000Z"
    await again.announce(900)
    assert len(context.alarms) == 1  # the same stall, already announced
    await board.move("T1", "blocked", "no key")
    context.now = "2026-01-01T15:00:00.000Z"
    await again.announce(900)
    assert len(context.alarms) == 2
    done: Any = board.ticket("T2").history
    assert [moment.event for moment in done] == ["created", "stalled", "stalled"]


async def test_a_plan_is_adopted_while_a_ticket_begins(context: FakeContext) -> None:
    board = (await session_of(context, a=())).tracker
    parts = (PlanTask(task_id="a", description="a", dependencies=("b",)),)
    plan = Plan(tasks=(*parts, PlanTask(task_id="b", description="b")))
    async with anyio.create_task_group() as group:
        group.start_soon(board.move, "T1", "in_progress", "go")
        group.start_soon(board.adopt, plan, "mira")
    assert (board.ticket("T1").state, board.ticket("T2").state) == ("in_progress", "pending")
