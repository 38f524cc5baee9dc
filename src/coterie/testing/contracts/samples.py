"""What the storage suites share: small values that they write and expect back, and
`OpenedStorage`, which an implementation completes.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coterie.model import journal
from coterie.model.conversation import Message
from coterie.model.envelope import Envelope, TicketPayload
from coterie.model.interaction import Display, Interaction, Option, Response
from coterie.model.journal import Fence
from coterie.model.task import (
    Caps,
    TaskCreated,
    TaskStarted,
    UserInteractionRequested,
    UserInteractionResponded,
)
from coterie.model.team import Member, Reservation, Team
from coterie.model.ticket import Moment, Ticket
from coterie.ports import Storage

TASK = "k3f9"
STEP = "round/1/turn/ann"


def at(second: int) -> str:
    """An instant."""
    return f"2026-01-31T12:00:{second:02}.000Z"


def created(task_id: str = TASK, goal: str = "Look at cart.py\nand fix it") -> TaskCreated:
    """A task for a team of two."""
    members = tuple(Member(id=name, name=name, display_name=name) for name in ("ann", "bob"))
    return TaskCreated(
        task_id=task_id,
        at=at(0),
        session_id=task_id,
        workflow="chat",
        workflow_version=1,
        goal=goal,
        author="you",
        team=Team(name="pair", members=members),
        caps=Caps(max_turns=4, max_rounds=1),
    )


def started(task_id: str = TASK) -> journal.AppendEvent:
    """The event that its workflow started."""
    return journal.AppendEvent(TaskStarted(task_id=task_id, at=at(1)))


def interaction(name: str, task_id: str = TASK) -> Interaction:
    """A question with two choices."""
    return Interaction(
        interaction_id=name,
        task_id=task_id,
        author_actor_id="ann",
        kind="Select",
        purpose="choose_strategy",
        display=Display(title="Which way?", content="+ a\n- b", content_kind="Diff"),
        options=(Option(id="left", label="Left", default=True), Option(id="right", label="Right")),
    )


def asked(name: str, task_id: str = TASK) -> journal.AppendEvent:
    """The event that asks the user the question."""
    question = interaction(name, task_id)
    event = UserInteractionRequested(task_id=task_id, at=at(2), interaction=question)
    return journal.AppendEvent(event, step=f"{STEP}/ask/{name}")


def answered(name: str, task_id: str = TASK, by: str = "you") -> UserInteractionResponded:
    """The event that answers it."""
    response = Response(
        interaction_id=name, task_id=task_id, author_actor_id=by, selected_option_id="left"
    )
    return UserInteractionResponded(task_id=task_id, at=at(3), response=response)


def message(seq: int, task_id: str = TASK, text: str = "hello") -> Message:
    """A message said in turn `seq`."""
    return Message(task_id, seq, "ann", f"{text} {seq}", at(seq), turn=seq, next="bob", done=True)


def step(name: str = STEP, result: str | None = None, task_id: str = TASK) -> journal.Step:
    """A step that is open unless a result is given."""
    return journal.Step(task_id, name, "turn", "0123456789abcdef", '{"member":"ann"}', result)


def turn(name: str = STEP, attempt: int = 1, task_id: str = TASK) -> journal.Turn:
    """An open attempt at a turn."""
    return journal.Turn(task_id, name, attempt, "ann", 1, at(4), thread="t-1")


def open_turn(name: str = STEP, attempt: int = 1, task_id: str = TASK) -> journal.OpenTurn:
    """The write that opens that attempt."""
    return journal.OpenTurn(task_id, name, attempt, "ann", 1, at(4), thread="t-1")


def opening(name: str = STEP, task_id: str = TASK) -> tuple[journal.Write, ...]:
    """The writes that open a turn."""
    return (
        journal.OpenStep(step(name, task_id=task_id)),
        open_turn(name, task_id=task_id),
    )


def closing(name: str = STEP, seq: int = 1, task_id: str = TASK) -> tuple[journal.Write, ...]:
    """The writes that close it with its reply."""
    return (
        journal.CloseTurn(task_id, name, 1, at(5), "completed", '{"input_tokens":3}', "t-2"),
        journal.CloseStep(task_id, name, f'{{"message":{seq}}}'),
        journal.AppendMessage(message(seq, task_id)),
    )


def child(mark: str, task_id: str = TASK) -> journal.ChildLease:
    """A process that is about to start."""
    return journal.ChildLease(task_id, "ann", "claude", mark, "boot-1", "pid:[1]", "here", at(6))


def reservation(step: str, task_id: str = TASK) -> Reservation:
    """A reservation for a turn."""
    return Reservation(task_id, step, "ann", at(4), task_id, 1)


TICKET = Ticket("T1", "t-1", "Coupon model", history=(Moment(at(1), "created"),))


def envelope(minute: int) -> Envelope:
    """An envelope that announces a ticket."""
    payload = TicketPayload(ticket_id="T1", task_id="t-1", owner=None, status="pending")
    return Envelope.of(TASK, at(minute), "coterie", "mira", payload, "T1")


class OpenedStorage:
    """Opens storages for tests; all those of one test share the same data."""

    async def open(self, place: Path) -> Storage:
        """Open a storage on the data at `place`, created if there is none.

        Two that are open at once represent two processes.
        """
        raise NotImplementedError

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncGenerator[Storage]:
        async with self.opened(tmp_path) as storage:
            yield storage

    @pytest.fixture
    async def fence(self, storage: Storage) -> Fence:
        """The fence of a running task."""
        fence = await storage.create(created(), "me", None)
        assert fence is not None
        await storage.commit(fence, started())
        return fence

    @contextlib.asynccontextmanager
    async def opened(self, place: Path) -> AsyncGenerator[Storage]:
        """Open a storage, and close it in the end whatever happens."""
        storage = await self.open(place)
        try:
            yield storage
        finally:
            await storage.close()
