"""Conversion between values and rows, the same for every database; and the head file.

The codec of a stored type is derived from its fields: each field is a column of the same name, and
a value that a column cannot hold directly, such as a mapping, is stored in it as JSON.  The head
file records how far a database goes.
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
from coterie.model.interaction import Question
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
from coterie.workspace.beneath import open_file, open_folder, read_file

if TYPE_CHECKING:  # a separate format that only sessions with tickets need
    from coterie.model.envelope import Envelope

T = TypeVar("T")
Value = str | int | bytes | None
"""The values that a column may hold."""
Row = tuple[Any, ...]
"""A row as returned by a database; the schema determines the types of its columns."""
Convert = Callable[[Any], Any]


class Codec(Generic[T]):
    """Converts between values of a dataclass and rows of `columns`, in this order."""

    def __init__(
        self,
        kind: type[T],
        *,
        first: Sequence[str] = (),
        own_columns: Sequence[str] | None = None,
        stored_elsewhere: Sequence[str] = (),
    ) -> None:
        """The columns are the fields in order, except that those in `first` come first.

        If `own_columns` is given, only these fields have a column each; the others share one,
        `body`.  Fields in `stored_elsewhere` are in another table: the caller supplies them.
        """
        hints = typing.get_type_hints(kind)
        names = [name for name in hints if name not in stored_elsewhere]
        names.sort(key=lambda name: first.index(name) if name in first else len(first))
        self.kind = kind
        self._body = (
            [] if own_columns is None else [name for name in names if name not in own_columns]
        )
        own = [name for name in names if name not in self._body]
        self.columns: tuple[str, ...] = (*own, "body") if self._body else tuple(own)
        self._fields = attrgetter(*own)
        self._by_name = bool(first or self._body)
        converted = [(place, hints[name]) for place, name in enumerate(own)]
        converted = [(place, hint) for place, hint in converted if _is_converted(hint)]
        self._encoders = [
            (place, int if _is_native(hint) else json_of) for place, hint in converted
        ]
        self._decoders = [
            (place, bool if _is_native(hint) else _json_parser(hint)) for place, hint in converted
        ]
        self._body_types = {name: hints[name] for name in self._body if not _is_native(hints[name])}

    def row(self, value: T) -> tuple[Value, ...]:
        """Convert a value to a row."""
        own: tuple[Any, ...] = self._fields(value)
        if self._encoders:
            own = _converted(own, self._encoders)
        if self._body:
            return (*own, json_of({name: getattr(value, name) for name in self._body}))
        return own

    def value(self, row: Row, **stored_elsewhere: object) -> T:
        """Convert a row to a value; `stored_elsewhere` are the fields of another table."""
        if self._decoders:
            row = _converted(row, self._decoders)
        if not self._by_name:
            return self.kind(*row, **stored_elsewhere)
        fields: dict[str, Any] = dict(zip(self.columns, row, strict=True))
        if self._body:
            # Rows written before a field existed lack it, so it gets its default.
            fields.update(json.loads(fields.pop("body")))
            for name in self._body_types.keys() & fields.keys():
                fields[name] = _field_parser(self._body_types[name])(fields[name])
        return self.kind(**fields, **stored_elsewhere)


def _converted(row: Row, converters: Sequence[tuple[int, Convert]]) -> Row:
    """Return the row with these fields converted, unless they are None."""
    fields = list(row)
    for place, convert in converters:
        if fields[place] is not None:
            fields[place] = convert(fields[place])
    return tuple(fields)


def _is_native(hint: Any) -> bool:
    """Whether a column can hold the type directly, or as a number."""
    return all(
        kind in (str, int, bool) or typing.get_origin(kind) is Literal for kind in _kinds(hint)
    )


def _is_converted(hint: Any) -> bool:
    """Whether values must be converted: columns hold no booleans, mappings or tuples."""
    return not _is_native(hint) or bool in _kinds(hint)


def _json_parser(hint: Any) -> Convert:
    return lambda text: _field_parser(hint)(json.loads(text))


@cache
def _field_parser(hint: Any) -> Convert:
    """Return the conversion from parsed JSON to a field's type."""
    return TypeAdapter(hint).validate_python


def _kinds(hint: Any) -> list[Any]:
    """Return the members of a union, or the type itself; without None."""
    union = typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)
    return [each for each in union if each is not NoneType]


# -- documents: values that are one JSON text --------------------------------------------------


def event_text(event: Event) -> str:
    """An event as JSON."""
    try:
        return event.model_dump_json(by_alias=True)
    except PydanticSerializationError:
        # There is half a surrogate pair somewhere in an agent's question.
        return json_of(event.model_dump(by_alias=True))


def event_of(row: Row) -> Event:
    """Parse an event from its JSON, the only column."""
    return EVENT.validate_json(row[0])


def envelope_text(envelope: Envelope) -> str:
    """An envelope as JSON."""
    return envelope.model_dump_json(exclude_none=True)


def envelope_of(row: Row) -> tuple[int, Envelope]:
    """Parse an envelope and its number from the two columns."""
    from coterie.model.envelope import Envelope

    return row[0], Envelope.model_validate_json(row[1])


def chained_of(row: Row) -> ChainedEntry:
    """Parse an audit row with its number, its hash and the previous hash."""
    sequence, *entry, own, previous = row  # the first row has no previous hash
    before = "" if previous is None else previous.hex()
    return ChainedEntry(sequence, before, own.hex(), AUDIT.value(tuple(entry)))


def turn_of(row: Row) -> journal.Turn:
    """Parse a turn from its columns and `opened`, which only determines the order."""
    return TURN.value(row[:-1])


def question_of(row: Row) -> Question:
    """Parse a question from its step, its state and the events that asked and answered it."""
    step, state, asked, answered = row
    request = cast("UserInteractionRequested", EVENT.validate_json(asked))
    question = Question(request.interaction, step, state, request.at)
    if answered is None:
        return question
    answer = cast("UserInteractionResponded", EVENT.validate_json(answered))
    return replace(question, response=answer.response, answered_at=answer.at)


def json_of(value: object) -> str:
    """Serialize a value as JSON; what JSON cannot express is stored as its string."""
    return repair_surrogates(_COMPACT.encode(value))


def _jsonable(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_jsonable)


def repair_surrogates(text: str) -> str:
    """Return the text with the halves of surrogate pairs joined, and lone halves replaced.

    An agent may print one half of a character as an escape, which UTF-8 cannot encode.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def repair_row(row: Iterable[Value]) -> tuple[Value, ...]:
    """Repair every text of a row; costly, so most writes do it only after they have failed."""
    return tuple([repair_surrogates(field) if type(field) is str else field for field in row])


# The order in which an audit row is hashed, as documented by `coterie audit --export`.
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
TICKET = Codec(Ticket, own_columns=["id", "state"], stored_elsewhere=["history"])
TURN = Codec(journal.Turn)

_CODECS: Sequence[Codec[Any]] = (
    AUDIT, CHILD, LEASE, MEMBER_STATE, MESSAGE, MOMENT, OPENING, PENDING_NOTIFICATION, REQUEST,
    RESERVATION, STEP, TASK, TICKET, TURN,
)  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {codec.kind.__name__: codec.columns for codec in _CODECS}
"""The columns of each stored type, by type name."""


# -- what is derived from events, and how rows are chained ---------------------------------------

KEPT_STATES = frozenset({"waiting", "quiet", "stuck"})
"""Member states that are shown to other processes; any other state deletes the row."""


def chained(previous: bytes, row: Sequence[Value]) -> bytes:
    """Hash a row that follows a row with the hash `previous` (empty for the first)."""
    return hashlib.sha256(previous + _COMPACT.encode(row).encode()).digest()


def hashed_after_number(row: Sequence[Value]) -> str:
    """Return the text to hash after a row's number, for a database that assigns the number."""
    return _COMPACT.encode(row)[1:]


def task_row(event: TaskCreated) -> tuple[Value, ...]:
    """Build the row of a task from its first event."""
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
    """Return the state of an answered question: an answer by nobody only closes it."""
    return "answered" if event.response.by_person else "closed"


# -- the head of a database, as recorded outside it ----------------------------------------------

HEAD_LENGTH = 512
"""The fixed size of the head file, in bytes."""


@dataclass(frozen=True)
class Head:
    """Number and hash of the last event and of the last audit row, as of some moment.

    A database that is older than that, or has another history, has lost data.
    """

    sequence: int
    hash: str
    audit: int = 0
    audit_hash: str = ""


class HeadFile:
    """The file with the head of a database, and the lock for writing it.  Blocks."""

    def __init__(self, base: Path, *names: str) -> None:
        """The path is given by the `names` below `base`, which is a `.coterie`."""
        self._base = base
        self._names = names
        self._file: int | None = None
        """Kept open: looking it up again costs more than writing it."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self) -> Head | None:
        """Return the recorded head; None if there is no file or a machine crash corrupted it."""
        try:
            return _head_in(read_file(self._base, *self._names))
        except FileNotFoundError:
            return None

    def raise_to(self, head: Head) -> None:
        """Write the head unless a later one is recorded already.

        If the lock stays busy (its holder was stopped), nothing is written: a head that is too
        low only detects less.  A single write of fixed length, in place: a process that is killed
        leaves either the old head or the new one.
        """
        with self.locked(wait=0.1) as file:
            if file is None:
                return
            known = _head_in(os.pread(file, HEAD_LENGTH, 0))
            if known is None or known.sequence < head.sequence:
                os.pwrite(file, json.dumps(vars(head)).ljust(HEAD_LENGTH).encode(), 0)

    @contextmanager
    def locked(self, wait: float) -> Generator[int | None]:
        """Open and lock the file; yields None if the lock is not free within `wait` seconds."""
        file = self._opened()
        try:
            yield file if _flocked(file, time.monotonic() + wait) else None
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def _opened(self) -> int:
        if self._file is not None and os.fstat(self._file).st_nlink != 1:
            self.close()  # it was deleted, or has a second name
        if self._file is None:
            path = self._base.joinpath(*self._names)
            with open_folder(self._base, *self._names[:-1], make=True) as folder:
                self._file = open_file(folder, path, os.O_RDWR | os.O_CREAT)
        return self._file


def _head_in(content: bytes) -> Head | None:
    try:
        head = json.loads(content)
        last = int(head["sequence"]), str(head["hash"])
        return Head(*last, int(head.get("audit", 0)), str(head.get("audit_hash", "")))
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
