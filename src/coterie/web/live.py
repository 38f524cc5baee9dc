"""What is told of a project besides what its timeline keeps: texts under way, what members do, how
tasks stand.

Everything is kept as it stands, with the version at which it came to: a follower that is slow, or
comes later, is told the present and not every step to it.  So nothing queues up.
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
from coterie.model.task import ENDED
from coterie.model.update import Usage

TaskNow = tuple[TaskView, Usage | None]
"""A task, and what it used so far."""

LONGEST = 1 << 20
"""How much of one text under way is told, in characters; its message has all of it."""
PASSING = 500
"""So many records that are not kept are held for followers who are slow."""


@dataclass(frozen=True)
class RunningText:
    """A text under way; `number` tells one from the next of the same member."""

    task: str
    member: str
    number: int
    text: str


@dataclass(frozen=True)
class LiveRecord:
    """Something that was told of a task, and when."""

    at: str
    task: str
    record: Record
    version: int = 0


class Live:
    """One project, live; `tell` wakes all who follow."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._numbers = count(1)
        self._touched = anyio.Event()
        self._touched.set()
        self.version: int = 1
        """Grows with every change here."""
        self.news: int = 1
        """Grows when the timeline may have."""
        self._texts: dict[tuple[str, str], RunningText] = {}
        self._members: dict[tuple[str, str], LiveRecord] = {}
        self._passing: deque[LiveRecord] = deque(maxlen=PASSING)
        self._tasks: dict[str, tuple[TaskNow, int]] = {}

    # -- what happens --------------------------------------------------------------------------

    def touch(self) -> None:
        """The project's database may have changed."""
        self.news += 1
        self._touched.set()
        self._tell()

    async def touched(self) -> None:
        """Wait until it may have changed since the last time."""
        await self._touched.wait()
        self._touched = anyio.Event()

    def saw(self, task_id: str, record: Record) -> None:
        """A task that this process runs has told something."""
        match record:
            case DeltaRecord():
                return self._wrote(record)
            case MemberRecord():
                self._members[record.task, record.member] = self._passed(record.task, record)
            case MessageRecord():
                self._texts.pop((record.task, record.member), None)
            case PhaseRecord() | ErrorRecord() | ResultRecord():
                self._passing.append(self._passed(record.task or task_id, record))
            case _:
                pass
        return self.touch()

    def failed(self, task_id: str, error: CoterieError) -> None:
        """A run ended with an error."""
        record = ErrorRecord(
            code=error.code,
            message=str(error),
            hint=error.hint,
            member=error.member,
            where=error.where,
            task=task_id,
        )
        self._passing.append(self._passed(task_id, record))
        self.touch()

    def ended(self, task_id: str) -> None:
        """This process does not run a task any more."""
        for known in (self._texts, self._members):
            for key in [key for key in known if key[0].partition("/")[0] == task_id]:
                del known[key]
        self.touch()

    def looked(self, tasks: Iterable[TaskNow]) -> None:
        """How tasks stand now."""
        for now in tasks:
            name = now[0].id
            if name not in self._tasks or self._tasks[name][0] != now:
                self._tasks[name] = now, self._next()
        # What was written just before we were told of it is there by now, too.
        self.news += 1
        self._tell()

    def unfinished(self) -> list[TaskNow]:
        """Tasks that are not over."""
        return [now for now, _ in self._tasks.values() if now[0].status not in ENDED]

    @property
    def has_running(self) -> bool:
        """Whether some process runs a task here."""
        return any(now[0].is_run for now, _ in self._tasks.values())

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _passed(self, task: str, record: Record) -> LiveRecord:
        return LiveRecord(instant.now(), task, record, self._next())

    def _wrote(self, delta: DeltaRecord) -> None:
        key = delta.task, delta.member
        known = self._texts.get(key)
        if known is None:
            number = next(self._numbers)
            known = RunningText(delta.task, delta.member, number, "")
        if len(known.text) < LONGEST:
            self._texts[key] = replace(known, text=known.text + delta.text)
            self._next()
            self._tell()

    # -- what a follower is told ---------------------------------------------------------------

    def texts(self) -> list[RunningText]:
        """The texts under way."""
        return list(self._texts.values())

    def members(self) -> list[LiveRecord]:
        """What each member does that this process has told of."""
        return list(self._members.values())

    def records(self, seen: int) -> list[LiveRecord]:
        """Records since a version that the timeline does not have, in their order."""
        found = [one for one in (*self._members.values(), *self._passing) if one.version > seen]
        return sorted(found, key=lambda one: one.version)

    def tasks(self, seen: int) -> list[TaskNow]:
        """Tasks that stand otherwise than at a version."""
        return [now for now, version in self._tasks.values() if version > seen]
