"""The one order over all that is told of tasks.  The database keeps it by itself, by triggers: a
row says which row of another table it is, and here what that one says is put in its place."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import cast

from coterie.model.conversation import Message
from coterie.model.journal import Turn
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
from coterie.stores import codec
from coterie.stores.statements import Query, Reading, Statements

_ALL = _LAST = 2**63 - 1
Place = tuple[str, int]
"""A task, and the number of a row that is of it."""
Found = Reading[list[tuple[Place, Source]]]


class TimelineRows:
    """Rows by their numbers."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    async def after(
        self, sequence: int, task_id: str | None = None, limit: int | None = None
    ) -> list[TimelineRow]:
        name, of = "timeline_after", tuple[codec.Value, ...]()
        if task_id is not None:
            name, of = "timeline_of_run_after", _scope(task_id)
        return await self._statements.read(_rows((name, *of, sequence, limit or _ALL)))

    async def before(
        self,
        task_id: str,
        sequence: int | None = None,
        limit: int | None = None,
        source: TimelineSource | None = None,
    ) -> list[TimelineRow]:
        given = (*_scope(task_id), source, sequence or _LAST, limit or _ALL)
        return (await self._statements.read(_rows(("timeline_before", *given))))[::-1]

    async def head(self) -> int:
        return await self._statements.read(_head())


def _head() -> Reading[int]:
    (rows,) = yield [("timeline_head",)]
    return rows[0][0]


def _scope(task_id: str) -> tuple[codec.Value, ...]:
    """What of a run's rows belongs to a task: all, or those of a ticket and of the turns on it."""
    run, ticket = run_with(task_id), task_id if ticket_in(task_id) else None
    return run, run, run, ticket, f"{ticket}.%" if ticket else "", ticket


def _rows(query: Query) -> Reading[list[TimelineRow]]:
    (found,) = yield [query]
    places: dict[str, list[Place]] = {}
    for _, task_id, source, number in found:
        places.setdefault(source, []).append((task_id, number))
    told: dict[tuple[str, Place], Source] = {}
    for source, wanted in places.items():
        read = yield from _SOURCES[source](wanted)
        told.update({(source, place): value for place, value in read})
    return [
        TimelineRow(sequence, task_id, told[source, (task_id, number)])
        for sequence, task_id, source, number in found
        if (source, (task_id, number)) in told
    ]


def _listed(places: Iterable[Place]) -> str:
    return json.dumps([number for _, number in places])


def _statuses(places: Sequence[Place]) -> Found:
    (rows,) = yield [("timeline_statuses", _listed(places))]
    events = [(number, EVENT.validate_json(data), workflow) for number, data, workflow in rows]
    return [
        ((event.task_id, number), StatusChange(event, workflow))
        for number, event, workflow in events
    ]


def _questions(places: Sequence[Place]) -> Found:
    (rows,) = yield [("timeline_questions", _listed(places))]
    found: list[tuple[Place, Source]] = []
    for number, data, asked in rows:
        event = EVENT.validate_json(data)
        assert isinstance(event, UserInteractionRequested | UserInteractionResponded)
        request = cast("UserInteractionRequested", EVENT.validate_json(asked or data))
        found.append(((event.task_id, number), AskedQuestion(event, request.interaction)))
    return found


def _messages(places: Sequence[Place]) -> Found:
    (rows,) = yield [("timeline_messages", json.dumps(places))]
    said: dict[str, list[Message]] = {}
    for one in map(codec.MESSAGE.value, rows):
        said.setdefault(one.task_id, []).append(one)
    found: list[tuple[Place, Source]] = []
    for task_id, messages in said.items():
        times = [one.at for one in messages]
        turns: dict[str, list[Turn]] = {}
        (ended,) = yield [("turns_ended", task_id, min(times), max(times))]
        for turn in map(codec.turn_of, ended):
            turns.setdefault(turn.member, []).append(turn)
        for one in messages:
            taken = turns.get(one.member, []) if one.turn else []
            last = bisect_right(taken, one.at, key=attrgetter("opened_at"))
            found.append(((task_id, one.seq), SaidMessage(one, taken[last - 1] if last else None)))
    return found


def _calls(places: Sequence[Place]) -> Found:
    (rows,) = yield [("timeline_calls", _listed(places))]
    calls = [(sequence, codec.AUDIT.value(tuple(row))) for sequence, *row in rows]
    ended = [
        (sequence, ("call_begun", one.task_id, one.tool_call_id, one.author_actor_id, sequence))
        for sequence, one in calls
        if one.kind != "ToolCallRequested"
    ]
    begun = (yield [query for _, query in ended]) if ended else []
    given = {
        sequence: codec.AUDIT.value(found[0]).input if found else None
        for (sequence, _), found in zip(ended, begun, strict=True)
    }
    return [
        ((one.task_id, sequence), AuditedCall(one, given.get(sequence, one.input) or {}))
        for sequence, one in calls
    ]


def _failures(places: Sequence[Place]) -> Found:
    (rows,) = yield [("timeline_failures", json.dumps(places))]
    turns = [(row[-1], codec.turn_of(row)) for row in rows]
    return [((turn.task_id, opened), turn) for opened, turn in turns]


def _tickets(places: Sequence[Place]) -> Found:
    yield from ()
    return [
        ((task_id, place), TicketMoment(run_with(task_id), ticket_in(task_id), place))
        for task_id, place in places
    ]


_SOURCES: Mapping[str, Callable[[Sequence[Place]], Found]] = {
    "status": _statuses,
    "question": _questions,
    "message": _messages,
    "call": _calls,
    "failure": _failures,
    "ticket": _tickets,
}
