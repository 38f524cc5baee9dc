"""The journal's vocabulary: steps, turns and leases, and the writes that change the stores.

A write is data.  Several go into one transaction, so that a step's result and all its effects are
stored together or not at all.
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

if TYPE_CHECKING:  # a separate format, needed only by sessions with tickets
    from coterie.model.envelope import Envelope

StepKind = Literal["turn", "ask", "step", "heard"]
TurnOutcome = Literal["completed", "failed", "interrupted", "limited", "unknown"]
"""`limited`: refused by a rate limit; `unknown`: cut off by a crash."""


class Step(NamedTuple):
    """One recorded effect of a workflow.  `result` is JSON text, None while it is open."""

    task_id: str
    name: str
    kind: StepKind
    digest: str
    input: str
    result: str | None = None


def digest(kind: StepKind, intent: object) -> str:
    """A digest of a step's meaning, not of its text: an edited prompt must not break old tasks."""
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
    """Its usage as JSON, as far as the agent reported it."""
    machine: str | None = None
    """The machine that ran it, in a store shared by several machines."""

    @property
    def used(self) -> Usage | None:
        """Its usage, as far as the agent reported it."""
        return Usage(**json.loads(self.usage)) if self.usage else None


@dataclass(frozen=True)
class Lease:
    """The right to run a task.  `token` only ever grows; a write with an older token is refused."""

    task_id: str
    owner: str
    token: int
    state: Literal["running", "reclaiming", "parked"]


@dataclass(frozen=True)
class Fence:
    """Carried by a write to prove that the writer still holds the task's lease."""

    task_id: str
    token: int


@dataclass(frozen=True)
class ChildLease:
    """An agent's process, recorded before it starts so that it can be found after a crash."""

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
"""`end` stays pending until the task has ended, `stop_member` until that member's turn fails."""


@dataclass(frozen=True)
class Request:
    """A request from another process to the owner of a task."""

    id: int
    task_id: str
    kind: RequestKind
    author: str
    text: str
    at: str


@dataclass(frozen=True)
class TaskHistory:
    """Everything a run needs to know about a task, at one point in time."""

    events: list[Event]
    lease: Lease | None
    messages: list[Message]
    steps: list[Step]
    turns: list[Turn]
    requests: list[Request]
    children: dict[str, Status] = field(default_factory=dict[str, "Status"])
    """The tickets that are part of the task, by id; what was said and done in them is included."""
    seen: int = field(default=0, compare=False)
    """The version for `Storage.changed`: later changes are not included."""


class IllegalWrite(ValueError):
    """A write that contradicts what is recorded: a bug, or a damaged history."""


class AppendEvent(NamedTuple):
    """A domain event; the store numbers it and updates the projections of tasks and questions."""

    event: Event
    step: str | None = None
    """For a question: the step that asks it."""
    once: str | None = None
    """A key shared by questions of which only one may be open; IllegalWrite if one already is."""
    incident: str | None = None
    """What to notify the user of, once: the question, or the task that ended."""


class AppendMessage(NamedTuple):
    """A message; its sequence number must be the next of its task."""

    message: Message


class AppendAudit(NamedTuple):
    """A row for the audit."""

    entry: AuditEntry


class AppendThread(NamedTuple):
    """An entry of a thread that Coterie stores itself; its number must be the next."""

    task_id: str
    thread: str
    place: int
    entry: str
    """JSON."""


class OpenStep(NamedTuple):
    """A step that begins, or one recorded together with its result."""

    step: Step


class CloseStep(NamedTuple):
    """A step's result."""

    task_id: str
    name: str
    result: str


class OpenTurn(NamedTuple):
    """An attempt at a turn that is about to be sent."""

    task_id: str
    step: str
    attempt: int
    member: str
    token: int
    opened_at: str
    thread: str | None = None
    machine: str | None = None


class SpendTurn(NamedTuple):
    """The usage of an open attempt so far: it counts, however the attempt ends."""

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
    """A message about tickets; the store assigns the session's next number to it."""

    envelope: Envelope
    key: bytes | None = None
    """The key to sign its final stored form with; stores never see it."""


class PutTicket(NamedTuple):
    """A ticket's new version; refused unless it was in the state `before` (None: it is new)."""

    session_id: str
    ticket: Ticket
    before: TicketState | None


class TakeRequest(NamedTuple):
    """A request that its owner has acted on."""

    request_id: int


class SupersedeSteps(NamedTuple):
    """Steps, with their turns, that no longer count because the user chose to redo them.

    They are kept under another name: `aside`, a number, and the original name.
    """

    task_id: str
    prefix: str
    names: tuple[str, ...]


class SetMemberState(NamedTuple):
    """A member's state that other processes should see; only rare states are stored.

    All others follow from what is recorded anyway: the open turn, call and question.
    """

    task_id: str
    member: str
    state: str
    reason: str
    since: str
    waits_for: WaitsFor | None = None
    until: str | None = None


class ParkLease(NamedTuple):
    """Give up the right to run a task, so that any process may acquire it."""

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
    """The workflow no longer matches the recorded steps."""

    def __init__(self, step: str, difference: str, digest: str) -> None:
        super().__init__(f"{step}: {difference}")
        self.step = step
        self.difference = difference
        self.digest = digest
        """The digest of what the workflow asks for now: a different change is a new question."""


class Journal:
    """The recorded steps of one task, returned when the workflow reaches them again."""

    def __init__(self, task_id: str, steps: Sequence[Step]) -> None:  # in opening order
        self.task_id = task_id
        self._steps, self._kept = _after_decisions(steps)
        self.superseded: tuple[str, ...] = tuple(
            step.name
            for step in steps
            if step.name not in self._steps and not parse(step.name).is_superseded
        )
        """Steps that a fork supersedes but that are still recorded under their own names."""
        self._subtasks = sum(parse(step.name).is_subtask for step in steps)
        self._used: set[str] = set()
        self._ahead = {name for name in self._steps if parse(name).is_own}

    @property
    def replaying(self) -> bool:
        """Whether recorded steps lie ahead, that is, the next steps have already happened."""
        return bool(self._ahead)

    def begin(self, name: str, kind: StepKind, intent: object) -> tuple[Step, bool]:
        """Return the recorded step of that name, or a new one, and whether it is new.

        Raises WorkflowChanged if a different step is recorded under the name, open or closed.
        """
        if name in self._used:
            raise StepRepeated(self.task_id, name)
        self._used.add(name)
        step, meaning = self._steps.get(name), digest(kind, intent)
        if step is None:
            return Step(self.task_id, name, kind, meaning, ""), True
        if step.digest != meaning and name not in self._kept:
            was = f"{name} was recorded as {step.kind} {step.digest} and is now {kind} {meaning}"
            raise WorkflowChanged(name, was, meaning)
        self._ahead.discard(name)
        return step, False

    def asked_in(self, turn: str) -> list[tuple[StepName, Step]]:
        """The questions asked in a turn, in order."""
        return [(name, step) for name, step in self.asked() if name.asked_in == turn]

    def asked(self) -> Iterator[tuple[StepName, Step]]:
        """All questions asked in turns, in order; without a result if no answer was delivered."""
        for name, step in ((parse(name), step) for name, step in self._steps.items()):
            if name.asked_in is not None and step.kind == "ask":
                yield name, step

    def new_subtask(self) -> int:
        """The number of a further subtask, which no other has, not even a superseded one."""
        self._subtasks += 1
        return self._subtasks

    def caught_up(self) -> None:
        """End the replay: the workflow no longer has to ask for every recorded step."""
        self._ahead.clear()

    def check_all_used(self) -> None:
        """At the end of a workflow, raise WorkflowChanged if it never reached a recorded step."""
        for name in self._steps:
            if name in self._ahead and name not in self._kept:
                raise WorkflowChanged(name, f"{name} is recorded, but no longer reached", "gone")


def _after_decisions(steps: Sequence[Step]) -> tuple[dict[str, Step], frozenset[str]]:
    """The steps that count, and those whose recorded result stands even though the code changed.

    A fork supersedes everything recorded from the changed step up to the question about it.
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
