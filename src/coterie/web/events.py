"""One stream of events over all projects, for one browser or program.

| event | data | when |
| --- | --- | --- |
| `reset` | `{}` | read all anew: it begins here, or at an id that is not known any more |
| `record` | project, task, seq, at, record | a line was added to a timeline |
| `record` | the same, `seq` null, no id | a member, phase, error or result record: it is not kept |
| `delta` | project, task, member, turn, start, text | a piece of a text under way, and its place |
| `task` | a task as in lists | it stands otherwise than before |
| `question` | a question as in the inbox | it was opened, answered or closed |

An id is a cursor over the timelines of all projects, `<project>.<seq>` joined by commas.  Whoever
follows reads them by a cursor of their own: one that is slow, or was away, misses nothing and gets
nothing twice; and as they are read when more can be taken, nothing queues up.  What is not kept is
told of tasks that this server runs, as it stands now and not every step to it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from coterie.app.open_project import OpenProject
from coterie.app.views import read_news, read_tasks
from coterie.errors import CoterieError
from coterie.model.record import InteractionRecord, QuestionView, Record, TaskRecord
from coterie.model.task import ENDED
from coterie.web.hub import Hub, TheHub
from coterie.web.live import Live, LiveRecord, TaskNow
from coterie.web.schema import QuestionShown, RecordShown, Shown, TaskShown, record_shown

router: APIRouter = APIRouter(tags=["events"])

BATCH = 100
"""So many rows of a timeline are read at once."""
_CURSOR = re.compile(r"[0-9a-f]{12}\.[0-9]{1,15}(,[0-9a-f]{12}\.[0-9]{1,15})*", re.ASCII)


class ToldRecord(Shown):
    """The data of `record`."""

    project: str
    task: str
    seq: int | None
    """Its number in the project; null for what is not kept."""
    at: str
    record: RecordShown


class ToldText(Shown):
    """The data of `delta`."""

    project: str
    task: str
    member: str
    turn: int
    """Another one for the member's next text."""
    start: int
    """Where in the text the piece begins; what was there before ends here."""
    text: str


@router.get("/events", response_class=EventSourceResponse)
async def events(
    hub: TheHub, last_event_id: Annotated[str | None, Header(max_length=65536)] = None
) -> AsyncGenerator[ServerSentEvent]:
    """What happens from now on, or since the event with the id `Last-Event-ID`."""
    with hub.following():
        await hub.opened_all()
        follower = Follower(hub)
        async for event in follower.begin(last_event_id):
            yield event
        while not hub.closing.is_set():
            version = hub.version
            # What cannot be read now is read when its project is open anew.
            with suppress(CoterieError, RuntimeError):
                async for event in follower.news():
                    yield event
            await hub.changed(version)


@dataclass
class _Seen:
    """How far one has been told of a project's live part."""

    version: int
    news: int = 0
    texts: dict[int, int] = field(default_factory=dict[int, int])
    """By number: how much of a text under way."""


class Follower:
    """How far one who follows everything has been told."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._cursor: dict[str, int] = {}
        self._seen: dict[Live, _Seen] = {}

    async def begin(self, last: str | None) -> AsyncGenerator[ServerSentEvent]:
        """Where to go on from, and how tasks stand that are not over."""
        given = parse_cursor(last)
        is_known = given is not None
        found = self._hub.followed()
        for project, app, live in found:
            live.looked(await read_tasks(app))
            head = await app.last_seq()
            since = (given or {}).get(project, -1)
            is_known = is_known and 0 <= since <= head
            self._cursor[project] = since if 0 <= since <= head else head
            self._seen[live] = _Seen(live.version)
        if not is_known:
            yield ServerSentEvent(event="reset", data={}, id=self._id)
        for project, _, live in found:
            for event in _present(project, live, self._seen[live], is_known):
                yield event

    async def news(self) -> AsyncGenerator[ServerSentEvent]:
        """All that has not been told yet."""
        for project, app, live in self._hub.followed():
            if project not in self._cursor:  # it is new here: all of it is read by who follows
                self._cursor[project] = await app.last_seq()
                yield ServerSentEvent(event="reset", data={}, id=self._id)
            seen = self._seen.setdefault(live, _Seen(0))
            news, version = live.news, live.version
            if news > seen.news:
                async for event in self._kept(project, app):
                    yield event
                seen.news = news
            if version > seen.version:
                for event in _passing(project, live, seen):
                    yield event
                seen.version = version

    async def _kept(self, project: str, app: OpenProject) -> AsyncGenerator[ServerSentEvent]:
        """What was added to the timeline of a project."""
        while True:
            found = await read_news(app, self._cursor[project], BATCH)
            # Before the records: who is cut off in between goes on after the last of those.
            changed = [(task, entry.record) for task, entry in found]
            async for event in _standing(project, app, changed):
                yield event
            for task, entry in found:
                self._cursor[project] = entry.seq
                yield _record(
                    project, LiveRecord(entry.at, task, entry.record), entry.seq, self._id
                )
            if len(found) < BATCH:
                return

    @property
    def _id(self) -> str:
        return ",".join(f"{name}.{seq}" for name, seq in self._cursor.items())


async def _standing(
    project: str, app: OpenProject, changed: Sequence[tuple[str, Record]]
) -> AsyncGenerator[ServerSentEvent]:
    """The tasks and questions that records were about, as they stand."""
    tasks = {task for task, record in changed if isinstance(record, TaskRecord)}
    ended = {one.id for _, one in changed if isinstance(one, TaskRecord) and one.status in ENDED}
    asked = {
        record.interaction.interaction_id
        for _, record in changed
        if isinstance(record, InteractionRecord)
    }
    for now in await read_tasks(app) if tasks else ():
        if now[0].id in tasks:
            yield _task(project, now)
    for view in await app.questions(only_open=False) if asked or ended else ():
        # Those of a task that is over are closed without a word.
        if view.interaction.interaction_id in asked or view.interaction.task_id in ended:
            yield _question(project, view)


def _present(project: str, live: Live, seen: _Seen, was_here: bool) -> Iterator[ServerSentEvent]:
    """How things stand; who is new reads the tasks instead."""
    for now in live.unfinished() if was_here else ():
        yield _task(project, now)
    for one in live.members():
        yield _record(project, one)
    yield from _deltas(project, live, seen)


def _passing(project: str, live: Live, seen: _Seen) -> Iterator[ServerSentEvent]:
    """What the timeline does not have."""
    for one in live.records(seen.version):
        yield _record(project, one)
    for now in live.tasks(seen.version):
        yield _task(project, now)
    yield from _deltas(project, live, seen)


def _deltas(project: str, live: Live, seen: _Seen) -> Iterator[ServerSentEvent]:
    texts = live.texts()
    for text in texts:
        start = seen.texts.get(text.number, 0)
        if len(text.text) > start:
            piece = ToldText(
                project=project,
                task=text.task,
                member=text.member,
                turn=text.number,
                start=start,
                text=text.text[start:],
            )
            yield ServerSentEvent(event="delta", data=piece)
    seen.texts = {text.number: len(text.text) for text in texts}


def _record(
    project: str, one: LiveRecord, seq: int | None = None, cursor: str | None = None
) -> ServerSentEvent:
    shown = record_shown(one.record)
    told = ToldRecord.model_construct(
        project=project, task=one.task, seq=seq, at=one.at, record=shown
    )
    return ServerSentEvent(event="record", data=told, id=cursor)


def _task(project: str, now: TaskNow) -> ServerSentEvent:
    return ServerSentEvent(event="task", data=TaskShown.of(project, *now))


def _question(project: str, view: QuestionView) -> ServerSentEvent:
    return ServerSentEvent(event="question", data=QuestionShown.of(project, view))


def parse_cursor(text: str | None) -> dict[str, int] | None:
    """An id that we gave out; None for any other."""
    if text is None or not _CURSOR.fullmatch(text):
        return None
    pairs = (pair.split(".") for pair in text.split(","))
    return {project: int(seq) for project, seq in pairs}
