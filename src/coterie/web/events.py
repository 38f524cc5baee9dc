"""One stream of events over all projects, for one browser or program.

| event | data | when |
| --- | --- | --- |
| `reset` | `{}` | read everything again: the stream starts here, or at an id no longer known |
| `record` | project, task, seq, at, record | a line was added to a timeline |
| `record` | the same, `seq` null, no id | a member, phase, error or result record: not stored |
| `delta` | project, task, member, turn, start, text | a piece of a running text, and its offset |
| `task` | a task as in lists | the task changed |
| `question` | a question as in the inbox | it was opened, answered or closed |

An id is a cursor over the timelines of all projects, `<project>.<seq>` joined by commas.  Each
follower reads the timelines by its own cursor, so one that is slow, or was disconnected, misses
nothing and gets nothing twice; rows are read only when the follower can take more, so nothing
queues up.  What is not stored is sent only for tasks that this server runs, as the current state
and not every step towards it.

A member's message ends its running text, and is always sent before the first piece of its next one.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from coterie.app.open_project import OpenProject
from coterie.app.views import read_new_entries, read_tasks
from coterie.errors import CoterieError
from coterie.model.record import InteractionRecord, QuestionView, Record, TaskRecord
from coterie.model.task import ENDED
from coterie.web.hub import Hub, TheHub
from coterie.web.live import Live, LiveRecord, TaskWithUsage
from coterie.web.schema import QuestionShown, RecordShown, Shown, TaskShown, record_shown

router: APIRouter = APIRouter(tags=["events"])

BATCH = 100
"""How many rows of a timeline are read at once."""
_CURSOR = re.compile(r"[0-9a-f]{12}\.[0-9]{1,15}(,[0-9a-f]{12}\.[0-9]{1,15})*", re.ASCII)


class RecordEvent(Shown):
    """The data of a `record` event."""

    project: str
    task: str
    seq: int | None
    """Its number in the project; null for a record that is not stored."""
    at: str
    record: RecordShown


class DeltaEvent(Shown):
    """The data of a `delta` event."""

    project: str
    task: str
    member: str
    turn: int
    """A different number for each text of the member."""

    start: int
    """The piece's offset in the text: where the text sent so far ends."""
    text: str


@router.get("/events", response_class=EventSourceResponse)
async def events(
    hub: TheHub, last_event_id: Annotated[str | None, Header(max_length=65536)] = None
) -> AsyncGenerator[ServerSentEvent]:
    """Stream what happens from now on, or since the event with the id `Last-Event-ID`."""
    with hub.following():
        await hub.opened_all()
        follower = Follower(hub)
        async for event in follower.begin(last_event_id):
            yield event
        while not hub.closing.is_set():
            version = hub.version
            async for event in follower.news():
                yield event
            await hub.changed(version)


@dataclass
class _SentState:
    """How much of a project's live state a follower has been sent."""

    version: int
    news: int = 0
    texts: dict[int, int] = field(default_factory=dict[int, int])
    """The characters sent of each running text, by its number."""


class Follower:
    """One client of the stream: how far it has been sent the events of every project."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._cursor: dict[str, int] = {}
        self._seen: dict[Live, _SentState] = {}

    async def begin(self, last: str | None) -> AsyncGenerator[ServerSentEvent]:
        """Set the cursor to start from, and yield the state of unfinished tasks and of members.

        Running texts are left to `news`: what was stored before they began comes first.
        """
        cursor = parse_cursor(last)
        is_known = cursor is not None
        projects: list[tuple[str, Live]] = []
        for project, app, live in self._hub.followed():
            try:
                live.update_tasks(await read_tasks(app))
                head = await app.last_seq()
            except (CoterieError, RuntimeError):
                continue  # `news` begins with it once it has been reopened
            projects.append((project, live))
            since = (cursor or {}).get(project, -1)
            is_known = is_known and 0 <= since <= head
            self._cursor[project] = since if 0 <= since <= head else head
            self._seen[live] = _SentState(live.version)
        if not is_known:
            yield ServerSentEvent(event="reset", data={}, id=self._id)
        for project, live in projects:
            for event in _initial_events(project, live, is_known):
                yield event

    async def news(self) -> AsyncGenerator[ServerSentEvent]:
        """Yield everything that has not been sent yet."""
        for project, app, live in self._hub.followed():
            # What cannot be read now is read once its project has been reopened.
            with suppress(CoterieError, RuntimeError):
                async for event in self._news_of(project, app, live):
                    yield event

    async def _news_of(
        self, project: str, app: OpenProject, live: Live
    ) -> AsyncGenerator[ServerSentEvent]:
        if project not in self._cursor:  # a new project: the client reads all of it
            self._cursor[project] = await app.last_seq()
            yield ServerSentEvent(event="reset", data={}, id=self._id)
        seen = self._seen.setdefault(live, _SentState(0))
        news, version = live.news, live.version
        # Those that begin while the timeline is read may come after a message that was not read.
        begun = {text.number for text in live.texts()}
        if news > seen.news:
            async for event in self._timeline_events(project, app):
                yield event
            seen.news = news
        if version > seen.version:
            for event in _live_events(project, live, seen):
                yield event
            seen.version = version
        for event in _deltas(project, live, seen, begun):
            yield event

    async def _timeline_events(
        self, project: str, app: OpenProject
    ) -> AsyncGenerator[ServerSentEvent]:
        """Yield what was added to the timeline of a project."""
        while True:
            entries = await read_new_entries(app, self._cursor[project], BATCH)
            # Before the records: a client cut off in between resumes after the last record sent.
            changed = [(task, entry.record) for task, entry in entries]
            async for event in _state_events(project, app, changed):
                yield event
            for task, entry in entries:
                self._cursor[project] = entry.seq
                yield _record(
                    project, LiveRecord(entry.at, task, entry.record), entry.seq, self._id
                )
            if len(entries) < BATCH:
                return

    @property
    def _id(self) -> str:
        return ",".join(f"{name}.{seq}" for name, seq in self._cursor.items())


async def _state_events(
    project: str, app: OpenProject, changed: Sequence[tuple[str, Record]]
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the current state of the tasks and questions that the records are about."""
    tasks = {task for task, record in changed if isinstance(record, TaskRecord)}
    ended = {one.id for _, one in changed if isinstance(one, TaskRecord) and one.status in ENDED}
    questions = {
        record.interaction.interaction_id
        for _, record in changed
        if isinstance(record, InteractionRecord)
    }
    for now in await read_tasks(app) if tasks else ():
        if now[0].id in tasks:
            yield _task(project, now)
    for view in await app.questions(only_open=False) if questions or ended else ():
        # The questions of an ended task are closed without a record.
        if view.interaction.interaction_id in questions or view.interaction.task_id in ended:
            yield _question(project, view)


def _initial_events(project: str, live: Live, was_here: bool) -> Iterator[ServerSentEvent]:
    """Yield the current state; a new client reads the tasks by itself."""
    for now in live.unfinished() if was_here else ():
        yield _task(project, now)
    for one in live.members():
        yield _record(project, one)


def _live_events(project: str, live: Live, seen: _SentState) -> Iterator[ServerSentEvent]:
    """Yield what is not in the timeline, except running texts."""
    for one in live.records(seen.version):
        yield _record(project, one)
    for now in live.tasks(seen.version):
        yield _task(project, now)


def _deltas(
    project: str, live: Live, seen: _SentState, begun: Container[int]
) -> Iterator[ServerSentEvent]:
    """Yield what was added to the running texts with these numbers."""
    texts = [text for text in live.texts() if text.number in begun]
    for text in texts:
        start = seen.texts.get(text.number, 0)
        if len(text.text) > start:
            piece = DeltaEvent(
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
    event = RecordEvent.model_construct(
        project=project, task=one.task, seq=seq, at=one.at, record=shown
    )
    return ServerSentEvent(event="record", data=event, id=cursor)


def _task(project: str, now: TaskWithUsage) -> ServerSentEvent:
    return ServerSentEvent(event="task", data=TaskShown.of(project, *now))


def _question(project: str, view: QuestionView) -> ServerSentEvent:
    return ServerSentEvent(event="question", data=QuestionShown.of(project, view))


def parse_cursor(text: str | None) -> dict[str, int] | None:
    """Parse an event id that this server gave out; return None for any other."""
    if text is None or not _CURSOR.fullmatch(text):
        return None
    pairs = (pair.split(".") for pair in text.split(","))
    return {project: int(seq) for project, seq in pairs}
