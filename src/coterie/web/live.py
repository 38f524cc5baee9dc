"""The live state of a project that its timeline does not store: running texts, what members do, how
tasks stand.

Only the current state is kept, with the version at which it was reached: a follower that is slow or
arrives late is sent the present and not every step towards it.  So nothing queues up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count

import anyio

from coterie.errors import CoterieError
from coterie.model import instant
from coterie.model.record import (
    DeltaRecord,
    ErrorRecord,
    MemberRecord,
    MessageRecord,
    PhaseRecord,
    Record,
    ResultRecord,
    TaskView,
)
from coterie.model.task import ENDED, is_below
from coterie.model.update import Usage

TaskWithUsage = tuple[TaskView, Usage | None]
"""A task and its usage so far."""

MAX_TEXT = 1 << 20
"""How much of one running text is sent, in characters; its message contains all of it."""
MAX_LIVE_RECORDS = 500
"""How many records that the timeline does not store are held for slow followers."""


@dataclass(frozen=True)
class RunningText:
    """A text being written; `number` distinguishes it from the same member's next one."""

    task: str
    member: str
    number: int
    text: str


@dataclass(frozen=True)
class LiveRecord:
    """A record of a task, and when it arrived."""

    at: str
    task: str
    record: Record
    version: int = 0


class Live:
    """The live state of one project; `tell` wakes up all followers."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._numbers = count(1)
        self._touched = anyio.Event()
        self._touched.set()
        self.version: int = 1
        """Incremented with every change here."""
        self.news: int = 1
        """Incremented when the timeline may have grown."""
        self._texts: dict[tuple[str, str], RunningText] = {}
        self._members: dict[tuple[str, str], LiveRecord] = {}
        self._recent: deque[LiveRecord] = deque(maxlen=MAX_LIVE_RECORDS)
        self._tasks: dict[str, tuple[TaskWithUsage, int]] = {}

    # -- changes -------------------------------------------------------------------------------

    def touch(self) -> None:
        """Note that the project's database may have changed."""
        self.news += 1
        self._touched.set()
        self._tell()

    async def touched(self) -> None:
        """Wait until the database may have changed since the last call."""
        await self._touched.wait()
        self._touched = anyio.Event()

    def on_record(self, task_id: str, record: Record) -> None:
        """Take in a record of a task that this process runs."""
        match record:
            case DeltaRecord():
                return self._add_delta(record)
            case MemberRecord():
                self._members[record.task, record.member] = self._live_record(record.task, record)
            case MessageRecord():
                self._texts.pop((record.task, record.member), None)
            case PhaseRecord() | ErrorRecord() | ResultRecord():
                self._recent.append(self._live_record(record.task or task_id, record))
            case _:
                pass
        return self.touch()

    def failed(self, task_id: str, error: CoterieError) -> None:
        """Report that a run ended with an error."""
        record = ErrorRecord(
            code=error.code,
            message=str(error),
            hint=error.hint,
            member=error.member,
            where=error.where,
            task=task_id,
        )
        self._recent.append(self._live_record(task_id, record))
        self.touch()

    def ended(self, task_id: str) -> None:
        """Drop the live state of a task that this process no longer runs, and of its parts."""
        for known in (self._texts, self._members):
            for key in [key for key in known if key[0] == task_id or is_below(key[0], task_id)]:
                del known[key]
        self.touch()

    def update_tasks(self, tasks: Iterable[TaskWithUsage]) -> None:
        """Take in the current state of the tasks."""
        for now in tasks:
            name = now[0].id
            if name not in self._tasks or self._tasks[name][0] != now:
                self._tasks[name] = now, self._next()
        # Rows that were still being written when we were notified can be read by now, too.
        self.news += 1
        self._tell()

    def unfinished(self) -> list[TaskWithUsage]:
        """Return the tasks that have not ended."""
        return [now for now, _ in self._tasks.values() if now[0].status not in ENDED]

    @property
    def has_running(self) -> bool:
        """Whether any process runs a task of this project."""
        return any(now[0].is_run for now, _ in self._tasks.values())

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _live_record(self, task: str, record: Record) -> LiveRecord:
        return LiveRecord(instant.now(), task, record, self._next())

    def _add_delta(self, delta: DeltaRecord) -> None:
        key = delta.task, delta.member
        known = self._texts.get(key)
        if known is None:
            number = next(self._numbers)
            known = RunningText(delta.task, delta.member, number, "")
        if len(known.text) < MAX_TEXT:
            self._texts[key] = replace(known, text=known.text + delta.text)
            self._next()
            self._tell()

    # -- what followers are sent ---------------------------------------------------------------

    def texts(self) -> list[RunningText]:
        """Return the running texts."""
        return list(self._texts.values())

    def members(self) -> list[LiveRecord]:
        """Return the last record of each member that works for a task of this process."""
        return list(self._members.values())

    def records(self, seen: int) -> list[LiveRecord]:
        """Return the records since a version that are not in the timeline, in order."""
        records = [one for one in (*self._members.values(), *self._recent) if one.version > seen]
        return sorted(records, key=lambda one: one.version)

    def tasks(self, seen: int) -> list[TaskWithUsage]:
        """Return the tasks that changed after a version."""
        return [now for now, version in self._tasks.values() if version > seen]
