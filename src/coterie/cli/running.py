"""Running a task under a surface: signals park it, the result is shown last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import anyio

from coterie.cli import report
from coterie.cli.call import Call
from coterie.cli.work import Patience
from coterie.errors import CoterieError, TaskBusy
from coterie.model.record import ErrorRecord, MemberRecord, MessageRecord, Record, ResultRecord

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.ticket import TicketView

_PARKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Face(Protocol):
    """A surface that shows a run."""

    def opened(self, goal: str, author: str = ...) -> None:
        """The word that a task starts with."""
        ...

    def saw(self, record: Record) -> None:
        """One thing happened."""
        ...

    def finished(self, result: ResultRecord) -> None:
        """How it ended."""
        ...


@runtime_checkable
class Concluding(Protocol):
    """A surface that looks at what was done before it says how a run ended."""

    async def conclude(self, app: App) -> None:
        """Say it; called after `finished`, when nothing runs any more."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A surface that tells more of a session when it knows how its tickets stood before."""

    def knows(self, tickets: Iterable[TicketView]) -> None:
        """Tickets that were there before this run."""
        ...


class Parking:
    """The wish to stop and keep: once uttered it holds, and a second one changes nothing, so that
    a second Ctrl-C cannot break the clean-up."""

    def __init__(self) -> None:
        self.asked = False
        self._scope: anyio.CancelScope | None = None

    def request(self) -> None:
        """Stop what can be stopped now."""
        self.asked: bool = True
        if self._scope is not None:
            self._scope.cancel()

    def stoppable(self) -> anyio.CancelScope:
        """A scope that the wish cancels, even when it was uttered before."""
        self._scope = anyio.CancelScope()
        if self.asked:
            self._scope.cancel()
        return self._scope


@contextmanager
def signals(parking: Parking) -> Generator[None]:
    """Ctrl-C, SIGTERM and a closed terminal are the wish to stop and keep."""
    loop = asyncio.get_running_loop()
    for number in _PARKING:
        loop.add_signal_handler(number, parking.request)
    try:
        yield
    finally:
        for number in _PARKING:
            loop.remove_signal_handler(number)


class Watched:
    """An observer that never raises: when the reader is gone, the run is parked instead."""

    def __init__(self, face: Face, stop: Callable[[], None]) -> None:
        self._face = face
        self._stop = stop
        self.turns = 0
        self.limited = None
        """The member that last had to wait for the end of a rate limit."""
        self.left = False
        """Whether nobody reads any more."""

    def saw(self, record: Record) -> None:
        if isinstance(record, MessageRecord):
            self.turns: int = max(self.turns, record.turn)
        elif isinstance(record, MemberRecord) and record.reason.startswith("rate limit"):
            self.limited: MemberRecord | None = record
        self.tell(lambda: self._face.saw(record))

    def tell(self, show: Callable[[], None]) -> None:
        """Show something, if anybody is there to read it."""
        if self.left:
            return
        try:
            show()
        except BrokenPipeError:
            self.left: bool = True
            self._stop()


async def carry(
    call: Call,
    app: App,
    task_id: str,
    face: Face,
    parking: Parking,
    patience: Patience,
) -> int:
    """Run a task until it ends or parks, and show how; returns the exit code."""
    watched = Watched(face, parking.request)
    result: ResultRecord | None = None
    code: int | None = None
    with parking.stoppable():
        try:
            result = await app.run(
                task_id, watched, patience=patience.seconds, at_reset=patience.at_reset
            )
        except TaskBusy:
            raise
        except CoterieError as error:
            failure = error
            watched.tell(lambda: call.problem(failure))
            result = _broken_off(task_id, watched.turns, error.code)
            code = error.exit_code
    if result is None:
        result = report.interrupted(task_id, watched.turns)
    if result.reason == "rate_limit" and watched.limited is not None:
        watched.saw(await _rate_limited(app, task_id, watched.limited))
    watched.tell(lambda: face.finished(result))
    if watched.left:
        call.note(report.stopped_line(task_id))
    return report.exit_code(result) if code is None else code


async def _rate_limited(app: App, task_id: str, waiting: MemberRecord) -> ErrorRecord:
    """Why a run parked that could go on by itself later."""
    member = (await app.show(task_id)).state.created.team.get(waiting.member)
    agent = f"{member.agent} " if member and member.agent else ""
    return ErrorRecord(
        code="rate_limit",
        message=f"{waiting.member}: {agent}{waiting.reason}. Parked, nothing lost.",
        hint=f"coterie resume {task_id} --at-reset",
        member=waiting.member,
        task=task_id,
    )


def _broken_off(task_id: str, turns: int, reason: str) -> ResultRecord:
    again = (f"coterie resume {task_id}",)
    return ResultRecord(task_id, "waiting", reason, "", turns, next=again)
