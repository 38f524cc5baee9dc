"""Notify the user that a question waits or a task has ended, as the setting `notify` says.

A notification is queued with its event, in one transaction, and sent by whichever process claims
it first: at most once, even if one is killed.  Nothing here delays a turn or makes it fail.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from coterie.config.project import environment, user_home
from coterie.config.settings import Settings, is_address, milliseconds
from coterie.engine.run import plain_errors
from coterie.errors import CoterieError
from coterie.model.incident import Outcome, PendingNotification
from coterie.model.notification import (
    Notification,
    of_end,
    of_limit,
    of_question,
)
from coterie.model.record import ErrorRecord, InteractionRecord, Record
from coterie.model.redaction import Redactor
from coterie.model.task import TaskCreated, fold, is_part
from coterie.model.visible import visible_line
from coterie.ports import AttendedObserver, Observer, Storage
from coterie.process import webhook
from coterie.process.launch import capture

LIMIT = 10.0
"""The most seconds that a command or an address may take."""
_OUTPUT = 1 << 16
_TAIL = 200
_CUT = "it was cut off when the run was stopped"


@dataclass(frozen=True)
class Target:
    """Where notifications go: a command of the user's, or an address."""

    settings: Settings

    @property
    def name(self) -> str:
        """Its name for display; an address without its path, which may be its only secret."""
        notify = self.settings.notify or ""
        if not is_address(notify):
            return self.settings.notify_command[0]
        parts = urlsplit(notify)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    async def tell(self, text: str) -> str:
        """Deliver a notification; returns what went wrong, or an empty text."""
        words, stdin = self.settings.notify_command, f"{text}\n".encode()
        if not words:
            words = (sys.executable, "-I", "-S", str(Path(webhook.__file__)))
            stdin = f"{self.settings.notify}\n".encode() + stdin
        # Run outside the project: a relative path must not resolve to a file that came with it.
        home = str(user_home() or Path("/"))
        try:
            result = await capture(
                words, home, environment(), most=_OUTPUT, time_limit=LIMIT, given=stdin
            )
        except (OSError, ValueError) as error:
            return f"it cannot be started: {getattr(error, 'strerror', None) or error}"
        if result.status == 0 or result.cut:
            return ""
        if result.late:
            return f"it took longer than {LIMIT:g} s"
        complaint = visible_line(result.complaint.strip()[-_TAIL:])
        if is_address(self.settings.notify or "") and complaint:
            return complaint
        return f"it exited with {result.status}{': ' if complaint else ''}{complaint}"


@dataclass
class Notifier:
    """An observer that also sends notifications; the run happens inside `watching`."""

    storage: Storage
    project: Path
    task: TaskCreated
    target: Target
    redactor: Redactor
    observer: Observer | None = None

    def __post_init__(self) -> None:
        self._group: TaskGroup | None = None
        self._over = anyio.Event()
        self._has_complained = False

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[Observer]:
        """Send notifications alongside the run in the block, and at its end."""
        with plain_errors():
            async with anyio.create_task_group() as self._group:
                self._group.start_soon(self._notify_ended, self.task.task_id)
                yield self
                self._over.set()
                await self._notify_ended()

    def saw(self, record: Record) -> None:
        """Pass the record on; notify of an open question."""
        if self.observer is not None:
            self.observer.saw(record)
        if isinstance(record, InteractionRecord) and record.state == "open":
            assert self._group is not None, "the run is inside `watching`"
            self._group.start_soon(self._tell_question, record.interaction.interaction_id)

    async def _tell_question(self, name: str) -> None:
        with suppress(CoterieError):  # the run itself reports problems with the database
            while (remaining := self._attended()) > 0 and not self._over.is_set():
                with anyio.move_on_after(remaining):
                    await self._over.wait()
            question, store = await self.storage.inbox.question(name), self.storage.notifications
            if question is None or question.state != "open":
                await store.settle(name, "seen")
            elif remaining <= 0 and await store.claim(name):  # else it is due when the task resumes
                await self._send(of_question(question, self.task, str(self.project)))

    async def _notify_ended(self, running: str = "") -> None:
        """Notify of tasks that have ended or parked for a limit, including those whose process
        died before it could; the task that is `running` needs no notification."""
        with suppress(CoterieError):
            for one in await self.storage.notifications.unsent():
                if one.limited_until and one.task_id == running:
                    await self.storage.notifications.settle(one.incident, "seen")
                elif one.limited_until or (one.is_end and one.task_id != running):
                    await self._tell_end(one)

    async def _tell_end(self, ended: PendingNotification) -> None:
        store, name = self.storage.notifications, ended.task_id
        if name == self.task.task_id and self._attended() > 0:
            await store.settle(ended.incident, "seen")
        elif await store.claim(ended.incident):
            state, project = fold(await self.storage.events.of_task(name)), str(self.project)
            if ended.is_end:
                await self._send(of_end(state, project))
            else:
                member = await self._limited(ended)
                await self._send(of_limit(ended, state.created, member, project))

    async def _limited(self, parked: PendingNotification) -> str:
        """Return the member whose limit it is, also in a task below, such as a ticket's work."""
        for one in await self.storage.member_states():
            if one.until == parked.limited_until and is_part(one.task_id, parked.task_id):
                return one.member
        return "a member"

    def _attended(self) -> float:
        """Return for how many more seconds a person is assumed to be watching the run."""
        observer = self.observer
        idle = observer.idle_seconds() if isinstance(observer, AttendedObserver) else None
        after = milliseconds(self.target.settings.notify_after) / 1000
        return 0.0 if idle is None else after - idle

    async def _send(self, notification: Notification) -> None:
        problem = _CUT
        try:
            fields: Mapping[str, object] = notification.model_dump(mode="json", exclude_none=True)
            problem = await self.target.tell(json.dumps(self.redactor.value(fields)))
        finally:
            problem = self.redactor.text(problem)
            outcome: Outcome = "failed" if problem else "sent"
            with anyio.CancelScope(shield=True):
                await self.storage.notifications.settle(notification.id, outcome, problem)
        if problem and self.observer is not None and not self._has_complained:
            self._has_complained = True
            self.observer.saw(
                ErrorRecord(
                    code="not_notified",
                    message=f"{self.target.name} could not be notified of {notification.id}: "
                    f"{problem}.",
                    hint="coterie doctor",
                    task=self.task.task_id,
                )
            )


async def notify_question(storage: Storage, project: Path, settings: Settings, name: str) -> None:
    """Notify of a question that was not asked by a run."""
    question = await storage.inbox.question(name)
    assert question is not None
    interaction = question.interaction
    task = fold(await storage.events.of_task(interaction.task_id)).created
    notifier = Notifier(storage, project, task, Target(settings), Redactor())
    async with notifier.watching() as watched:
        watched.saw(InteractionRecord(interaction, interaction.author_actor_id))
