"""The timeline: one order over everything reported about tasks.  The database maintains it with
triggers; each of its rows refers to a row of another table, which is looked up here."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import cast

from coterie.model import timeline
from coterie.model.conversation import Message
from coterie.model.journal import Turn
from coterie.model.task import (
    EVENT,
    UserInteractionRequested,
    UserInteractionResponded,
    running_task,
    ticket_id_of,
)
from coterie.stores import codec
from coterie.stores.statements import Query, Reading, Statements

_ALL = _LAST = 2**63 - 1
RowKey = tuple[str, int]
"""A task id, and the number of one of the task's rows."""
KeyedSources = Reading[list[tuple[RowKey, timeline.Source]]]


class TimelineRows:
    """Timeline rows by their numbers."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    async def after(
        self, sequence: int, task_id: str | None = None, limit: int | None = None
    ) -> list[timeline.TimelineRow]:
        name, of = "timeline_after", tuple[codec.Value, ...]()
        if task_id is not None:
            name, of = "timeline_of_run_after", _scope(task_id)
        return await self._statements.read(_rows((name, *of, sequence, limit or _ALL)))

    async def before(
        self,
        task_id: str,
        sequence: int | None = None,
        limit: int | None = None,
        source: timeline.TimelineSource | None = None,
    ) -> list[timeline.TimelineRow]:
        values = (*_scope(task_id), source, sequence or _LAST, limit or _ALL)
        return (await self._statements.read(_rows(("timeline_before", *values))))[::-1]

    async def head(self) -> int:
        return await self._statements.read(_head())


def _head() -> Reading[int]:
    (rows,) = yield [("timeline_head",)]
    return rows[0][0]


def _scope(task_id: str) -> tuple[codec.Value, ...]:
    """Return the values that select a task's rows in its run: all, or a ticket's and its turns'."""
    run, ticket = running_task(task_id), task_id if ticket_id_of(task_id) else None
    return run, run, run, ticket, f"{ticket}.%" if ticket else "", ticket


def _rows(query: Query) -> Reading[list[timeline.TimelineRow]]:
    (rows,) = yield [query]
    places: dict[str, list[RowKey]] = {}
    for _, task_id, source, number in rows:
        places.setdefault(source, []).append((task_id, number))
    sources: dict[tuple[str, RowKey], timeline.Source] = {}
    for source, wanted in places.items():
        read = yield from _SOURCES[source](wanted)
        sources.update({(source, place): value for place, value in read})
    return [
        timeline.TimelineRow(sequence, task_id, sources[source, (task_id, number)])
        for sequence, task_id, source, number in rows
        if (source, (task_id, number)) in sources
    ]


def _listed(places: Iterable[RowKey]) -> str:
    return json.dumps([number for _, number in places])


def _statuses(places: Sequence[RowKey]) -> KeyedSources:
    (rows,) = yield [("timeline_statuses", _listed(places))]
    events = [(number, EVENT.validate_json(data), workflow) for number, data, workflow in rows]
    return [
        ((event.task_id, number), timeline.StatusChange(event, workflow))
        for number, event, workflow in events
    ]


def _questions(places: Sequence[RowKey]) -> KeyedSources:
    (rows,) = yield [("timeline_questions", _listed(places))]
    sources: list[tuple[RowKey, timeline.Source]] = []
    for number, data, asked in rows:
        event = EVENT.validate_json(data)
        assert isinstance(event, UserInteractionRequested | UserInteractionResponded)
        request = cast("UserInteractionRequested", EVENT.validate_json(asked or data))
        sources.append(
            ((event.task_id, number), timeline.AskedQuestion(event, request.interaction))
        )
    return sources


def _messages(places: Sequence[RowKey]) -> KeyedSources:
    (rows,) = yield [("timeline_messages", json.dumps(places))]
    by_task: dict[str, list[Message]] = {}
    for one in map(codec.MESSAGE.value, rows):
        by_task.setdefault(one.task_id, []).append(one)
    sources: list[tuple[RowKey, timeline.Source]] = []
    for task_id, messages in by_task.items():
        times = [one.at for one in messages]
        turns: dict[str, list[Turn]] = {}
        (ended,) = yield [("turns_ended", task_id, min(times), max(times))]
        for turn in map(codec.turn_of, ended):
            turns.setdefault(turn.member, []).append(turn)
        for one in messages:
            taken = turns.get(one.member, []) if one.turn else []
            last = bisect_right(taken, one.at, key=attrgetter("opened_at"))
            sources.append(
                ((task_id, one.seq), timeline.SentMessage(one, taken[last - 1] if last else None))
            )
    return sources


def _calls(places: Sequence[RowKey]) -> KeyedSources:
    (rows,) = yield [("timeline_calls", _listed(places))]
    calls = [(sequence, codec.AUDIT.value(tuple(row))) for sequence, *row in rows]
    ended = [
        (sequence, ("call_begun", one.task_id, one.tool_call_id, one.author_actor_id, sequence))
        for sequence, one in calls
        if one.kind != "ToolCallRequested"
    ]
    begun = (yield [query for _, query in ended]) if ended else []
    inputs = {
        sequence: codec.AUDIT.value(entries[0]).input if entries else None
        for (sequence, _), entries in zip(ended, begun, strict=True)
    }
    return [
        ((one.task_id, sequence), timeline.AuditedCall(one, inputs.get(sequence, one.input) or {}))
        for sequence, one in calls
    ]


def _failures(places: Sequence[RowKey]) -> KeyedSources:
    (rows,) = yield [("timeline_failures", json.dumps(places))]
    turns = [(row[-1], codec.turn_of(row)) for row in rows]
    return [((turn.task_id, opened), turn) for opened, turn in turns]


def _tickets(places: Sequence[RowKey]) -> KeyedSources:
    yield from ()
    return [
        (
            (task_id, place),
            timeline.TicketMoment(running_task(task_id), ticket_id_of(task_id), place),
        )
        for task_id, place in places
    ]


_SOURCES: Mapping[str, Callable[[Sequence[RowKey]], KeyedSources]] = {
    "status": _statuses,
    "question": _questions,
    "message": _messages,
    "call": _calls,
    "failure": _failures,
    "ticket": _tickets,
}
