"""Run a task on whatever surface there is: screen, plain lines or JSON.

Signals park the task; how it ended is shown last.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from coterie.app.costs import tally
from coterie.app.project import App
from coterie.app.projects import Project
from coterie.app.run import StartRequest
from coterie.cli import report
from coterie.cli.lines import PlainOutput, Surface
from coterie.cli.main import Call
from coterie.cli.records import JsonLines
from coterie.cli.report import INTERRUPTED
from coterie.errors import CoterieError, TaskBusy
from coterie.model import instant
from coterie.model.record import ErrorRecord, MessageRecord, Record, ResultRecord
from coterie.model.task import RateLimited, TaskCreated
from coterie.model.team import PIPELINE, TICKETS, Team

if TYPE_CHECKING:
    from coterie.cli.screen.screen import Screen

_PARKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_BACK = 12
"""How many past entries a resumed conversation shows again."""


@dataclass(frozen=True)
class WaitOptions:
    """What a run waits for, and how long."""

    seconds: float | None
    """How long to wait for the answer to an open question; None: forever."""
    at_reset: bool = False
    """Whether to wait for the end of a rate limit too, however long that takes."""

    @classmethod
    def of(cls, call: Call, wait: float | None, *, at_reset: bool = False) -> WaitOptions:
        """As given; else forever on a live terminal, and not at all where nobody could answer."""
        default = None if call.live else 0.0
        return cls(default if wait is None else wait, at_reset)


async def start_task(
    call: Call,
    project: Project,
    start: StartRequest,
    options: WaitOptions,
    home: Path | None = None,
    wrapper: Callable[[Surface], Surface] | None = None,
) -> int:
    """Start a task and run it until it ends or is parked; return the exit code.

    `home` replaces the user's `~/.coterie`; a `wrapper` is put around the plain or JSON output,
    which then replaces the screen.
    """
    parking = StopRequest()
    with stop_on_signals(parking):
        async with App.open(project.root, home) as app:
            if wrapper is not None or not call.live:
                surface = _surface(call, start.team, start.workflow)
                surface = wrapper(surface) if wrapper else surface
                return await _run_new(call, app, start, surface, parking, options)
            screen = await make_screen(call, app, start)
            async with screen.shown(parking.request):
                if start.goal is None:
                    with parking.stoppable():
                        start = replace(start, goal=await screen.first_word())
                if start.goal is None:
                    return INTERRUPTED if parking.asked else 0
                return await _run_new(call, app, start, screen, parking, options)


async def _run_new(
    call: Call,
    app: App,
    start: StartRequest,
    surface: Surface,
    parking: StopRequest,
    options: WaitOptions,
) -> int:
    task_id = await app.create(start)
    surface.attach(app, task_id)
    surface.show_goal(start.goal or "")
    return await run_task(call, app, task_id, surface, parking, options)


async def resume_task(call: Call, app: App, task_id: str, options: WaitOptions) -> int:
    """Continue a task; raises TaskBusy if a live process runs it."""
    parking = StopRequest()
    detail = await app.show(task_id)
    created = detail.state.created
    with stop_on_signals(parking):
        if not call.live:
            surface = _surface(call, created.team, created.workflow)
            if created.workflow == TICKETS:
                surface.load_tickets(await app.tickets(task_id))
            return await run_task(call, app, task_id, surface, parking, options)
        screen = await make_screen(call, app, created)
        async with screen.shown(parking.request):
            screen.look_back((await app.timeline(task_id))[-LOOK_BACK:])
            screen.caught_up(tally(await app.costs(task_id)).tokens, detail.questions)
            screen.attach(app, task_id)
            return await run_task(call, app, task_id, screen, parking, options)


def _surface(call: Call, team: Team, workflow: str) -> Surface:
    if call.json:
        return JsonLines(call.record)
    if workflow == PIPELINE:
        from coterie.cli.phase_events import PhaseEvents

        return PlainOutput(call, team, PhaseEvents)
    if workflow != TICKETS:
        return PlainOutput(call, team)
    from coterie.cli.ticket_events import TicketEvents

    return PlainOutput(call, team, TicketEvents)


async def make_screen(call: Call, app: App, task: StartRequest | TaskCreated) -> Screen:
    """Create the live screen of a task, by its workflow."""
    from coterie.cli.screen.prompt import TypedHistory
    from coterie.cli.screen.screen import Screen

    kind = Screen
    if task.workflow == TICKETS:
        from coterie.cli.screen.tickets import TicketScreen

        kind = TicketScreen
    elif task.workflow == PIPELINE:
        from coterie.cli.screen.pipeline import PipelineScreen

        kind = PipelineScreen
    history: TypedHistory | None = None
    # Who only watches needs no valid registry or settings: without them, nothing typed is kept.
    with suppress(CoterieError):
        redactor = await app.redactor(task.team, str(task.team_file) if task.team_file else None)
        history = TypedHistory(app.project.folder / "history", redactor)
    return kind(call, task.team, task.caps.max_turns, history)


class StopRequest:
    """A request to stop and keep the task. A second one changes nothing, so that a second Ctrl-C
    cannot interrupt the cleanup."""

    def __init__(self) -> None:
        self.asked = False
        self._scope: anyio.CancelScope | None = None

    def request(self) -> None:
        """Stop what can be stopped now."""
        self.asked: bool = True
        if self._scope is not None:
            self._scope.cancel()

    def stoppable(self) -> anyio.CancelScope:
        """Return a scope that the request cancels, even if it came earlier."""
        self._scope = anyio.CancelScope()
        if self.asked:
            self._scope.cancel()
        return self._scope


@contextmanager
def stop_on_signals(parking: StopRequest) -> Generator[None]:
    """Let Ctrl-C, SIGTERM and a closed terminal request a stop."""
    loop = asyncio.get_running_loop()
    for number in _PARKING:
        loop.add_signal_handler(number, parking.request)
    try:
        yield
    finally:
        for number in _PARKING:
            loop.remove_signal_handler(number)


class GuardedObserver:
    """An observer that never raises: when the reader is gone, the run is parked instead."""

    def __init__(self, surface: Surface, stop: Callable[[], None]) -> None:
        self._surface = surface
        self._stop = stop
        self.turns = 0
        self.reader_gone = False
        """Whether the reader is gone."""

    def saw(self, record: Record) -> None:
        if isinstance(record, MessageRecord):
            self.turns: int = max(self.turns, record.turn)
        self.tell(lambda: self._surface.saw(record))

    def idle_seconds(self) -> float | None:
        return self._surface.idle_seconds()

    def tell(self, show: Callable[[], None]) -> None:
        """Show something, unless the reader is gone."""
        if not self.reader_gone:
            with self._guarded():
                show()

    async def finished(self, app: App, result: ResultRecord) -> None:
        """Show how the run ended, as far as that is known."""
        if not self.reader_gone:
            with self._guarded(), suppress(CoterieError):  # what happened has been shown
                await self._surface.finished(app, result)

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except BrokenPipeError:
            self.reader_gone: bool = True
            self._stop()


async def run_task(
    call: Call, app: App, task_id: str, surface: Surface, parking: StopRequest, options: WaitOptions
) -> int:
    """Run a task until it ends or is parked, and show how; return the exit code."""
    watched = GuardedObserver(surface, parking.request)
    result: ResultRecord | None = None
    code: int | None = None
    with parking.stoppable():
        try:
            result = await app.run(
                task_id, watched, wait=options.seconds, at_reset=options.at_reset
            )
        except TaskBusy:
            raise
        except CoterieError as error:
            failure = error
            watched.tell(lambda: call.problem(failure))
            result = report.failed(task_id, error.code, watched.turns)
            code = error.exit_code
    if result is None:
        result = report.interrupted(task_id, watched.turns)
    await show_result(app, result, watched)
    if watched.reader_gone:
        call.note(report.stopped_line(task_id))
    return report.exit_code(result) if code is None else code


async def show_result(app: App, result: ResultRecord, surface: Surface | GuardedObserver) -> None:
    """Show how a run ended, and before that the rate limit that ended it."""
    if isinstance(result.stop, RateLimited):
        surface.saw(await rate_limited(app, result.task, result.stop))
    await surface.finished(app, result)


async def rate_limited(app: App, task_id: str, stop: RateLimited) -> ErrorRecord:
    """Say why a run was parked that could continue by itself later."""
    member = (await app.show(task_id)).state.created.team.get(stop.member)
    agent = f"{member.agent} " if member and member.agent else ""
    limit = f"rate limit until {instant.in_utc(stop.until, short=True)}"
    return ErrorRecord(
        code="rate_limit",
        message=f"{stop.member}: {agent}{limit}. Parked, nothing lost.",
        hint=f"coterie resume {task_id} --at-reset",
        member=stop.member,
        task=task_id,
    )
