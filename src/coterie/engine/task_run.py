"""One run of one task: what its parts share, and how its writes are redacted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

import anyio

from coterie.model import instant
from coterie.model.conversation import Message, parse_message, pick
from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendThread,
    CloseStep,
    CloseTurn,
    Fence,
    Journal,
    PutTicket,
    Request,
    SetMemberState,
    TaskHistory,
    Write,
)
from coterie.model.record import (
    DeltaRecord,
    ErrorRecord,
    MemberRecord,
    MemberState,
    MessageRecord,
    Record,
)
from coterie.model.redaction import Redactor
from coterie.model.step_name import parse
from coterie.model.task import Status, TaskCreated, TaskStarted, ticket_task, transition
from coterie.model.team import Member, is_instance_of
from coterie.model.update import Usage, WaitsFor
from coterie.ports import (
    Blobs,
    Channels,
    Checks,
    FindRemote,
    HandOut,
    Observer,
    Owners,
    SessionFiles,
    Snapshots,
    Storage,
)
from coterie.ports.machines import require_lease


def _thread(write: AppendThread, by: Redactor) -> Write:
    clean = redacted_json(write.entry, by)
    return write if clean is write.entry else write._replace(entry=clean)


def _step(write: CloseStep, by: Redactor) -> Write:
    clean = redacted_json(write.result, by)
    return write if clean is write.result else write._replace(result=clean)


def _envelope(write: AppendEnvelope, by: Redactor) -> Write:
    # Redact before signing: the signature covers the stored text.
    clean = by.redact_object(write.envelope)
    return AppendEnvelope(clean.signed(write.key) if write.key else clean)


def _all_fields(write: AppendAudit | AppendEvent | PutTicket, by: Redactor) -> Write:
    clean = [by.redact_object(one) for one in write]
    return write if all(map(is_, clean, write)) else write._make(clean)


def _turn(write: CloseTurn, by: Redactor) -> Write:
    return write._replace(detail=by.text(write.detail)) if write.detail else write


def _state(write: SetMemberState, by: Redactor) -> Write:
    return write._replace(reason=by.text(write.reason)) if write.reason else write


_REDACTED: Mapping[type, Callable[[Any, Redactor], Write]] = {
    AppendThread: _thread,
    CloseStep: _step,
    AppendEnvelope: _envelope,
    AppendAudit: _all_fields,
    AppendEvent: _all_fields,
    PutTicket: _all_fields,
    CloseTurn: _turn,
    SetMemberState: _state,
}


def redacted(write: Write, by: Redactor) -> Write:
    """The write without secrets.  Messages are redacted when created, as others quote them."""
    redact = _REDACTED.get(type(write))
    return redact(write, by) if redact else write


def redacted_json(text: str, by: Redactor) -> str:
    """Redact JSON value by value: redacting the text could remove a quote along with a secret."""
    if by.text(text) == text:
        return text
    return json.dumps(by.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class RedactingObserver:
    """Shows records to an observer with secrets redacted."""

    observer: Observer
    by: Redactor
    _pending: dict[str, str] = field(default_factory=dict[str, str])
    """By member: the beginning of a word, which may turn out to be a secret."""

    def begin(self, member: str) -> None:
        """Drop what the member's last attempt began to say, if it ended without a message."""
        self._pending.pop(member, None)

    def saw(self, record: Record) -> None:
        """Show a record; text that arrives in pieces is shown word by word."""
        match record:
            case DeltaRecord():
                text = self._pending.pop(record.member, "") + record.text
                last = 0 if text[-1:].isspace() or not text else len(text.rsplit(maxsplit=1)[-1])
                # A secret may span words and lines.
                words = self.by.secret_start(text[: len(text) - last])
                self._pending[record.member] = text[words:]
                self._say(record, text[:words])
            case MessageRecord():  # redacted already, as stored
                rest = self._pending.pop(record.member, "")
                self._say(DeltaRecord(record.task, record.member, ""), rest)
                self.observer.saw(record)
            case MemberRecord(reason=""):
                self.observer.saw(record)
            case _:
                self.observer.saw(self.by.redact_object(record))

    def _say(self, record: DeltaRecord, words: str) -> None:
        if words:
            self.observer.saw(replace(record, text=self.by.text(words)))


class NoSessionFiles:
    """`ports.SessionFiles` for tasks without tickets: nothing is written."""

    def wake(self) -> None:
        """Do nothing."""

    async def follow(self) -> None:
        """Return at once: nothing will be written."""

    async def flush(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class RunServices:
    """The services that a running task uses, and how they are set."""

    redactor: Redactor = field(default_factory=Redactor)
    snapshots: Snapshots | None = None
    """Keeps the files that turns may change; None if changes cannot be undone."""
    checks: Checks | None = None
    session_files: SessionFiles = NoSessionFiles()
    """Writes what is recorded of a session to files as well."""
    at_reset: bool = False
    """Whether to wait for the end of a limit that an earlier run hit before trying anything."""
    waits_for_limits: bool = False
    """Whether to wait for the end of a rate limit, however long that takes."""
    guarded: frozenset[str] = frozenset()
    """Names in a repository from which agents take settings: every edit there is asked about."""
    notifies: bool = False
    """Whether the user is notified of questions and of the end of a task."""
    machine: str | None = None  # this machine's name in a shared store
    blobs: Blobs | None = None  # holds what goes to other machines; None if there are none
    find_remote: FindRemote = lambda: None  # the repository by which branches reach others
    hand_out: HandOut | None = None  # None: child tasks are run here
    for_others: bool = False  # whether this machine runs the task on behalf of another
    unstarted: Callable[[list[str]], Sequence[str]] = lambda entries: ()
    """Returns, from the entries of a thread of our own agent, the calls not begun yet."""


class MemberStops:
    """The members that the user has stopped.  What such a member is doing is cut off, and one of
    its turns fails: the current one, or else the next."""

    def __init__(self) -> None:
        self._requests: dict[int, str] = {}
        """Pending requests: by id, the member that each one names."""
        self._scopes: dict[str, anyio.CancelScope] = {}  # by member: of what it does, or did last

    def stop(self, request: int, instance: str) -> None:
        """Stop a member, or one of its instances, as the user requested."""
        self._requests[request] = instance
        for busy, scope in self._scopes.items():
            if is_instance_of(instance, busy):
                scope.cancel()

    def cancellable(self, instance: str, scope: anyio.CancelScope) -> anyio.CancelScope:
        """Register the scope of what the member does from now on: it is cancelled when the member
        is stopped, or at once if it already was."""
        self._scopes[instance] = scope
        if self.is_stopped(instance):
            scope.cancel()
        return scope

    def is_stopped(self, instance: str) -> bool:
        """Whether the member was stopped and no turn of it has failed for that yet."""
        return bool(self._requests and self._of(instance))

    def take_done(self, instance: str) -> list[int]:
        """Remove and return the requests that are done, as a turn of the member has failed."""
        done = self._of(instance)
        for request in done:
            del self._requests[request]
        return done

    def _of(self, instance: str) -> list[int]:
        return [
            request for request, whom in self._requests.items() if is_instance_of(whom, instance)
        ]


@dataclass
class TaskRun:
    """One run of one task."""

    task: TaskCreated
    fence: Fence
    storage: Storage
    channels: Channels
    observer: RedactingObserver
    wait: float | None
    """How long to wait for the answer to an open question, in seconds; None: forever."""
    journal: Journal
    conversation: list[Message]
    services: RunServices = RunServices()
    unread: list[Request] = field(default_factory=list[Request])
    """Messages from people that the workflow has not read yet."""
    has_unread: anyio.Event = field(default_factory=anyio.Event)  # set when there are any
    stops: MemberStops = field(default_factory=MemberStops)
    owners: Owners = field(kw_only=True)  # tells which owners are alive
    children: dict[str, Status] = field(default_factory=dict[str, "Status"])
    """By id: the status of the tickets that are carried out as part of the task."""
    usages: list[Usage] = field(default_factory=list[Usage])
    """What the attempts of this run cost, as far as their agents reported it."""
    used_elsewhere: bool = False  # whether turns, of it or below it, were taken in other runs too
    parts: dict[str, bool] = field(default_factory=dict[str, bool])
    """By id: subtasks and handed-out turns waited for; whether each ends if it is interrupted."""
    _conversations: dict[str, list[Message]] = field(default_factory=dict[str, list[Message]])
    """By ticket: its conversation."""
    _seen: set[int] = field(default_factory=set[int])

    @property
    def has_budgets(self) -> bool:
        """Whether any budget applies; a rehearsal uses nothing, so none applies to it."""
        team = self.task.team
        limited = any(one.budget.is_set for one in (team, *team.members))
        return limited and not self.task.rehearsal

    def is_new(self, request_id: int) -> bool:
        """Whether this run sees a request for the first time."""
        if request_id in self._seen:
            return False
        self._seen.add(request_id)
        return True

    def queue_message(self, request: Request) -> None:
        """Queue what somebody said for the workflow, once."""
        self._seen.add(request.id)
        if request not in self.unread:
            self.unread.append(request)
        self.has_unread.set()

    def acted_on(self, request: Request) -> None:
        """Drop a message that was used as an answer: the workflow must not read it as well."""
        self._seen.add(request.id)
        self.unread[:] = [one for one in self.unread if one.id != request.id]

    def load(self, history: TaskHistory) -> None:
        """Restore the state of the run from what is recorded."""
        self.children, self._conversations = dict(history.children), {}
        self.used_elsewhere = self.used_elsewhere or bool(history.turns)
        self.conversation = []
        for message in history.messages:
            self.conversation_of(message.task_id).append(message)

    def conversation_of(self, task_id: str) -> list[Message]:
        """The conversation so far in this task or in one of its tickets."""
        if task_id == self.task.task_id:
            return self.conversation
        return self._conversations.setdefault(task_id, [])

    @property
    def answered_turns(self) -> list[int]:
        """The numbers of the turns that produced a message."""
        every = (self.conversation, *self._conversations.values())
        return [message.turn for messages in every for message in messages if message.turn]

    def task_of(self, step: str) -> str:
        """The task that a step belongs to: the ticket that it is about, else this task."""
        task_id, about = self.task.task_id, parse(step).ticket if self.children else None
        child = ticket_task(task_id, about) if about else task_id
        return child if child in self.children else task_id

    def starting(self, task_id: str) -> list[Write]:
        """The writes that start a ticket, if it was not started yet."""
        if self.children.get(task_id) != "created":
            return []
        self.children[task_id] = "running"
        return [AppendEvent(TaskStarted(task_id=task_id, at=instant.now()))]

    def note_children(self, writes: Sequence[Write]) -> None:
        """Keep track of the tickets that writes create or end."""
        for write in writes:
            if isinstance(write, AppendEvent):
                known = self.children.get(write.event.task_id)
                before = (known, frozenset[str]()) if known else None
                self.children[write.event.task_id], _ = transition(before, write.event)

    async def commit(self, *writes: Write, after: Callable[[], None] | None = None) -> None:
        """Write and wait: for whatever must be recorded before an effect."""
        await self.storage.commit(self.fence, *self._redacted(writes), after=after)

    def post(self, *writes: Write, after: Callable[[], None] | None = None) -> None:
        """Write soon, without waiting: for whatever only closes what was opened."""
        self.storage.post(self.fence, *self._redacted(writes), after=after)

    def _redacted(self, writes: Sequence[Write]) -> list[Write]:
        if self.owners.deadline is not None:  # past it, an agent did not fail but was ended
            require_lease(self.owners.deadline)
        return [redacted(one, self.services.redactor) for one in writes]

    def name_of(self, member_id: str) -> str:
        """What a member is called in a prompt."""
        member = self.task.team.instance(member_id)
        return member.name if member else member_id

    def message(
        self, author: str, text: str, *, turn: int, cut: bool = False, task_id: str | None = None
    ) -> Message:
        """The next message of the conversation, its markers parsed and removed; `task_id` is the
        ticket in which it is said."""
        task_id = task_id or self.task.task_id
        marked = parse_message(self.task.team, author, self.services.redactor.text(text))
        chosen, unknown = pick(self.task.team, marked.names)
        for name in unknown:
            self._warn_of(name, author)
        return Message(
            task_id,
            len(self.conversation_of(task_id)) + 1,
            author,
            marked.text,
            instant.now(),
            turn,
            chosen.id if chosen else None,
            marked.done,
            cut,
        )

    def show_state(
        self, member: Member, state: MemberState, reason: str = "", at: str | None = None
    ) -> None:
        """Let surfaces know what a member is doing; a person only ever waits or is idle."""
        if member.type == "human" and state in ("starting", "working"):
            return
        at = at or instant.now()
        self.observer.saw(MemberRecord(self.task.task_id, member.id, state, reason, at))

    def keep_state(
        self,
        member: Member,
        state: MemberState,
        waits_for: WaitsFor | None = None,
        reason: str = "",
        until: str | None = None,
    ) -> None:
        """Show a state that cannot be derived from other records, and store it so that other
        processes know it too."""
        task, now = self.task.task_id, instant.now()
        self.post(SetMemberState(task, member.id, state, reason, now, waits_for, until))
        record = MemberRecord(task, member.id, state, reason, now)
        self.observer.saw(replace(record, waits_for=waits_for, until=until))

    def _warn_of(self, name: str, author: str) -> None:
        known = ", ".join(member.id for member in self.task.team.in_order)
        self.observer.saw(
            ErrorRecord(
                code="unknown_next",
                message=f'{author} named "{name}" as next speaker; the team has {known}.',
                member=author,
                task=self.task.task_id,
            )
        )
