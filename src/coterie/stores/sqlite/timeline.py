"""The one order over all that is told of tasks.  The database keeps it by itself, by triggers: a
row says which row of another table it is, and here what that one says is put in its place."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from coterie.model.task import (
    EVENT,
    UserInteractionRequested,
    UserInteractionResponded,
    run_with,
    ticket_in,
)
from coterie.model.timeline import (
    AskedQuestion,
    AuditedCall,
    SaidMessage,
    Source,
    StatusChange,
    TicketMoment,
    TimelineRow,
    TimelineSource,
)
from coterie.stores.sqlite import codec
from coterie.stores.sqlite.codec import select, values
from coterie.stores.sqlite.writer import Writer

_ALL = -1
_LAST = 2**63 - 1
Place = tuple[str, int]
"""A task, and the number of a row that is of it."""
Found = Iterable[tuple[Place, Source]]


class SqliteTimeline:
    """Rows by their numbers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def after(
        self, sequence: int, task_id: str | None = None, limit: int | None = None
    ) -> list[TimelineRow]:
        run, ticket = _scope(task_id)
        name, of = "timeline_after", ()
        if run is not None:
            name, of = "timeline_of_run_after", (run, ticket, ticket)
        given = (*of, sequence, limit or _ALL)
        return await self._writer.read(lambda c: _rows(c, select(c, name, *given)))

    async def before(
        self,
        task_id: str,
        sequence: int | None = None,
        limit: int | None = None,
        source: TimelineSource | None = None,
    ) -> list[TimelineRow]:
        run, ticket = _scope(task_id)
        given = (run, ticket, ticket, source, sequence or _LAST, limit or _ALL)
        found = "timeline_before"
        return await self._writer.read(lambda c: _rows(c, select(c, found, *given)[::-1]))

    async def head(self) -> int:
        return (await self._writer.read(lambda c: select(c, "timeline_head")))[0][0]


def _scope(task_id: str | None) -> tuple[str | None, str | None]:
    """The run that a task is in, and the ticket where it is one."""
    if task_id is None:
        return None, None
    return run_with(task_id), task_id if ticket_in(task_id) else None


def _rows(connection: sqlite3.Connection, found: Sequence[codec.Row]) -> list[TimelineRow]:
    places: dict[str, list[Place]] = {}
    for _, task_id, source, number in found:
        places.setdefault(source, []).append((task_id, number))
    told: dict[tuple[str, Place], Source] = {}
    for source, wanted in places.items():
        read = _SOURCES[source](connection, wanted)
        told.update({(source, place): value for place, value in read})
    return [
        TimelineRow(sequence, task_id, told[source, (task_id, number)])
        for sequence, task_id, source, number in found
        if (source, (task_id, number)) in told
    ]


def _listed(places: Iterable[Place]) -> str:
    return json.dumps([number for _, number in places])


def _statuses(connection: sqlite3.Connection, places: Sequence[Place]) -> Found:
    for number, data, workflow in select(connection, "timeline_statuses", _listed(places)):
        event = EVENT.validate_json(data)
        yield (event.task_id, number), StatusChange(event, workflow)


def _questions(connection: sqlite3.Connection, places: Sequence[Place]) -> Found:
    for number, data, asked in select(connection, "timeline_questions", _listed(places)):
        event = EVENT.validate_json(data)
        assert isinstance(event, UserInteractionRequested | UserInteractionResponded)
        request = cast("UserInteractionRequested", EVENT.validate_json(asked or data))
        yield (event.task_id, number), AskedQuestion(event, request.interaction)


def _messages(connection: sqlite3.Connection, places: Sequence[Place]) -> Found:
    for one in values(connection, codec.MESSAGE.value, "timeline_messages", json.dumps(places)):
        ended = (one.at, one.task_id, one.member)
        turns = values(connection, codec.TURN.value, "turn_ended", *ended) if one.turn else ()
        yield (one.task_id, one.seq), SaidMessage(one, turns[0] if turns else None)


def _calls(connection: sqlite3.Connection, places: Sequence[Place]) -> Found:
    for sequence, *row in select(connection, "timeline_calls", _listed(places)):
        entry = codec.AUDIT.value(tuple(row))
        given = entry.input
        if entry.kind != "ToolCallRequested":
            call = (entry.task_id, entry.tool_call_id, entry.author_actor_id, sequence)
            begun = select(connection, "call_begun", *call)
            given = codec.AUDIT.value(begun[0]).input if begun else None
        yield (entry.task_id, sequence), AuditedCall(entry, given or {})


def _failures(connection: sqlite3.Connection, places: Sequence[Place]) -> Found:
    for opened, *row in select(connection, "timeline_failures", json.dumps(places)):
        turn = codec.TURN.value(tuple(row))
        yield (turn.task_id, opened), turn


def _tickets(
    connection: sqlite3.Connection, places: Sequence[Place]
) -> Iterator[tuple[Place, Source]]:
    for task_id, place in places:
        moment = TicketMoment(run_with(task_id), ticket_in(task_id), place)
        yield (task_id, place), moment


_SOURCES: Mapping[str, Callable[[sqlite3.Connection, Sequence[Place]], Found]] = {
    "status": _statuses,
    "question": _questions,
    "message": _messages,
    "call": _calls,
    "failure": _failures,
    "ticket": _tickets,
}
