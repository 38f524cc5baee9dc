"""What a `MemoryDatabase` holds, and what each write does to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from coterie.errors import LeaseLost
from coterie.model.envelope import Envelope
from coterie.model.interaction import Question
from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendMessage,
    AppendThread,
    ChildLease,
    CloseStep,
    CloseTurn,
    Fence,
    IllegalWrite,
    Lease,
    OpenStep,
    OpenTurn,
    PutTicket,
    Request,
    RequestKind,
    SetAside,
    SetMemberState,
    SpendTurn,
    Step,
    TakeRequest,
    Turn,
    Write,
)
from coterie.model.message import Message
from coterie.model.task import (
    ENDED,
    Event,
    TaskCreated,
    TaskRow,
    TaskState,
    UserInteractionRequested,
    UserInteractionResponded,
    after,
)
from coterie.model.ticket import IllegalMove, Ticket, check_move
from coterie.model.tool_call import AuditEntry
from coterie.stores.projection import KEPT_STATES, chained, question_state, title_of


@dataclass
class Tables:
    """Everything, in containers that are copied for each transaction; their rows are frozen."""

    events: list[Event] = field(default_factory=list[Event])
    head: bytes = b""
    audit: list[AuditEntry] = field(default_factory=list[AuditEntry])
    states: dict[str, TaskState] = field(default_factory=dict[str, TaskState])
    tasks: dict[str, TaskRow] = field(default_factory=dict[str, TaskRow])
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    question_count: int = 0
    messages: dict[str, tuple[Message, ...]] = field(default_factory=dict[str, tuple[Message, ...]])
    steps: dict[tuple[str, str], Step] = field(default_factory=dict[tuple[str, str], Step])
    turns: dict[tuple[str, str, int], Turn] = field(
        default_factory=dict[tuple[str, str, int], Turn]
    )
    tickets: dict[tuple[str, str], Ticket] = field(default_factory=dict[tuple[str, str], Ticket])
    envelopes: dict[str, tuple[Envelope, ...]] = field(
        default_factory=dict[str, tuple[Envelope, ...]]
    )
    threads: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    children: dict[str, ChildLease] = field(default_factory=dict[str, ChildLease])
    requests: dict[int, Request] = field(default_factory=dict[int, Request])
    request_count: int = 0
    member_states: dict[tuple[str, str], SetMemberState] = field(
        default_factory=dict[tuple[str, str], SetMemberState]
    )

    def copy(self) -> Tables:
        """The same rows in containers of its own."""
        copied: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            copied[each.name] = value.copy() if isinstance(value, list | dict) else value
        return Tables(**copied)

    def check(self, fence: Fence) -> None:
        """Raise LeaseLost unless the fence holds."""
        lease = self.leases.get(fence.task_id)
        if lease is None or lease.token != fence.token:
            raise LeaseLost(fence.task_id, fence.token)

    def apply(self, writes: Sequence[Write]) -> None:
        """All of them in order; raises at the first that is refused."""
        for write in writes:
            _APPLY[type(write)](self, write)

    def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        """A task with its lease and first message; None where the id is taken."""
        if event.task_id in self.states or event.task_id in self.leases:
            return None
        self.apply((AppendEvent(event),))
        self.leases[event.task_id] = Lease(event.task_id, owner, 1, "running")
        if opening is not None:
            self.apply((AppendMessage(opening),))
        return Fence(event.task_id, 1)

    # -- the inbox -----------------------------------------------------------------------------

    def next_question(self) -> str:
        """An id that was never given out."""
        self.question_count += 1
        return f"q{self.question_count}"

    def is_open(self, event: UserInteractionResponded) -> bool:
        """Whether the event answers an open question of its task."""
        state = self.states.get(event.task_id)
        return state is not None and event.response.interaction_id in state.open_questions

    def request(self, task_id: str, kind: RequestKind, author: str, text: str, at: str) -> int:
        """A word for the task's owner."""
        self.request_count += 1
        number = self.request_count
        self.requests[number] = Request(number, task_id, kind, author, text, at)
        return number

    def discard_requests(self, task_id: str, kinds: Sequence[RequestKind]) -> None:
        """Forget words of these kinds."""
        for number, word in list(self.requests.items()):
            if word.task_id == task_id and word.kind in kinds:
                del self.requests[number]

    # -- leases --------------------------------------------------------------------------------

    def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        """Compare and swap on the token."""
        lease = self.leases.get(task_id)
        if (0 if lease is None else lease.token) != seen:
            return None
        self.leases[task_id] = Lease(task_id, owner, seen + 1, "reclaiming")
        return seen + 1

    def confirm(self, fence: Fence) -> bool:
        """From reclaiming to running."""
        lease = self.leases.get(fence.task_id)
        if lease is None or (lease.token, lease.state) != (fence.token, "reclaiming"):
            return False
        self.leases[fence.task_id] = replace(lease, state="running")
        return True

    def park(self, fence: Fence) -> None:
        """Keep the token, run no more."""
        lease = self.leases.get(fence.task_id)
        if lease is not None and lease.token == fence.token:
            self.leases[fence.task_id] = replace(lease, state="parked")

    def record_child(self, child: ChildLease) -> None:
        """A child that is about to be started."""
        if child.mark in self.children:
            raise IllegalWrite(f"the mark {child.mark} is taken")
        self.children[child.mark] = child

    def set_child_pid(self, mark: str, pid: int) -> None:
        """What it became, if it is still known."""
        child = self.children.get(mark)
        if child is not None:
            self.children[mark] = replace(child, pid=pid)


# -- writes ------------------------------------------------------------------------------------


def _append_event(tables: Tables, write: AppendEvent) -> None:
    event = write.event
    state = after(tables.states.get(event.task_id), event)
    if isinstance(event, UserInteractionRequested):
        _ask(tables, event, write.step or "")
    elif isinstance(event, UserInteractionResponded):
        _answer(tables, event)
    if state.status in ENDED:
        _close_questions(tables, event.task_id)
    row = (len(tables.events) + 1, event.task_id, event.type, event.at)
    tables.head = chained(tables.head, (*row, event.model_dump_json(by_alias=True)))
    tables.events.append(event)
    tables.states[event.task_id] = state
    tables.tasks[event.task_id] = _row(state)


def _row(state: TaskState) -> TaskRow:
    created = state.created
    return TaskRow(
        id=state.id,
        session_id=created.session_id,
        parent_id=created.parent_id,
        workflow=created.workflow,
        title=title_of(created.goal),
        status=state.status,
        reason=state.reason,
        created_at=created.at,
        changed_at=state.changed_at,
    )


def _ask(tables: Tables, event: UserInteractionRequested, step: str) -> None:
    asked = event.interaction.interaction_id
    if asked in tables.questions:
        raise IllegalWrite(f"{asked} was asked already")
    tables.questions[asked] = Question(event.interaction, step, "open", event.at)


def _answer(tables: Tables, event: UserInteractionResponded) -> None:
    answer = event.response
    tables.questions[answer.interaction_id] = replace(
        tables.questions[answer.interaction_id],
        state=question_state(answer),
        response=answer,
        answered_at=event.at,
    )


def _close_questions(tables: Tables, task_id: str) -> None:
    for name, question in tables.questions.items():
        if question.interaction.task_id == task_id and question.state == "open":
            tables.questions[name] = replace(question, state="closed")


def _append_message(tables: Tables, write: AppendMessage) -> None:
    message = write.message
    said = tables.messages.get(message.task_id, ())
    if message.seq != len(said) + 1:
        raise IllegalWrite(f"{message.task_id}: message {message.seq} does not follow {len(said)}")
    tables.messages[message.task_id] = (*said, message)


def _append_audit(tables: Tables, write: AppendAudit) -> None:
    tables.audit.append(write.entry)


def _append_thread(tables: Tables, write: AppendThread) -> None:
    known = tables.threads.get(write.thread, ())
    if write.place != len(known) + 1:
        raise IllegalWrite(f"{write.task_id}: {write.thread} has no place {write.place} next")
    tables.threads[write.thread] = (*known, write.entry)


def _open_step(tables: Tables, write: OpenStep) -> None:
    key = (write.step.task_id, write.step.name)
    if key in tables.steps:
        raise IllegalWrite(f"{key[0]}: step {key[1]!r} is recorded already")
    tables.steps[key] = write.step


def _close_step(tables: Tables, write: CloseStep) -> None:
    step = tables.steps.get((write.task_id, write.name))
    if step is None or step.result is not None:
        raise IllegalWrite(f"{write.task_id}: step {write.name!r} is not open")
    tables.steps[write.task_id, write.name] = replace(step, result=write.result)


def _open_turn(tables: Tables, write: OpenTurn) -> None:
    turn = write.turn
    key = (turn.task_id, turn.step, turn.attempt)
    if key in tables.turns:
        raise IllegalWrite(
            f"{turn.task_id}: attempt {turn.attempt} of {turn.step!r} is recorded already"
        )
    tables.turns[key] = turn


def _spend_turn(tables: Tables, write: SpendTurn) -> None:
    key, turn = _still_open(tables, write)
    tables.turns[key] = replace(turn, usage=write.usage)


def _close_turn(tables: Tables, write: CloseTurn) -> None:
    key, turn = _still_open(tables, write)
    tables.turns[key] = replace(
        turn,
        closed_at=write.closed_at,
        outcome=write.outcome,
        detail=write.detail,
        thread=write.thread,
        usage=write.usage or turn.usage,
    )


def _still_open(tables: Tables, write: SpendTurn | CloseTurn) -> tuple[tuple[str, str, int], Turn]:
    key = (write.task_id, write.step, write.attempt)
    turn = tables.turns.get(key)
    if turn is None or turn.outcome is not None:
        raise IllegalWrite(
            f"{write.task_id}: attempt {write.attempt} of {write.step!r} is not open"
        )
    return key, turn


def _append_envelope(tables: Tables, write: AppendEnvelope) -> None:
    session = write.envelope.session_id
    tables.envelopes[session] = (*tables.envelopes.get(session, ()), write.envelope)


def _put_ticket(tables: Tables, write: PutTicket) -> None:
    ticket, key = write.ticket, (write.session_id, write.ticket.id)
    known = tables.tickets.get(key)
    if (known.state if known else None) != write.before:
        was = "there already" if write.before is None else f"not {write.before}"
        raise IllegalWrite(f"{write.session_id}: ticket {ticket.id} is {was}")
    if write.before is not None and write.before != ticket.state:
        try:
            check_move(ticket.id, write.before, ticket.state)
        except IllegalMove as problem:
            raise IllegalWrite(f"{write.session_id}: {problem}") from None
    tables.tickets[key] = ticket


def _take_request(tables: Tables, write: TakeRequest) -> None:
    tables.requests.pop(write.request_id, None)


def _set_aside(tables: Tables, write: SetAside) -> None:
    task_id = write.task_id
    renamed = {(task_id, name): write.prefix + name for name in write.names}
    steps = [(renamed.get(key, key[1]), step) for key, step in tables.steps.items()]
    tables.steps = {(step.task_id, name): replace(step, name=name) for name, step in steps}
    turns = [
        replace(turn, step=renamed.get((turn.task_id, turn.step), turn.step))
        for turn in tables.turns.values()
    ]
    tables.turns = {(turn.task_id, turn.step, turn.attempt): turn for turn in turns}


def _set_member_state(tables: Tables, write: SetMemberState) -> None:
    if write.state in KEPT_STATES:
        tables.member_states[write.task_id, write.member] = write
    else:
        tables.member_states.pop((write.task_id, write.member), None)


_APPLY: dict[type, Callable[[Tables, Any], None]] = {
    AppendEvent: _append_event,
    AppendMessage: _append_message,
    AppendAudit: _append_audit,
    AppendThread: _append_thread,
    OpenStep: _open_step,
    CloseStep: _close_step,
    OpenTurn: _open_turn,
    SpendTurn: _spend_turn,
    CloseTurn: _close_turn,
    AppendEnvelope: _append_envelope,
    PutTicket: _put_ticket,
    TakeRequest: _take_request,
    SetAside: _set_aside,
    SetMemberState: _set_member_state,
}
