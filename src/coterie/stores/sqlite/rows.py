"""From rows to the vocabulary.  The order of columns is that of `queries.sql`."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from coterie.model.interaction import Interaction, Question, Response
from coterie.model.message import Message
from coterie.model.task import EVENT, Event
from coterie.model.tool_call import AuditEntry
from coterie.stores.projection import Value
from coterie.stores.sqlite.queries import SQL

Row = tuple[Any, ...]
"""What SQLite gives back; STRICT tables hold what the columns say."""


def select(connection: sqlite3.Connection, name: str, *values: Value) -> list[Row]:
    """All rows at once: an open cursor would keep the write-ahead log from being cut short."""
    return connection.execute(SQL[name], values).fetchall()


def event(row: Row) -> Event:
    """A domain event from its JSON."""
    return EVENT.validate_json(row[0])


def message(row: Row) -> Message:
    """A message; SQLite has no booleans."""
    *fields, done, cut = row
    return Message(*fields, done=bool(done), cut=bool(cut))


def audit_entry(row: Row) -> AuditEntry:
    """A row of the audit with its objects read back."""
    *names, given, output, is_error, duration_ms = row
    return AuditEntry(
        *names,
        input=None if given is None else json.loads(given),
        output=None if output is None else json.loads(output),
        is_error=None if is_error is None else bool(is_error),
        duration_ms=duration_ms,
    )


def question(row: Row) -> Question:
    """A question from the events that asked and answered it."""
    step, state, asked, answered = row
    request = json.loads(asked)
    answer = None if answered is None else json.loads(answered)
    return Question(
        interaction=Interaction.model_validate(request["interaction"]),
        step=step,
        state=state,
        asked_at=request["at"],
        response=None if answer is None else Response.model_validate(answer["response"]),
        answered_at=None if answer is None else answer["at"],
    )
