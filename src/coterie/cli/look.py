"""`tasks`, `log` and `ps`: what there is, what happened, who runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli import records
from coterie.cli.call import Call, command, pass_call
from coterie.cli.project import look, named
from coterie.cli.text import ago, one_line, table, warned
from coterie.cli.timeline import Timeline
from coterie.model.record import RunningMember, TaskView
from coterie.model.task import ENDED

if TYPE_CHECKING:
    from coterie.app.project import App


@command("tasks", "coterie tasks --json")
@pass_call
def tasks(call: Call) -> None:
    """Every task of this project, the newest last."""

    async def body(app: App) -> list[TaskView]:
        return await app.tasks()

    found = look(call, body)
    if found is None:
        return
    call.records("task", map(records.task, found))
    rows = [task_row(view) for view in found]
    call.lines(table(rows, call.width) or ['No task yet.   coterie "what the team should do"'])
    waiting = [view.id for view in found if view.resumable]
    if waiting:
        call.line(f"Go on: coterie resume {waiting[-1]}")


def task_row(view: TaskView) -> tuple[str, str, str, str]:
    """A task in a table."""
    return (f"  {view.id}", state_of(view), ago(view.changed_at), one_line(view.title))


def state_of(view: TaskView) -> str:
    """A task's state in a word or two, as a person would say it."""
    if view.status in ENDED:
        return view.status
    if view.questions:
        asks = " ".join(view.questions)
        return f"waits {asks}"
    return "running" if view.pid is not None else "parked"


@command("log", "coterie log last --follow")
@click.argument("id_", metavar="ID", default="last")
@click.option("-f", "--follow", is_flag=True, help="Go on until the task ends.")
@pass_call
def log(call: Call, id_: str, *, follow: bool) -> None:
    """What happened in a task, in order; each line names who."""

    async def body(app: App) -> None:
        task_id = await app.find_task(id_)
        detail = await app.show(task_id)
        timeline = Timeline(call, app.root, detail.state.created.team)
        timeline.head(detail)
        if not follow:
            running = detail.view.pid is not None
            timeline.show_all(await app.timeline(task_id), running=running)
            return
        async for entry in app.follow(task_id):
            timeline.show(entry)
        timeline.end((await app.show(task_id)).view)

    named(call, id_, body)


@command("ps", "coterie ps")
@pass_call
def ps(call: Call) -> None:
    """The agents whose process runs now, in this project."""

    async def body(app: App) -> list[RunningMember]:
        return await app.running()

    found = look(call, body)
    if found is None:
        return
    call.records("member", map(records.running, found))
    head = ("  AGENT-MEMBER", "MODE", "PID", "STATE", "SINCE", "MEMORY", "TASK", "THREAD", "HOME")
    rows = [head, *(_member_row(member) for member in found)]
    lines = table(rows, call.width, painted=lambda cell: warned(cell, call.paint))
    call.lines(lines if found else ["Nobody runs now."])
    call.line("What could run: coterie agents")


def _member_row(member: RunningMember) -> tuple[str, ...]:
    why = f": {one_line(member.reason)}" if member.reason else ""
    return (
        f"  {member.label}",
        member.mode,
        str(member.pid or "-"),
        f"{member.state}{why}",
        ago(member.since) or "-",
        f"{member.memory // 1_000_000} MB" if member.memory else "-",
        member.task,
        (member.thread or "-")[:8],
        str(member.home or member.folder),
    )
