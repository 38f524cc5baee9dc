"""`attach`: the live screen of a task that another process runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import click

from coterie.app.costs import tally
from coterie.cli import report
from coterie.cli.main import Call, command, run_on_task
from coterie.cli.running import (
    LOOK_BACK,
    StopRequest,
    make_screen,
    rate_limited,
    show_result,
    stop_on_signals,
)
from coterie.cli.timeline import Timeline
from coterie.errors import UsageError
from coterie.model import as_json, instant
from coterie.model.record import Entry, InteractionRecord, MemberRecord, TaskDetail
from coterie.model.task import ENDED, RateLimited

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.cli.screen.screen import Screen

_LOOK = 1.0
"""Seconds between polls of what the members do, which alone is not on the timeline."""


@command("attach", "coterie attach k3f9")
@click.argument("id_", metavar="[ID]", default="last")
def attach(call: Call, id_: str) -> None:
    """Watch a task that another process runs: answer questions, send messages, interrupt a turn.

    Without ID: the last task that you started. Ctrl-C leaves the screen, and the task keeps
    running. Without a terminal, the log is printed as it grows.
    """

    async def body(app: App, task_id: str) -> int:
        detail = await app.show(task_id)
        if detail.view.status in ENDED:
            raise UsageError(
                f"{task_id} has ended ({detail.view.status}).", f"coterie log {task_id}"
            )
        if not detail.view.is_run:
            raise UsageError(f"{task_id} is not running.", f"coterie resume {task_id}")
        follow = _on_screen if call.live else follow_log
        return await follow(call, app, detail)

    raise click.exceptions.Exit(run_on_task(call, id_, body))


async def follow_log(call: Call, app: App, detail: TaskDetail) -> int:
    """Print the log of a task that another process runs, until the task ends or is parked."""
    timeline, began = Timeline(call, app.root, detail.state.created.team), time.monotonic()
    async for entry in app.follow(detail.view.id):
        timeline.show(entry)
    result = await app.result(detail.view.id)
    if isinstance(result.stop, RateLimited):
        limit = await rate_limited(app, result.task, result.stop)
        timeline.show(Entry(instant.now(), limit))
    call.lines(report.lines(result, time.monotonic() - began, call.paint, call.row_width))
    call.record("result", as_json.fields_of(result))
    return report.exit_code(result)


async def _on_screen(call: Call, app: App, detail: TaskDetail) -> int:
    task_id, created = detail.view.id, detail.state.created
    leaving = StopRequest()
    screen = await make_screen(call, app, created)
    screen.watch()
    with stop_on_signals(leaving):
        async with screen.shown(leaving.request):
            past = await app.timeline(task_id)
            screen.look_back(past[-LOOK_BACK:])
            screen.caught_up(tally(await app.costs(task_id)).tokens, detail.questions)
            screen.attach(app, task_id)
            for entry in _still_open(past):
                screen.saw(entry.record)
            with leaving.stoppable():
                async with anyio.create_task_group() as group:
                    group.start_soon(_show_members, app, task_id, screen)
                    await _show_new(app, task_id, len(past), screen)
                    group.cancel_scope.cancel()
            if not leaving.asked:
                result = await app.result(task_id)
                await show_result(app, result, screen)
                return report.exit_code(result)
    call.line(f"Left {task_id}; it keeps running.   coterie attach {task_id}")
    return 0


def _still_open(past: list[Entry]) -> list[Entry]:
    """Return the entries of the questions that are still open."""
    still_open: dict[str, Entry] = {}
    for entry in past:
        if isinstance(entry.record, InteractionRecord):
            name = entry.record.interaction.interaction_id
            if entry.record.state == "open":
                still_open[name] = entry
            else:
                still_open.pop(name, None)
    return list(still_open.values())


async def _show_new(app: App, task_id: str, known: int, screen: Screen) -> None:
    """Show what is added to the timeline until the task ends or its owner is gone."""
    async for entry in app.follow(task_id):
        if known > 0:
            known -= 1
        else:
            screen.saw(entry.record)


async def _show_members(app: App, task_id: str, screen: Screen) -> None:
    before: dict[str, MemberRecord] = {}
    while True:
        now = await app.running(task_id)
        for name in before.keys() - {one.member for one in now}:
            del before[name]
            screen.saw(MemberRecord(task_id, name, "idle"))
        for one in now:
            doing = MemberRecord(
                task_id,
                one.member,
                one.state,
                one.reason,
                one.since,
                one.question,
                one.waits_for,
                one.until,
            )
            if before.get(one.member) != doing:
                before[one.member] = doing
                screen.saw(doing)
        await anyio.sleep(_LOOK)
