"""The journal's vocabulary: steps, turns and leases, and the writes that change the stores.

A write is data.  Several go into one transaction, so that a step's result and all that it
caused are kept together or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from coterie.errors import StepRepeated
from coterie.model.conversation import Message
from coterie.model.interaction import Response
from coterie.model.step_name import StepName, parse
from coterie.model.task import Event, Status
from coterie.model.ticket import Ticket, TicketState
from coterie.model.tool_call import AuditEntry
from coterie.model.update import Usage, WaitsFor

if TYPE_CHECKING:  # a format of its own, which only a session with tickets needs
    from coterie.model.envelope import Envelope

StepKind = Literal["turn", "ask", "step", "heard"]
TurnOutcome = Literal["completed", "failed", "interrupted", "limited", "unknown"]
"""`limited`: a rate limit refused it; `unknown`: a crash cut it."""


class Step(NamedTuple):
    """One recorded effect of a workflow.  `result` is JSON text, None while it is open."""

    task_id: str
    name: str
    kind: StepKind
    digest: str
    input: str
    result: str | None = None


def digest(kind: StepKind, intent: object) -> str:
    """What a step means, never how it was rendered: an edited prompt must not break old tasks."""
    text = _CANONICAL.encode([kind, intent])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


_CANONICAL = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True)
class Turn:
    """One attempt at a turn: opened before it is sent, closed with its outcome."""

    task_id: str
    step: str
    attempt: int
    member: str
    token: int
    opened_at: str
    thread: str | None = None
    closed_at: str | None = None
    outcome: TurnOutcome | None = None
    """None while it is open."""
    detail: str | None = None
    """The failure's message."""
    usage: str | None = None
    """What it cost, as JSON, as far as the agent told."""
    machine: str | None = None
    """Where it was taken, in a store of several machines."""

    @property
    def used(self) -> Usage | None:
        """What it cost, as far as its agent told."""
        return Usage(**json.loads(self.usage)) if self.usage else None


@dataclass(frozen=True)
class Lease:
    """The right to run a task.  `token` only ever grows; a write with an older one is refused."""

    task_id: str
    owner: str
    token: int
    state: Literal["running", "reclaiming", "parked"]


@dataclass(frozen=True)
class Fence:
    """What a write carries to show that its task is still ours."""

    task_id: str
    token: int


@dataclass(frozen=True)
class ChildLease:
    """An agent's process, recorded before it starts, so that it can be found after a crash."""

    task_id: str
    member: str
    agent: str
    mark: str
    boot_id: str | None
    pid_namespace: str | None
    host: str
    started_at: str
    pid: int | None = None


RequestKind = Literal["say", "end", "stop", "cancel", "interrupt", "stop_member"]
"""`end` stands until a task has ended, `stop_member` until a turn of who is named has failed."""


@dataclass(frozen=True)
class Request:
    """A word from another process to the owner of a task."""

    id: int
    task_id: str
    kind: RequestKind
    author: str
    text: str
    at: str


@dataclass(frozen=True)
class TaskHistory:
    """All that a run needs to know of a task, as of one moment."""

    events: list[Event]
    lease: Lease | None
    messages: list[Message]
    steps: list[Step]
    turns: list[Turn]
    requests: list[Request]
    children: dict[str, Status] = field(default_factory=dict[str, "Status"])
    """By id: the tickets that are part of the task; what was said and done in them is in here."""
    seen: int = field(default=0, compare=False)
    """For `Storage.changed`: what came later is not in here."""


class IllegalWrite(ValueError):
    """A write that cannot follow what is recorded: a bug, or a damaged history."""


class AppendEvent(NamedTuple):
    """A domain event; the store numbers it and keeps the projections of tasks and questions."""

    event: Event
    step: str | None = None
    """For a question: the step that asks it."""
    once: str | None = None
    """What all questions have in common of which one may be open; IllegalWrite where one is."""
    incident: str | None = None
    """What the user is to be told of elsewhere, once: the question, or the task that ended."""


class AppendMessage(NamedTuple):
    """A message; its sequence number must be the next of its task."""

    message: Message


class AppendAudit(NamedTuple):
    """A row of the audit."""

    entry: AuditEntry


class AppendThread(NamedTuple):
    """A further entry of a thread that we keep ourselves; its number must be the next."""

    task_id: str
    thread: str
    place: int
    entry: str
    """JSON."""


class OpenStep(NamedTuple):
    """A step that begins, or one that is recorded whole."""

    step: Step


class CloseStep(NamedTuple):
    """A step's result."""

    task_id: str
    name: str
    result: str


class OpenTurn(NamedTuple):
    """An attempt that is about to be sent."""

    task_id: str
    step: str
    attempt: int
    member: str
    token: int
    opened_at: str
    thread: str | None = None
    machine: str | None = None


class SpendTurn(NamedTuple):
    """What an open attempt has cost so far: it counts, however the attempt ends."""

    task_id: str
    step: str
    attempt: int
    usage: str


class CloseTurn(NamedTuple):
    """How an attempt ended."""

    task_id: str
    step: str
    attempt: int
    closed_at: str
    outcome: TurnOutcome
    detail: str | None
    thread: str | None
    usage: str | None = None


class AppendEnvelope(NamedTuple):
    """A message about tickets; the store gives it the session's next number."""

    envelope: Envelope
    key: bytes | None = None
    """What it is to be signed with, once it is as it will be kept; a store never sees it."""


class PutTicket(NamedTuple):
    """A ticket's new form; refused unless it was in the state `before` (None: it is new)."""

    session_id: str
    ticket: Ticket
    before: TicketState | None


class TakeRequest(NamedTuple):
    """A request that its owner has acted on."""

    request_id: int


class SupersedeSteps(NamedTuple):
    """Steps, with their turns, that no longer count since the user chose to do them anew.

    They are kept under another name: `aside` and a number, and the name they had.
    """

    task_id: str
    prefix: str
    names: tuple[str, ...]


class SetMemberState(NamedTuple):
    """A member's state that another process should see; only the rare ones are kept.

    All others are known from what is recorded anyway: the open turn, call and question.
    """

    task_id: str
    member: str
    state: str
    reason: str
    since: str
    waits_for: WaitsFor | None = None
    until: str | None = None


class ParkLease(NamedTuple):
    """Let go of the right to run a task: whoever wants may take it up."""

    task_id: str
    token: int


Write = (
    AppendEvent
    | AppendMessage
    | AppendAudit
    | AppendThread
    | OpenStep
    | CloseStep
    | OpenTurn
    | SpendTurn
    | CloseTurn
    | AppendEnvelope
    | PutTicket
    | TakeRequest
    | SupersedeSteps
    | SetMemberState
    | ParkLease
)


class WorkflowChanged(Exception):
    """The workflow no longer asks for what is recorded."""

    def __init__(self, step: str, difference: str, digest: str) -> None:
        super().__init__(f"{step}: {difference}")
        self.step = step
        self.difference = difference
        self.digest = digest
        """What the workflow asks for now: another change is another question."""


class Journal:
    """The recorded steps of one task, handed out as the workflow comes to them again."""

    def __init__(self, task_id: str, steps: Sequence[Step]) -> None:  # in the order of opening
        self.task_id = task_id
        self._steps, self._kept = _after_decisions(steps)
        self.superseded: tuple[str, ...] = tuple(
            step.name
            for step in steps
            if step.name not in self._steps and not parse(step.name).is_superseded
        )
        """Steps that a fork supersedes, and that still stand under their names."""
        self._used: set[str] = set()
        self._ahead = {name for name in self._steps if parse(name).is_own}

    @property
    def replaying(self) -> bool:
        """Whether recorded steps lie ahead: what comes next has already happened."""
        return bool(self._ahead)

    def begin(self, name: str, kind: StepKind, intent: object) -> tuple[Step, bool]:
        """The step of that name as it is recorded, or a new one; and whether it is new.

        Raises WorkflowChanged if something else is recorded under the name, open or closed.
        """
        if name in self._used:
            raise StepRepeated(self.task_id, name)
        self._used.add(name)
        meaning = digest(kind, intent)
        step = self._steps.get(name)
        if step is None:
            return Step(self.task_id, name, kind, meaning, ""), True
        if step.digest != meaning and name not in self._kept:
            was = f"it was recorded as {step.kind} {step.digest} and is now {kind} {meaning}"
            raise WorkflowChanged(name, was, meaning)
        self._ahead.discard(name)
        return step, False

    def asked_in(self, turn: str) -> list[tuple[StepName, Step]]:
        """What an agent asked in a turn, in order."""
        named = [(parse(name), step) for name, step in self._steps.items()]
        return [(name, step) for name, step in named if name.asked_in == turn]

    def asked(self) -> Iterator[tuple[StepName, Step]]:
        """All that was asked in turns, in order; an answer that nobody got is no result."""
        for name, step in ((parse(name), step) for name, step in self._steps.items()):
            if name.asked_in is not None and step.kind == "ask":
                yield name, step

    def subtasks(self) -> int:
        """How many subtasks were handed out so far."""
        return sum(parse(name).is_subtask for name in self._steps)

    def caught_up(self) -> None:
        """Nothing recorded lies ahead any more: the workflow goes by what it finds kept."""
        self._ahead.clear()

    def check_all_used(self) -> None:
        """At the end of a workflow: a recorded step it never came to means that it changed."""
        for name in self._steps:
            if name in self._ahead and name not in self._kept:
                raise WorkflowChanged(name, "it is recorded but no longer asked for", "gone")


def _after_decisions(steps: Sequence[Step]) -> tuple[dict[str, Step], frozenset[str]]:
    """The steps that count, and those whose recorded result is kept whatever the code says.

    A fork supersedes what was recorded from the changed step up to the question about it.
    """
    counted: dict[str, Step] = {}
    kept: set[str] = set()
    for step in steps:
        name = parse(step.name)
        if name.is_superseded:
            continue
        if name.changed is not None and step.result is not None:
            choice = Response.model_validate_json(step.result).selected_option_id
            if choice == "keep":
                kept.add(name.changed)
            elif choice == "fork" and name.changed in counted:
                for later in list(counted)[list(counted).index(name.changed) :]:
                    if parse(later).changed is None:
                        del counted[later]
        counted[step.name] = step
    return counted, frozenset(kept)
