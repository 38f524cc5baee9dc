"""The journal's vocabulary: steps, turns and leases, and the writes that change the stores.

A write is data.  Several go into one transaction, so that a step's result and all that it
caused are kept together or not at all.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from coterie.model.conversation import Message
from coterie.model.task import Event
from coterie.model.ticket import Ticket, TicketState
from coterie.model.tool_call import AuditEntry
from coterie.model.update import WaitsFor

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


RequestKind = Literal["say", "stop", "cancel", "interrupt", "stop_member"]
"""`stop_member` names a member in its text, and stands until a turn of that member has failed."""


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
    seen: int = field(default=0, compare=False)
    """For `Storage.changed`: what came later is not in here."""


class IllegalWrite(ValueError):
    """A write that cannot follow what is recorded: a bug, or a damaged history."""


class AppendEvent(NamedTuple):
    """A domain event; the store numbers it and keeps the projections of tasks and questions."""

    event: Event
    step: str | None = None
    """For a question: the step that asks it."""


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
)
