"""Small values that contract suites write and expect back."""

from __future__ import annotations

from coterie.model.conversation import Message
from coterie.model.envelope import Envelope, TicketPayload
from coterie.model.interaction import NOBODY, Display, Interaction, Option, Response
from coterie.model.journal import (
    AppendEvent,
    AppendMessage,
    ChildLease,
    CloseStep,
    CloseTurn,
    OpenStep,
    OpenTurn,
    Step,
    Turn,
    Write,
)
from coterie.model.task import (
    Caps,
    TaskCreated,
    TaskStarted,
    UserInteractionRequested,
    UserInteractionResponded,
)
from coterie.model.team import Member, Team
from coterie.model.ticket import Moment, Ticket

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
        caps=Caps(max_turns=4),
    )


def started(task_id: str = TASK) -> AppendEvent:
    """Its workflow begins."""
    return AppendEvent(TaskStarted(task_id=task_id, at=at(1)))


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


def asked(name: str, task_id: str = TASK, second: int = 2) -> AppendEvent:
    """The question is put to the user."""
    event = UserInteractionRequested(
        task_id=task_id, at=at(second), interaction=interaction(name, task_id)
    )
    return AppendEvent(event, step=f"{STEP}/ask/{name}")


def answered(
    name: str, task_id: str = TASK, by: str = "you", second: int = 3
) -> UserInteractionResponded:
    """It is answered."""
    response = Response(
        interaction_id=name, task_id=task_id, author_actor_id=by, selected_option_id="left"
    )
    return UserInteractionResponded(task_id=task_id, at=at(second), response=response)


def closed(name: str, task_id: str = TASK) -> UserInteractionResponded:
    """It is closed by nobody."""
    return answered(name, task_id, by=NOBODY)


def message(seq: int, task_id: str = TASK, text: str = "hello") -> Message:
    """Something said in turn `seq`."""
    return Message(task_id, seq, "ann", f"{text} {seq}", at(seq), turn=seq, next="bob", done=True)


def step(name: str = STEP, result: str | None = None, task_id: str = TASK) -> Step:
    """A step that is open unless a result is given."""
    return Step(task_id, name, "turn", "0123456789abcdef", '{"member":"ann"}', result)


def turn(name: str = STEP, attempt: int = 1, task_id: str = TASK) -> Turn:
    """An attempt that is open."""
    return Turn(task_id, name, attempt, "ann", 1, at(4), thread="t-1")


def opening(name: str = STEP, task_id: str = TASK) -> tuple[Write, ...]:
    """What opens a turn."""
    return (OpenStep(step(name, task_id=task_id)), OpenTurn(turn(name, task_id=task_id)))


def closing(name: str = STEP, seq: int = 1, task_id: str = TASK) -> tuple[Write, ...]:
    """What closes it with its reply."""
    return (
        CloseTurn(task_id, name, 1, at(5), "completed", '{"input_tokens":3}', "t-2"),
        CloseStep(task_id, name, f'{{"message":{seq}}}'),
        AppendMessage(message(seq, task_id)),
    )


def child(mark: str, task_id: str = TASK) -> ChildLease:
    """A process that is about to start."""
    return ChildLease(task_id, "ann", "claude", mark, "boot-1", "pid:[1]", "here", at(6))


TICKET = Ticket("T1", "t-1", "Coupon model", history=(Moment(at(1), "created"),))


def envelope(minute: int) -> Envelope:
    """That there is a ticket."""
    payload = TicketPayload(ticket_id="T1", task_id="t-1", owner=None, status="pending")
    return Envelope.of(TASK, at(minute), "coterie", "mira", payload, "T1")
