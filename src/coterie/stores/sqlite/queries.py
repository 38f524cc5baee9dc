"""The SQL of the store as named data, `queries.sql`, and the codecs of its tables.

In the file `{Message}` stands for the columns of a message, `{Message?}` for as many values.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from coterie.model.conversation import Message
from coterie.model.interaction import Question
from coterie.model.journal import ChildLease, Lease, Request, SetMemberState, Step, Turn
from coterie.model.task import EVENT, TaskRow, UserInteractionRequested, UserInteractionResponded
from coterie.model.ticket import Moment, Ticket
from coterie.model.tool_call import AuditEntry
from coterie.stores.codec import (
    Codec,
    Decoder,
    EnvelopeDecoder,
    EventDecoder,
    Row,
    Value,
    mended_row,
)

T = TypeVar("T")

# The order in which a row of the audit is hashed, and `coterie audit --export` documents it.
AUDIT = Codec(AuditEntry, first=["task_id"])
CHILD = Codec(ChildLease)
ENVELOPES = EnvelopeDecoder()
EVENTS = EventDecoder()
LEASE = Codec(Lease)
MEMBER_STATE = Codec(SetMemberState)
MESSAGE = Codec(Message)
MOMENT = Codec(Moment)
REQUEST = Codec(Request)
STEP = Codec(Step)
TASK = Codec(TaskRow)
TICKET = Codec(Ticket, alone=["id", "state"], apart=["history"])
TURN = Codec(Turn)

_CODECS: Sequence[Codec[Any]] = (
    AUDIT, CHILD, LEASE, MEMBER_STATE, MESSAGE, MOMENT, REQUEST, STEP, TASK, TICKET, TURN,
)  # fmt: skip
_COLUMNS = {codec.kind.__name__: codec.columns for codec in _CODECS}
_HEADER = "-- name: "


def _load() -> dict[str, str]:
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for block in text.split(_HEADER)[1:]:
        name, _, body = block.partition("\n")
        # Up to the first empty line: what follows is a heading for the reader.
        statement = body.partition("\n\n")[0].strip()
        found[name.strip()] = re.sub(r"{(\w+)(\??)}", _columns, statement)
    return found


def _columns(found: re.Match[str]) -> str:
    columns = _COLUMNS[found[1]]
    return ", ".join("?" * len(columns) if found[2] else columns)


SQL = _load()


def select(connection: sqlite3.Connection, name: str, *given: Value) -> list[Row]:
    """All rows at once: an open cursor would keep the write-ahead log from being cut short."""
    return connection.execute(SQL[name], given).fetchall()


def values(
    connection: sqlite3.Connection, decoder: Decoder[T], name: str, *given: Value
) -> list[T]:
    """The values of all rows."""
    return [decoder.value(row) for row in select(connection, name, *given)]


def execute(connection: sqlite3.Connection, statement: str, row: Sequence[Value]) -> sqlite3.Cursor:
    """Write a row; text that UTF-8 cannot hold is mended rather than refused."""
    try:
        return connection.execute(statement, row)
    except UnicodeEncodeError:
        return connection.execute(statement, mended_row(row))


class QuestionDecoder:
    """Questions, each from its step, its state and the events that asked and answered it."""

    def value(self, row: Row) -> Question:
        step, state, asked, answered = row
        request = cast("UserInteractionRequested", EVENT.validate_json(asked))
        question = Question(request.interaction, step, state, request.at)
        if answered is None:
            return question
        answer = cast("UserInteractionResponded", EVENT.validate_json(answered))
        return replace(question, response=answer.response, answered_at=answer.at)


QUESTIONS = QuestionDecoder()
