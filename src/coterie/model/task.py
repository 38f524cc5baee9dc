"""A task: its seven domain events, and the state that is folded from them."""

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
"""The workflow of a task that is a ticket: carried out as part of its parent, which holds the
lease and the journal."""
TICKET_TURN = "ticket-turn"
"""The workflow of a worker's turn on a ticket that any machine may take."""
DEMO: Literal["demo"] = "demo"
"""In place of a script: the model of `coterie demo`, which ships with Coterie."""


Floor = Literal["ask", "end"]


class Caps(BaseModel, frozen=True, extra="ignore"):
    """What a run was told about when to end; kept with the task, so that `resume` keeps them."""

    max_turns: int | None = None
    max_rounds: int | None = 1
    yes: bool = False
    """Whether a plan is approved without being asked about; never a tool."""
    floor: Floor = "end"
    """When the rounds are over: ask the human for the next word, or end."""

    @classmethod
    def of(cls, team: Team, *, yes: bool = False, floor: Floor = "end") -> Self:
        """The caps of a team's talk: where members do not follow in order there are no rounds, and
        it is over when nobody hands the word on."""
        rounds = 1 if team.routing == "round_robin" else None
        return cls(max_rounds=rounds, yes=yes, floor=floor)


_LETTERS = "abcdefghjkmnprstuvwxyz"
_SIGNS = _LETTERS + "23456789"


def new_task_id(length: int) -> str:
    """A short id that can be read out."""
    rest = "".join(secrets.choice(_SIGNS) for _ in range(length - 1))
    return secrets.choice(_LETTERS) + rest


def ticket_task(session: str, ticket_id: str) -> str:
    """The id of the task that a ticket of a session is."""
    return f"{session}/{ticket_id}"


def run_with(task_id: str) -> str:
    """The task whose run carries a task out: of a ticket its session, else the task itself."""
    return task_id.partition("/")[0]


def whole_of(task_id: str) -> tuple[str, ...]:
    """A task and those that it is a part of: of a ticket its session, of a turn on one both."""
    return tuple(dict.fromkeys((task_id, ticket_above(task_id) or task_id, run_with(task_id))))


def is_part(task_id: str, of: str) -> bool:
    """Whether a task is another one, or a ticket of it, or a turn on a ticket."""
    return of in whole_of(task_id)


def ticket_in(task_id: str) -> str:
    """The ticket that a task is, or is a turn on, as its session calls it; else empty."""
    return task_id.partition("/")[2].partition(".")[0]


def ticket_above(task_id: str) -> str:
    """The same as the id of the ticket's task."""
    ticket = ticket_in(task_id)
    return ticket_task(run_with(task_id), ticket) if ticket else ""


class _Event(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")

    task_id: str
    at: Instant


class AllowedTeam(BaseModel, frozen=True, extra="ignore"):
    """What the members of a task may be started with, as digests under the user's own key."""

    team: str
    env: Mapping[str, str]
    """By member: of the values that are not kept."""


class TaskCreated(_Event):
    """A task was asked for; carries all that its workflow needs, so that it can be run anywhere."""

    type: Literal["TaskCreated"] = "TaskCreated"
    session_id: str
    parent_id: str | None = None
    workflow: str
    workflow_version: int
    goal: str
    author: str
    member: str | None = None
    """Whose job it is, in `solo`; None: that of the team's first with an agent."""
    team: Team
    """Sealed: environment values are not kept, they come from `team_file` again.  Of a ticket it
    has no members: they are those of its session."""
    team_file: str | None = None
    allowed: AllowedTeam | None = None
    """What the user allowed by starting it; None in tasks of earlier releases."""
    caps: Caps = Caps()
    scheduler: SchedulerConfig = SchedulerConfig()
    """For a session with tickets: its limits."""
    pipeline: Mapping[str, object] | None = None
    """For a pipeline: its `PipelineSettings`, which other tasks need not know."""
    rehearsal: bool = False
    """Whether the models are stand-ins: no tokens, no login."""
    script: str | None = None
    """The file a stand-in's replies come from, or `DEMO`; None: it makes them up."""
    turn: Mapping[str, object] | None = None
    """For the turn of a ticket that any machine may take: its `HandedOutTurn`."""
    base: str | None = None
    """For work on a branch of its own, in such a store: the commit that was checked out where it
    was asked for."""
    root: str | None = None
    """The project's folder where the task was made, in a store that several machines share: paths
    below it are meant below the project wherever it is run."""


_TITLE = 80


def title_of(goal: str) -> str:
    """A task in one line of a list: the first line of its goal that says something."""
    for line in goal.splitlines():
        words = line.strip()
        if words:
            return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"
    return ""


class TaskStarted(_Event):
    """Its workflow began."""

    type: Literal["TaskStarted"] = "TaskStarted"


class TaskCompleted(_Event):
    """Its workflow came to its end."""

    type: Literal["TaskCompleted"] = "TaskCompleted"
    reason: str
    summary: str = ""


class TaskFailed(_Event):
    """Its workflow could not go on."""

    type: Literal["TaskFailed"] = "TaskFailed"
    reason: str
    message: str


class TaskCanceled(_Event):
    """The user gave it up."""

    type: Literal["TaskCanceled"] = "TaskCanceled"
    reason: str = "canceled"


class UserInteractionRequested(_Event):
    """A question was put to the user."""

    type: Literal["UserInteractionRequested"] = "UserInteractionRequested"
    interaction: Interaction


class UserInteractionResponded(_Event):
    """A question was answered, or closed by Coterie with the reason as comment."""

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
        "UserInteractionResponded": "waiting",  # running again when it was the last open one
        "TaskCompleted": "completed",
        "TaskFailed": "failed",
        "TaskCanceled": "canceled",
    },
    "completed": {},
    "failed": {},
    "canceled": {},
}


class IllegalEvent(ValueError):
    """An event that cannot follow what has happened: a bug, or a damaged history."""


@dataclass(frozen=True)
class TaskState:
    """What is true of a task now."""

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
    """The state after all of a task's events, in their order."""
    state: TaskState | None = None
    for event in events:
        state = after(state, event)
    if state is None:
        raise IllegalEvent("a task without TaskCreated")
    return state


def after(state: TaskState | None, event: Event) -> TaskState:
    """The state one event later."""
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
    """A task's status and open questions one event later; raises IllegalEvent for one too many."""
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
"""The reason of an end that a person asked for."""


@dataclass(frozen=True)
class Ended:
    """A workflow came to its end."""

    reason: str
    summary: str = ""
    failed: bool = False
    """Whether what was asked for was not done, and never will be."""


@dataclass(frozen=True)
class Stopped:
    """A run ended before its task did: `question`, `stopped`, `budget`, `workflow_changed`, or a
    word of a workflow's own."""

    reason: str


@dataclass(frozen=True)
class RateLimited:
    """A run ended because a member's agent may only be called again later."""

    member: str
    until: str
    reason: ClassVar[str] = "rate_limit"


Stop = Stopped | RateLimited
"""Why a run ended although its task can be resumed."""
