"""A task: its seven domain events, and the state folded from them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from coterie.model.instant import Instant
from coterie.model.interaction import Interaction, Response
from coterie.model.team import Team
from coterie.model.ticket import SchedulerConfig

Status = Literal["created", "running", "waiting", "completed", "failed", "canceled"]
ENDED: frozenset[Status] = frozenset({"completed", "failed", "canceled"})
TICKET = "ticket"
"""The workflow of a ticket's task: runs as part of its parent, which holds the lease and the
journal."""
TICKET_TURN = "ticket-turn"
"""The workflow of a worker's turn on a ticket, which any machine may take."""
DEMO: Literal["demo"] = "demo"
"""Used instead of a script: the built-in model of `coterie demo`."""


Floor = Literal["ask", "end"]


class Caps(BaseModel, frozen=True, extra="ignore"):
    """When a run should end; stored with the task, so that `resume` keeps the caps."""

    max_turns: int | None = None
    max_rounds: int | None = Field(default_factory=lambda caps: _rounds(caps.get("max_turns")))
    """Unless it is given, one round; none with a cap on turns."""
    yes: bool = False
    """Whether plans are approved without asking; never applies to tools."""
    floor: Floor = "end"
    """When the rounds are over: ask the human for the next message, or end."""

    @classmethod
    def of(
        cls,
        team: Team,
        *,
        max_turns: int | None = None,
        max_rounds: int | None = None,
        yes: bool = False,
        floor: Floor = "end",
    ) -> Self:
        """The caps of a team's chat; None: not given."""
        given = {} if max_rounds is None else {"max_rounds": max_rounds}
        return cls(max_turns=max_turns, yes=yes, floor=floor, **given).in_team(team)

    def in_team(self, team: Team) -> Self:
        """The same for a team: without a fixed order of speakers there are no rounds unless they
        are given, and a chat ends when nobody names a next speaker."""
        if team.routing == "round_robin" or "max_rounds" in self.model_fields_set:
            return self
        return self.model_copy(update={"max_rounds": None})


def _rounds(max_turns: int | None) -> int | None:
    return 1 if max_turns is None else None


_LETTERS = "abcdefghjkmnprstuvwxyz"
_SIGNS = _LETTERS + "23456789"


def new_task_id(length: int) -> str:
    """A short id that is easy to read aloud."""
    rest = "".join(secrets.choice(_SIGNS) for _ in range(length - 1))
    return secrets.choice(_LETTERS) + rest


def ticket_task(session: str, ticket_id: str) -> str:
    """The task id of a session's ticket."""
    return f"{session}/{ticket_id}"


def running_task(task_id: str) -> str:
    """The task whose run executes a task: a ticket's session, otherwise the task itself."""
    return task_id.partition("/")[0]


def leased_as(task_id: str) -> str:
    """Whose lease covers a task: a ticket's session's, else its own, as for a handed-out turn."""
    return running_task(task_id) if task_id == ticket_task_of(task_id) else task_id


def session_of(task_id: str) -> str:
    """The session that a task, a ticket or a subtask is part of."""
    return running_task(task_id).partition(".")[0]


def is_below(task_id: str, of: str) -> bool:
    """Whether a task is a subtask or ticket of another, or of one below that."""
    return task_id.startswith((f"{of}.", f"{of}/"))


def task_and_parents(task_id: str) -> tuple[str, ...]:
    """A task and the tasks it is part of: for a ticket its session, for a turn on it both."""
    return tuple(
        dict.fromkeys((task_id, ticket_task_of(task_id) or task_id, running_task(task_id)))
    )


def is_part(task_id: str, of: str) -> bool:
    """Whether a task is `of` itself, one of its tickets, or a turn on one of them."""
    return of in task_and_parents(task_id)


def ticket_id_of(task_id: str) -> str:
    """The ticket id, within its session, of a ticket's or ticket turn's task; otherwise empty."""
    return task_id.partition("/")[2].partition(".")[0]


def ticket_task_of(task_id: str) -> str:
    """Like `ticket_id_of`, but the id of the ticket's task."""
    ticket = ticket_id_of(task_id)
    return ticket_task(running_task(task_id), ticket) if ticket else ""


class _Event(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    task_id: str
    at: Instant


class AllowedTeam(BaseModel, frozen=True, extra="ignore"):
    """What the members of a task may be started with, as digests under the user's own key."""

    team: str
    env: Mapping[str, str]
    """Digests of the environment values, which are not stored, by member."""


class TaskCreated(_Event):
    """A task was requested; carries all that its workflow needs, so that it can run anywhere."""

    type: Literal["TaskCreated"] = "TaskCreated"
    session_id: str
    parent_id: str | None = None
    workflow: str
    workflow_version: int
    goal: str
    author: str
    member: str | None = None
    """The member that does the job in `solo`; None for the team's first AI member."""
    team: Team
    """Sealed: environment values are not stored but read again from `team_file`.  A ticket's team
    has no members: it uses those of its session."""
    team_file: str | None = None
    allowed: AllowedTeam | None = None
    """What the user allowed by starting the task; None in tasks of earlier releases."""
    caps: Caps = Caps()
    scheduler: SchedulerConfig = SchedulerConfig()
    """For a session with tickets: its limits."""
    pipeline: Mapping[str, object] | None = None
    """For a pipeline: its `PipelineSettings`; untyped, so that other tasks need not import them."""
    rehearsal: bool = False
    """Whether the models are stand-ins: no tokens, no login."""
    script: str | None = None
    """The file with the stand-in's replies, or `DEMO`; None: it makes them up."""
    turn: Mapping[str, object] | None = None
    """For a ticket turn that any machine may take: its `HandedOutTurn`."""
    base: str | None = None
    """For work on a separate branch in a store shared by several machines: the commit that was
    checked out where the task was created."""
    root: str | None = None
    """In a store shared by several machines: the project's folder where the task was created.
    Paths under it are relative to the project's folder on whichever machine runs the task."""


_TITLE = 80


def title_of(goal: str, most: int = _TITLE) -> str:
    """The task's title: the first non-blank line of its goal, of at most so many characters."""
    for line in goal.splitlines():
        words = line.strip()
        if words:
            return words if len(words) <= most else words[: most - 1] + "…"
    return ""


class TaskStarted(_Event):
    """Its workflow began."""

    type: Literal["TaskStarted"] = "TaskStarted"


class TaskCompleted(_Event):
    """Its workflow finished."""

    type: Literal["TaskCompleted"] = "TaskCompleted"
    reason: str
    summary: str = ""


class TaskFailed(_Event):
    """Its workflow could not continue."""

    type: Literal["TaskFailed"] = "TaskFailed"
    reason: str
    message: str


class TaskCanceled(_Event):
    """The user canceled it."""

    type: Literal["TaskCanceled"] = "TaskCanceled"
    reason: str = "canceled"


class UserInteractionRequested(_Event):
    """The user was asked a question."""

    type: Literal["UserInteractionRequested"] = "UserInteractionRequested"
    interaction: Interaction


class UserInteractionResponded(_Event):
    """A question was answered, or closed by Coterie with the reason as the comment."""

    type: Literal["UserInteractionResponded"] = "UserInteractionResponded"
    response: Response


Event = Annotated[
    TaskCreated
    | TaskStarted
    | TaskCompleted
    | TaskFailed
    | TaskCanceled
    | UserInteractionRequested
    | UserInteractionResponded,
    Field(discriminator="type"),
]

EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))


TRANSITIONS: Mapping[Status, Mapping[str, Status]] = {
    "created": {"TaskStarted": "running", "TaskFailed": "failed", "TaskCanceled": "canceled"},
    "running": {
        "UserInteractionRequested": "waiting",
        "TaskCompleted": "completed",
        "TaskFailed": "failed",
        "TaskCanceled": "canceled",
    },
    "waiting": {
        "UserInteractionRequested": "waiting",
        "UserInteractionResponded": "waiting",  # running if it was the last open question
        "TaskCompleted": "completed",
        "TaskFailed": "failed",
        "TaskCanceled": "canceled",
    },
    "completed": {},
    "failed": {},
    "canceled": {},
}


class IllegalEvent(ValueError):
    """An event that cannot follow the preceding ones: a bug, or a damaged history."""


@dataclass(frozen=True)
class TaskState:
    """The current state of a task."""

    created: TaskCreated
    status: Status = "created"
    reason: str = ""
    summary: str = ""
    open_questions: frozenset[str] = field(default_factory=frozenset[str])
    changed_at: str = ""

    @property
    def id(self) -> str:
        return self.created.task_id


def fold(events: Iterable[Event]) -> TaskState:
    """The state after all events of a task, in order."""
    state: TaskState | None = None
    for event in events:
        state = after(state, event)
    if state is None:
        raise IllegalEvent("a task without TaskCreated")
    return state


def after(state: TaskState | None, event: Event) -> TaskState:
    """The state after one more event."""
    before = None if state is None else (state.status, state.open_questions)
    status, questions = transition(before, event)
    if state is None:
        assert isinstance(event, TaskCreated)
        return TaskState(created=event, changed_at=event.at)
    return replace(
        state,
        status=status,
        open_questions=questions,
        reason=getattr(event, "reason", ""),
        summary=_summary_of(event),
        changed_at=event.at,
    )


def transition(
    before: tuple[Status, frozenset[str]] | None, event: Event
) -> tuple[Status, frozenset[str]]:
    """A task's status and open questions after one more event.  Raises IllegalEvent if the event
    cannot follow."""
    if before is None:
        if not isinstance(event, TaskCreated):
            raise IllegalEvent(f"{event.type} before TaskCreated")
        return "created", frozenset()
    status, questions = before
    if isinstance(event, TaskCreated):
        raise IllegalEvent(f"{event.task_id} was created twice")
    following = TRANSITIONS[status].get(event.type)
    if following is None:
        raise IllegalEvent(f"{event.type} cannot follow in a task that is {status}")
    questions = _questions_after(questions, event)
    if event.type == "UserInteractionResponded" and not questions:
        following = "running"
    return following, frozenset() if following in ENDED else questions


def _summary_of(event: Event) -> str:
    if isinstance(event, TaskCompleted):
        return event.summary
    return event.message if isinstance(event, TaskFailed) else ""


def _questions_after(questions: frozenset[str], event: Event) -> frozenset[str]:
    if isinstance(event, UserInteractionRequested):
        return questions | {event.interaction.interaction_id}
    if isinstance(event, UserInteractionResponded):
        answered = event.response.interaction_id
        if answered not in questions:
            raise IllegalEvent(f"{answered} is not open")
        return questions - {answered}
    return questions


@dataclass(frozen=True)
class TaskRow:
    """A task in a list."""

    id: str
    session_id: str
    parent_id: str | None
    workflow: str
    title: str
    status: Status
    reason: str
    created_at: str
    changed_at: str


BY_PERSON = "ended"
"""The reason recorded when a person ended the task."""


@dataclass(frozen=True)
class Ended:
    """A workflow finished."""

    reason: str
    summary: str = ""
    failed: bool = False
    """Whether the goal was not reached and never will be."""


@dataclass(frozen=True)
class Stopped:
    """A run ended before its task did: `question`, `stopped`, `budget`, `workflow_changed`, or a
    workflow-specific reason."""

    reason: str


@dataclass(frozen=True)
class RateLimited:
    """A run ended because a member's agent has reached its rate limit."""

    member: str
    until: str
    reason: ClassVar[str] = "rate_limit"


Stop = Stopped | RateLimited
"""Why a run ended although its task can be resumed."""
