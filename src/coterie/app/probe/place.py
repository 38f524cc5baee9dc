"""The task that a CLI is probed with: said to, listened to, ended and taken up again."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from coterie.app.project import App
from coterie.errors import CoterieError
from coterie.model.conversation import YOU
from coterie.model.interaction import Interaction
from coterie.model.record import (
    DeltaRecord,
    ErrorRecord,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    Record,
)
from coterie.model.task import Caps
from coterie.model.team import Team
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from coterie.rehearsal.server import RehearsalServer

T = TypeVar("T")


class Failed(Exception):
    """A step did not work; the reason is a sentence's end."""


class Model:
    """Answers the next word with what it was given, and tool results with one word."""

    def __init__(self) -> None:
        self.next: Answer = reply("Yes.")

    async def answer(self, asked: CompletionRequest) -> Answer:
        """As the step that runs now wants it."""
        return reply("Done.") if asked.results else self.next


class Place:
    """The task that is probed with, its run, and what is heard of it."""

    def __init__(
        self, app: App, server: RehearsalServer, model: Model, group: TaskGroup, team: Team
    ) -> None:
        self.app = app
        self.server = server
        self._model = model
        self._group = group
        self._team = team
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._ended.set()
        self.task = ""
        self.trouble = ""
        """What was last told to be wrong: it says more than that nothing came."""

    async def begin(self) -> None:
        """A new task, which waits for our first word."""
        self.task: str = await self.app.start(
            self._team, "", Caps(max_rounds=1, floor="ask"), rehearsal=True
        )
        self.run()

    def run(self) -> None:
        """Run the task, from where it is."""
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self.trouble: str = ""
        self._saw, self._heard = anyio.create_memory_object_stream[Record](math.inf)
        self._group.start_soon(self._run)

    async def _run(self) -> None:
        try:
            with self._scope, self._saw:
                await self.app.run(self.task, self, patience=None)
        except CoterieError as error:
            self.trouble = str(error)
        finally:
            self._ended.set()

    async def end(self) -> None:
        """End the run and every process of it; the task is kept."""
        self._scope.cancel()
        with self._heard:
            await self._ended.wait()

    def saw(self, record: Record) -> None:
        """The engine tells what happens (ports.Observer)."""
        if isinstance(record, ErrorRecord):
            self.trouble = record.message
        if not isinstance(record, DeltaRecord):
            with suppress(anyio.BrokenResourceError):  # nobody listens: the probe was stopped
                self._saw.send_nowait(record)

    async def heard(self, wanted: Callable[[Record], T | None]) -> T:
        """The first thing told from now on that is wanted."""
        async for record in self._heard:
            problem = _cannot_speak(record)
            if problem is not None:
                raise Failed(problem)
            found = wanted(record)
            if found is not None:
                return found
        raise Failed(self.trouble or "the task ended before its time")

    async def say(self, word: str, answer: Answer) -> None:
        """Have the member take a turn on this word, in which its model answers so."""
        await self.heard(_our_turn)
        self._model.next = answer
        await self.app.say(self.task, word)

    async def rest(self) -> None:
        """Wait until nothing runs: it is our turn."""
        await self.heard(_our_turn)


def _question(record: Record) -> Interaction | None:
    if isinstance(record, InteractionRecord) and record.state == "open":
        return record.interaction
    return None


def _cannot_speak(record: Record) -> str | None:
    """What is wrong, where the engine asks what to do about a member that failed for good."""
    asked = _question(record)
    return asked.display.description if asked and asked.kind == "Select" else None


def _our_turn(record: Record) -> Interaction | None:
    asked = _question(record)
    return asked if asked and asked.kind == "Input" else None


def is_opened(record: Record) -> MemberRecord | None:
    """The member works: its channel has opened."""
    if isinstance(record, MemberRecord) and record.member != YOU and record.state == "working":
        return record
    return None


def replied(record: Record) -> MessageRecord | None:
    """The member said something, or was cut short."""
    return record if isinstance(record, MessageRecord) and record.member != YOU else None


def replied_or_asked(record: Record) -> MessageRecord | Interaction | None:
    """The same, or it wants leave for what it is about to do."""
    asked = _question(record)
    return asked if asked and asked.purpose == "confirm_risky_action" else replied(record)
