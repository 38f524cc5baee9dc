"""One run of one task: what its parts share, and how its writes are redacted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import anyio

from coterie.model import instant
from coterie.model.conversation import Message, spoken
from coterie.model.interaction import Display, Interaction
from coterie.model.journal import (
    AppendAudit,
    AppendEvent,
    AppendThread,
    CloseTurn,
    Fence,
    Request,
    SetMemberState,
    Write,
)
from coterie.model.record import ErrorRecord, MemberRecord, MemberState
from coterie.model.redaction import Redactor
from coterie.model.task import (
    Event,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    UserInteractionRequested,
)
from coterie.model.team import Member
from coterie.ports import Channels, Checks, Ledger, Observer, Snapshots, Storage


def redacted(write: Write, by: Redactor) -> Write:
    """The write without secrets.  Messages are mended when they are made: others quote them."""
    match write:
        case AppendAudit(entry):
            given = by.mapping(entry.input) if entry.input is not None else None
            output = by.mapping(entry.output) if entry.output is not None else None
            if given == entry.input and output == entry.output:
                return write  # as good as always
            return AppendAudit(replace(entry, input=given, output=output))
        case AppendEvent(event, step):
            return AppendEvent(_event(event, by), step)
        case AppendThread(entry=text):
            kept = _json(text, by)
            return write if kept is text else replace(write, entry=kept)
        case CloseTurn(detail=str(text)):
            return replace(write, detail=by.text(text))
        case SetMemberState(reason=text):
            return replace(write, reason=by.text(text))
        case _:
            return write


def _json(text: str, by: Redactor) -> str:
    """JSON without secrets, value by value: cut out of the text, one could take a quote along."""
    if by.text(text) == text:
        return text
    return json.dumps(by.value(json.loads(text)), ensure_ascii=False, separators=(",", ":"))


def _event(event: Event, by: Redactor) -> Event:
    match event:
        case UserInteractionRequested(interaction=asked):
            return event.model_copy(update={"interaction": _without(asked, by)})
        case TaskCompleted(summary=text):
            return event.model_copy(update={"summary": by.text(text)})
        case TaskFailed(message=text):
            return event.model_copy(update={"message": by.text(text)})
        case _:
            return event


def _without(asked: Interaction, by: Redactor) -> Interaction:
    shown = asked.display
    display = Display(
        title=by.text(shown.title),
        description=by.text(shown.description),
        content=by.text(shown.content),
        content_kind=shown.content_kind,
    )
    about = asked.about
    if about is not None:
        kept = by.mapping(about.model_dump(mode="json", by_alias=False))
        about = type(about).model_validate(kept)
    options = tuple(
        option.model_copy(update={"label": by.text(option.label), "detail": by.text(option.detail)})
        for option in asked.options
    )
    return asked.model_copy(update={"display": display, "about": about, "options": options})


class NoLedger:
    """`ports.Ledger` of tasks that are told in no files."""

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
    ledger: Ledger = NoLedger()
    """Where what is recorded of a session is also told in files."""
    waits_for_limits: bool = False
    """Whether the end of a rate limit is waited for, however long that takes."""


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
    conversation: list[Message]
    services: RunServices = RunServices()
    words: list[Request] = field(default_factory=list[Request])
    """What people said and the workflow has not taken in yet."""
    has_words: anyio.Event = field(default_factory=anyio.Event)
    """Set when there are any."""
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
        kept = [redacted(write, self.services.redactor) for write in writes]
        await self.storage.commit(self.fence, *kept, after=after)

    def post(self, *writes: Write, after: Callable[[], None] | None = None) -> None:
        """Write soon: for what only closes what was opened."""
        kept = [redacted(write, self.services.redactor) for write in writes]
        self.storage.post(self.fence, *kept, after=after)

    def name_of(self, member_id: str) -> str:
        """How a member is called in a prompt."""
        member = self.task.team.seated(member_id)
        return member.name if member else member_id

    def message(self, author: str, said: str, *, turn: int, cut: bool = False) -> Message:
        """The next message of the conversation, its markers read and taken off."""
        place = len(self.conversation) + 1
        raw = Message(self.task.task_id, place, author, "", instant.now(), turn, cut=cut)
        message, unknown = spoken(self.task.team, raw, self.services.redactor.text(said))
        for name in unknown:
            self._warn_of(name, author)
        return message

    def show_state(self, member: Member, state: MemberState, reason: str = "") -> None:
        """Let surfaces know what a member is doing; a person only ever waits or is idle."""
        if member.type == "human" and state in ("starting", "working"):
            return
        record = MemberRecord(self.task.task_id, member.id, state, reason, instant.now())
        self.observer.saw(record)

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
