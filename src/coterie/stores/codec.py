"""One way between values and rows, whichever database holds them.

A codec for each stored type is made from the type's own fields: a field is a column of the same
name; what a column cannot hold as it is, such as a mapping, is JSON in it.  How far a database
goes is kept in a file besides.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import typing
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from coterie.model import journal
from coterie.model.conversation import Message
from coterie.model.incident import PendingNotification
from coterie.model.interaction import NOBODY, Question
from coterie.model.task import (
    EVENT,
    Event,
    TaskCreated,
    TaskRow,
    UserInteractionRequested,
    UserInteractionResponded,
    title_of,
)
from coterie.model.team import Reservation
from coterie.model.ticket import Moment, Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.workspace.beneath import open_file, opened_folder, read_file

if TYPE_CHECKING:  # a format of its own, which only a session with tickets needs
    from coterie.model.envelope import Envelope

T = TypeVar("T")
Value = str | int | bytes | None
"""What a column may hold."""
Row = tuple[Any, ...]
"""What a database gives back; its columns hold what the schema says."""
Convert = Callable[[Any], Any]


class Codec(Generic[T]):
    """Between the values of a dataclass and rows of `columns`, in this order."""

    def __init__(
        self,
        kind: type[T],
        *,
        first: Sequence[str] = (),
        alone: Sequence[str] | None = None,
        apart: Sequence[str] = (),
    ) -> None:
        """The columns are the fields in their order, but for those that come `first`.

        Where `alone` is given, only these have a column each; the others share one, `body`.
        Fields in `apart` are kept in another table: the caller adds them.
        """
        hints = typing.get_type_hints(kind)
        names = [name for name in hints if name not in apart]
        names.sort(key=lambda name: first.index(name) if name in first else len(first))
        self.kind = kind
        self._body = [] if alone is None else [name for name in names if name not in alone]
        own = [name for name in names if name not in self._body]
        self.columns: tuple[str, ...] = (*own, "body") if self._body else tuple(own)
        self._fields = attrgetter(*own)
        self._by_name = bool(first or self._body)
        converted = [(place, hints[name]) for place, name in enumerate(own)]
        converted = [(place, hint) for place, hint in converted if _is_converted(hint)]
        self._encoders = [(place, int if _fits(hint) else json_of) for place, hint in converted]
        self._decoders = [
            (place, bool if _fits(hint) else _read(hint)) for place, hint in converted
        ]
        self._shapes = {name: hints[name] for name in self._body if not _fits(hints[name])}

    def row(self, value: T) -> tuple[Value, ...]:
        """The value as a row."""
        own: tuple[Any, ...] = self._fields(value)
        if self._encoders:
            own = _with(own, self._encoders)
        if self._body:
            return (*own, json_of({name: getattr(value, name) for name in self._body}))
        return own

    def value(self, row: Row, **apart: object) -> T:
        """The value of a row; `apart` are the fields that are kept in another table."""
        if self._decoders:
            row = _with(row, self._decoders)
        if not self._by_name:
            return self.kind(*row, **apart)
        found: dict[str, Any] = dict(zip(self.columns, row, strict=True))
        if self._body:
            # What was written before a field was there has none of it: that is its default.
            found.update(json.loads(found.pop("body")))
            for name in self._shapes.keys() & found.keys():
                found[name] = _shape(self._shapes[name])(found[name])
        return self.kind(**found, **apart)


def _with(row: Row, converters: Sequence[tuple[int, Convert]]) -> Row:
    """The row with some of its fields converted, where they are not None."""
    fields = list(row)
    for place, convert in converters:
        if fields[place] is not None:
            fields[place] = convert(fields[place])
    return tuple(fields)


def _fits(hint: Any) -> bool:
    """Whether a column holds it as it is, or as a number."""
    return all(
        kind in (str, int, bool) or typing.get_origin(kind) is Literal for kind in _kinds(hint)
    )


def _is_converted(hint: Any) -> bool:
    """Whether a column holds something else: it knows no booleans, mappings or tuples."""
    return not _fits(hint) or bool in _kinds(hint)


def _read(hint: Any) -> Convert:
    return lambda text: _shape(hint)(json.loads(text))


@cache
def _shape(hint: Any) -> Convert:
    """What makes the type of a field from JSON that was read."""
    return TypeAdapter(hint).validate_python


def _kinds(hint: Any) -> list[Any]:
    """The types of a union, or the only one; without None."""
    union = typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)
    return [each for each in union if each is not NoneType]


# -- documents: values that are one JSON text --------------------------------------------------


def event_text(event: Event) -> str:
    """An event as JSON."""
    try:
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # Half a surrogate pair somewhere in what an agent wanted to be asked.
        return json_of(event.model_dump(by_alias=True))


def event_of(row: Row) -> Event:
    """An event from its JSON, the only column."""
    return EVENT.validate_json(row[0])


def envelope_text(envelope: Envelope) -> str:
    """An envelope as JSON."""
    return envelope.model_dump_json(exclude_none=True)


def envelope_of(row: Row) -> tuple[int, Envelope]:
    """An envelope with its number, from both columns."""
    from coterie.model.envelope import Envelope

    return row[0], Envelope.model_validate_json(row[1])


def chained_of(row: Row) -> ChainedEntry:
    """A row of the audit with its number, its hash and the one before it."""
    sequence, *entry, own, previous = row  # the first has none before it
    before = "" if previous is None else previous.hex()
    return ChainedEntry(sequence, before, own.hex(), AUDIT.value(tuple(entry)))


def turn_of(row: Row) -> journal.Turn:
    """A turn from its columns and `opened`, which only says in which order they are."""
    return TURN.value(row[:-1])


def question_of(row: Row) -> Question:
    """A question from its step, its state and the events that asked and answered it."""
    step, state, asked, answered = row
    request = cast("UserInteractionRequested", EVENT.validate_json(asked))
    question = Question(request.interaction, step, state, request.at)
    if answered is None:
        return question
    answer = cast("UserInteractionResponded", EVENT.validate_json(answered))
    return replace(question, response=answer.response, answered_at=answer.at)


def json_of(value: object) -> str:
    """A value as JSON; what JSON cannot say is kept as its text."""
    return mended(_COMPACT.encode(value))


def _jsonable(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_jsonable)


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where the other is missing.

    An agent may print one half of a character as an escape; UTF-8 has no way to keep that.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended_row(row: Iterable[Value]) -> tuple[Value, ...]:
    """The row with every text mended; only worth its time where writing it has failed."""
    return tuple(mended(field) if isinstance(field, str) else field for field in row)


# The order in which a row of the audit is hashed, and `coterie audit --export` documents it.
AUDIT = Codec(AuditEntry, first=["task_id"])
CHILD = Codec(journal.ChildLease)
LEASE = Codec(journal.Lease)
MEMBER_STATE = Codec(journal.SetMemberState)
MESSAGE = Codec(Message)
MOMENT = Codec(Moment)
OPENING = Codec(journal.OpenTurn)
PENDING_NOTIFICATION = Codec(PendingNotification)
REQUEST = Codec(journal.Request)
RESERVATION = Codec(Reservation)
STEP = Codec(journal.Step)
TASK = Codec(TaskRow)
TICKET = Codec(Ticket, alone=["id", "state"], apart=["history"])
TURN = Codec(journal.Turn)

_CODECS: Sequence[Codec[Any]] = (
    AUDIT, CHILD, LEASE, MEMBER_STATE, MESSAGE, MOMENT, OPENING, PENDING_NOTIFICATION, REQUEST,
    RESERVATION, STEP, TASK, TICKET, TURN,
)  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {codec.kind.__name__: codec.columns for codec in _CODECS}
"""The columns of each stored type, by its name."""


# -- what is derived from events, and how rows are chained ---------------------------------------

KEPT_STATES = frozenset({"waiting", "quiet", "stuck"})
"""Member states that other processes are shown; any other one takes the row away again."""


def chained(previous: bytes, row: Sequence[Value]) -> bytes:
    """The hash of a row that follows a row with the hash `previous` (empty for the first)."""
    return hashlib.sha256(previous + _COMPACT.encode(row).encode()).digest()


def hashed_after_number(row: Sequence[Value]) -> str:
    """What is hashed of a row behind its number, where the database gives it that."""
    return _COMPACT.encode(row)[1:]


def task_row(event: TaskCreated) -> tuple[Value, ...]:
    """A task as its first event makes it."""
    row = TaskRow(
        id=event.task_id,
        session_id=event.session_id,
        parent_id=event.parent_id,
        workflow=event.workflow,
        title=title_of(event.goal),
        status="created",
        reason="",
        created_at=event.at,
        changed_at=event.at,
    )
    return TASK.row(row)


def question_state(event: UserInteractionResponded) -> str:
    """How a question stands once it was answered: an answer by nobody only closes it."""
    return "closed" if event.response.author_actor_id == NOBODY else "answered"


# -- the head of a database, as it is kept outside of it -----------------------------------------

HEAD_LENGTH = 512
"""How long the file of the head always is, in bytes."""


@dataclass(frozen=True)
class Head:
    """The last event and the last row of the audit then: number and hash of each.

    A database that is older than that, or has another history, lost some.
    """

    sequence: int
    hash: str
    audit: int = 0
    audit_hash: str = ""


class HeadFile:
    """A file with the head of a database, and the lock under which it is written.  Blocks."""

    def __init__(self, base: Path, *names: str) -> None:
        """The file that these names lead to from `base`, which is a `.coterie`."""
        self._base = base
        self._names = names
        self._file: int | None = None
        """Kept open: to find it anew from there costs more than to write it."""

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self) -> Head | None:
        """What the file says; None where there is none or a crash of the machine spoiled it."""
        try:
            return _head_in(read_file(self._base, *self._names))
        except FileNotFoundError:
            return None

    def raise_to(self, head: Head) -> None:
        """Write the head unless a later one is there already.

        Where the lock stays busy (its holder was stopped) nothing is written: a head that is
        too low only shows less.  One write of one length, in place: a process that is killed
        leaves the old head or the new one.
        """
        with self.locked(wait=0.1) as file:
            if file is None:
                return
            known = _head_in(os.pread(file, HEAD_LENGTH, 0))
            if known is None or known.sequence < head.sequence:
                os.pwrite(file, json.dumps(vars(head)).ljust(HEAD_LENGTH).encode(), 0)

    @contextmanager
    def locked(self, wait: float) -> Generator[int | None]:
        """The file, open and locked; None where the lock cannot be had in `wait` seconds."""
        file = self._opened()
        try:
            yield file if _flocked(file, time.monotonic() + wait) else None
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _opened(self) -> int:
        if self._file is not None and os.fstat(self._file).st_nlink != 1:
            self.close()  # it was removed, or has a second name
        if self._file is None:
            path = self._base.joinpath(*self._names)
            with opened_folder(self._base, *self._names[:-1], make=True) as folder:
                self._file = open_file(folder, path, os.O_RDWR | os.O_CREAT)
        return self._file


def _head_in(content: bytes) -> Head | None:
    try:
        found = json.loads(content)
        audit = int(found.get("audit", 0)), str(found.get("audit_hash", ""))
        return Head(int(found["sequence"]), str(found["hash"]), *audit)
    except (ValueError, KeyError, TypeError):
        return None


def _flocked(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)
        else:
            return True
