"""A conversation from start to end, on whatever surface there is: screen, plain lines or JSON."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.app.costs import tally
from coterie.app.project import App
from coterie.cli.call import Call
from coterie.cli.records import JsonLines
from coterie.cli.report import INTERRUPTED
from coterie.cli.running import Concluding, Face, Parking, Remembering, carry, signals
from coterie.cli.transcript import PlainOutput
from coterie.cli.work import Patience
from coterie.config.project import Project
from coterie.errors import CoterieError
from coterie.model.task import Caps
from coterie.model.team import Team

if TYPE_CHECKING:
    from coterie.cli.screen.screen import Screen

_TICKETS = "tickets"
_LOOK_BACK = 12
"""How much of the past a resumed conversation shows again."""


@dataclass(frozen=True)
class Start:
    """What a new conversation is made of."""

    team: Team
    goal: str | None
    """None: the first line that is typed."""
    caps: Caps
    team_file: Path | None = None
    rehearsal: bool | Path = False
    workflow: str = "chat"


async def begin(call: Call, project: Project, start: Start, patience: Patience) -> int:
    """Start a task and run it until it ends or parks; returns the exit code."""
    parking = Parking()
    with signals(parking):
        async with App.open(project.root) as app:
            if call.live:
                return await _on_screen(call, project, app, start, parking, patience)
            task_id = await _started(app, start, start.goal or "")
            face = _face(call, start.team, start.workflow)
            face.opened(start.goal or "")
            return await _carried(call, app, task_id, face, parking, patience)


async def again(call: Call, project: Project, app: App, task_id: str, patience: Patience) -> int:
    """Go on with a task; raises TaskBusy where a living process runs it."""
    parking = Parking()
    detail = await app.show(task_id)
    team = detail.state.created.team
    with signals(parking):
        if not call.live:
            face = _face(call, team, detail.view.workflow)
            if isinstance(face, Remembering):
                face.knows(await app.tickets(task_id))
            return await _carried(call, app, task_id, face, parking, patience)
        caps = detail.state.created.caps
        screen = _screen(call, team, caps, project, detail.view.workflow)
        async with screen.shown(parking.request):
            screen.look_back((await app.timeline(task_id))[-_LOOK_BACK:])
            screen.caught_up(tally(await app.costs(task_id)).tokens, detail.questions)
            screen.attach(app, task_id)
            return await _carried(call, app, task_id, screen, parking, patience)


async def _carried(
    call: Call, app: App, task_id: str, face: Face, parking: Parking, patience: Patience
) -> int:
    """Run a task, and let a face that has more to say at the end say it."""
    code = await carry(call, app, task_id, face, parking, patience)
    if isinstance(face, Concluding):
        with suppress(CoterieError):  # what happened has been told; a look back can wait
            await face.conclude(app)
    return code


async def _on_screen(
    call: Call,
    project: Project,
    app: App,
    start: Start,
    parking: Parking,
    patience: Patience,
) -> int:
    screen = _screen(call, start.team, start.caps, project, start.workflow)
    async with screen.shown(parking.request):
        goal = start.goal
        if goal is None:
            with parking.stoppable():
                goal = await screen.first_word()
        if goal is None:
            return INTERRUPTED if parking.asked else 0
        task_id = await _started(app, start, goal)
        screen.attach(app, task_id)
        screen.opened(goal)
        return await _carried(call, app, task_id, screen, parking, patience)


async def _started(app: App, start: Start, goal: str) -> str:
    return await app.start(
        start.team,
        goal,
        start.caps,
        workflow=start.workflow,
        team_file=start.team_file,
        rehearsal=start.rehearsal,
    )


def _face(call: Call, team: Team, workflow: str) -> Face:
    if call.json:
        return JsonLines(call.record)
    if workflow != _TICKETS:
        return PlainOutput(call, team)
    from coterie.cli.ticket_events import PlainTickets

    return PlainTickets(call, team)


def _screen(call: Call, team: Team, caps: Caps, project: Project, workflow: str) -> Screen:
    from coterie.cli.screen.screen import Screen

    kind = Screen
    if workflow == _TICKETS:
        from coterie.cli.screen.tickets import TicketScreen

        kind = TicketScreen
    return kind(call, team, caps.max_turns, project.folder / "history")
