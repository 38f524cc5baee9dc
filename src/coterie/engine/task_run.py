"""One run of one task: its journal, what its parts share, and how its writes are redacted."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio

from coterie.errors import StepRepeated
from coterie.model import instant, step_name
from coterie.model.conversation import Message, marked_by, pick
from coterie.model.interaction import Response
from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendThread,
    CloseStep,
    CloseTurn,
    Fence,
    PutTicket,
    Request,
    SetMemberState,
    Step,
    StepKind,
    Write,
    digest,
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
from coterie.model.step_name import StepName, parse
from coterie.model.task import (
    TaskCreated,
)
from coterie.model.team import Member, base_of
from coterie.model.update import WaitsFor
from coterie.ports import Channels, Checks, Observer, SessionFiles, Snapshots, Storage


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

    def __init__(self, task_id: str, steps: Sequence[Step]) -> None:
        """`steps` in the order in which they were opened."""
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

    def answers(self) -> Iterator[tuple[StepName, Step, Response]]:
        """All that was asked in turns and answered, in order."""
        for text, step in self._steps.items():
            name = parse(text)
            if name.asked_in is not None and step.kind == "ask" and step.result is not None:
                yield name, step, Response.model_validate_json(step.result)

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


def question_about(change: WorkflowChanged, number: int) -> str:
    """The name of the step that asks what to do about a changed workflow."""
    return step_name.workflow_changed(change.step, change.digest, number)


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
                names = list(counted)
                for later in names[names.index(name.changed) :]:
                    if parse(later).changed is None:
                        del counted[later]
        counted[step.name] = step
    return counted, frozenset(kept)


def redacted(write: Write, by: Redactor) -> Write:
    """The write without secrets.  Messages are mended when they are made: others quote them."""
    match write:
        case AppendThread(entry=text):
            kept = _json(text, by)
            return write if kept is text else write._replace(entry=kept)
        case CloseStep(result=text):
            kept = _json(text, by)
            return write if kept is text else write._replace(result=kept)
        case AppendEnvelope(envelope=said, key=key):
            kept = by.whole(said)  # signed after that: the signature is over what the file says
            return AppendEnvelope(kept.signed(key) if key else kept)
        case AppendAudit() | AppendEvent() | PutTicket():
            given = tuple(write)
            kept = by.whole(given)
            return write if kept is given else write._make(kept)
        case CloseTurn(detail=text):
            return write._replace(detail=by.text(text)) if text else write
        case SetMemberState(reason=text):
            return write._replace(reason=by.text(text)) if text else write
        case _:
            return write


def _json(text: str, by: Redactor) -> str:
    """JSON without secrets, value by value: cut out of the text, one could take a quote along."""
    if by.text(text) == text:
        return text
    return json.dumps(by.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class RedactingObserver:
    """Shows what happens without secrets."""

    observer: Observer
    by: Redactor
    _unsaid: dict[str, str] = field(default_factory=dict[str, str])
    """By member: a word that has begun, and may become a secret."""

    def saw(self, record: Record) -> None:
        """Show it; what is said piece by piece, word by word."""
        match record:
            case DeltaRecord():
                said = self._unsaid.pop(record.member, "") + record.text
                words = len(said) - len(said.rsplit(maxsplit=1)[-1]) if said.strip() else len(said)
                words = len(said) if said[-1:].isspace() else words
                self._unsaid[record.member] = said[words:]
                self._say(record, said[:words])
            case MessageRecord():  # which is without secrets, as it is kept
                rest = self._unsaid.pop(record.member, "")
                self._say(DeltaRecord(record.task, record.member, ""), rest)
                self.observer.saw(record)
            case MemberRecord(reason=""):
                self.observer.saw(record)
            case _:
                self.observer.saw(self.by.whole(record))

    def _say(self, record: DeltaRecord, words: str) -> None:
        if words:
            self.observer.saw(replace(record, text=self.by.text(words)))


class NoSessionFiles:
    """`ports.SessionFiles` of tasks without tickets: nothing is written."""

    def wake(self) -> None:
        """Nothing is to be told."""

    async def follow(self) -> None:
        """Nothing will be."""

    async def flush(self) -> None:
        """Nothing is left to tell."""


@dataclass(frozen=True)
class RunServices:
    """What is looked after while a task runs."""

    redactor: Redactor = field(default_factory=Redactor)
    snapshots: Snapshots | None = None
    """Keeps the files that turns may change; None: nobody can undo them."""
    checks: Checks | None = None
    session_files: SessionFiles = NoSessionFiles()
    """Writes what is recorded of a session to files as well."""
    at_reset: bool = False
    """Whether the end of a limit that an earlier run met is waited for before anything is tried."""
    waits_for_limits: bool = False
    """Whether the end of a rate limit is waited for, however long that takes."""
    guarded: frozenset[str] = frozenset()
    """Names in a repository that agents take settings from: no edit there goes unasked."""
    unbegun: Callable[[list[str]], Sequence[str]] = lambda entries: ()
    """From the entries of a thread of our own agent: the calls that it had yet to make."""


class MemberStops:
    """Which members the user has stopped.  What such a member does is cut off, and a turn of it
    fails: the one that it was in, or else its next."""

    def __init__(self) -> None:
        self._requests: dict[int, str] = {}
        """What was asked for, and is not done yet: by the request, whom it names."""
        self._scopes: dict[str, anyio.CancelScope] = {}
        """By member: what it does now."""

    def stop(self, request: int, seat: str) -> None:
        """The user stopped a member, or one of its instances."""
        self._requests[request] = seat
        for busy, scope in self._scopes.items():
            if seat in (busy, base_of(busy)):
                scope.cancel()

    @contextmanager
    def stoppable(self, seat: str) -> Generator[None]:
        """What a member does in the block is cut off where it is stopped, or was."""
        with anyio.CancelScope() as scope:
            self._scopes[seat] = scope
            if self._of(seat):
                scope.cancel()
            try:
                yield
            finally:
                del self._scopes[seat]

    def taken(self, seat: str) -> list[int]:
        """The requests that are done, now that a turn of the member has failed."""
        done = self._of(seat)
        for request in done:
            del self._requests[request]
        return done

    def _of(self, seat: str) -> list[int]:
        named = (seat, base_of(seat))
        return [request for request, whom in self._requests.items() if whom in named]


@dataclass
class TaskRun:
    """One run of one task."""

    task: TaskCreated
    fence: Fence
    storage: Storage
    channels: Channels
    observer: Observer
    patience: float | None
    """How long an open question is waited for; None for ever."""
    journal: Journal
    conversation: list[Message]
    services: RunServices = RunServices()
    words: list[Request] = field(default_factory=list[Request])
    """What people said and the workflow has not taken in yet."""
    has_words: anyio.Event = field(default_factory=anyio.Event)
    """Set when there are any."""
    stops: MemberStops = field(default_factory=MemberStops)
    _seen: set[int] = field(default_factory=set[int])

    def is_new(self, request_id: int) -> bool:
        """Whether this run sees a request for the first time."""
        if request_id in self._seen:
            return False
        self._seen.add(request_id)
        return True

    def hear(self, request: Request) -> None:
        """Keep what somebody said for the workflow."""
        self.words.append(request)
        self.has_words.set()

    async def commit(self, *writes: Write, after: Callable[[], None] | None = None) -> None:
        """Write and wait: for what gates an effect."""
        await self.storage.commit(self.fence, *self._redacted(writes), after=after)

    def post(self, *writes: Write, after: Callable[[], None] | None = None) -> None:
        """Write soon: for what only closes what was opened."""
        self.storage.post(self.fence, *self._redacted(writes), after=after)

    def _redacted(self, writes: Sequence[Write]) -> list[Write]:
        return [redacted(one, self.services.redactor) for one in writes]

    def name_of(self, member_id: str) -> str:
        """How a member is called in a prompt."""
        member = self.task.team.seated(member_id)
        return member.name if member else member_id

    def message(self, author: str, said: str, *, turn: int, cut: bool = False) -> Message:
        """The next message of the conversation, its markers read and taken off."""
        marked = marked_by(self.task.team, author, self.services.redactor.text(said))
        chosen, unknown = pick(self.task.team, marked.names)
        for name in unknown:
            self._warn_of(name, author)
        return Message(
            self.task.task_id,
            len(self.conversation) + 1,
            author,
            marked.text,
            instant.now(),
            turn,
            chosen.id if chosen else None,
            marked.done,
            cut,
        )

    def show_state(self, member: Member, state: MemberState, reason: str = "") -> None:
        """Let surfaces know what a member is doing; a person only ever waits or is idle."""
        if member.type == "human" and state in ("starting", "working"):
            return
        record = MemberRecord(self.task.task_id, member.id, state, reason, instant.now())
        self.observer.saw(record)

    def keep_state(
        self,
        member: Member,
        state: MemberState,
        waits_for: WaitsFor | None = None,
        reason: str = "",
        until: str | None = None,
    ) -> None:
        """Show a state that cannot be known from what is recorded anyway, and keep it, so that it
        is known to other processes too."""
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
