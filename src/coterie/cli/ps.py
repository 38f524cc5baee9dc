"""`ps` and `stop`: see who does what in every project, and stop a member, a task or all tasks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from coterie.app import projects
from coterie.cli.doing import in_words
from coterie.cli.main import Call, command, run_on_task, show_notices
from coterie.cli.text import ago, table, warned
from coterie.errors import UsageError
from coterie.model import as_json
from coterie.model.record import RunningMember, TaskView
from coterie.model.task import ENDED
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App


@command("ps", "coterie ps")
def ps(call: Call) -> None:
    """What each member is doing, in every project: working, waiting (for what), quiet, stuck."""
    known = _projects(call)
    at_work = anyio.run(projects.members_at_work, known)
    for error in at_work.failures:
        call.problem(error)
    members = at_work.members
    call.records("member", map(as_json.running, members))
    here = known.here.root if known.here else None
    head = ("  MEMBER", "AGENT", "DOES", "SINCE", "TASK", "MODE", "PID", "MEMORY", "HOME")
    rows = [head, *(_row(member, here) for member in members)]

    def painted(cell: str, row: int, column: int) -> str:
        is_mode = row > 0 and head[column] == "MODE"
        return warned(cell, members[row - 1].mode, call.paint) if is_mode else cell

    lines = table(rows, call.row_width, painted=painted)
    call.lines(lines if members else ["No member is running."])
    call.line("Available agents: coterie agents")


def _row(member: RunningMember, here: Path | None) -> tuple[str, ...]:
    elsewhere = "" if member.project == here else f" in {shown(member.project)}"
    return (
        f"  {member.member}",
        member.agent,
        f"{'parked, ' if member.parked else ''}{in_words(member)}",
        ago(member.since) or "-",
        f"{member.task}{elsewhere}",
        member.mode,
        str(member.pid or "-"),
        f"{member.memory // 1_000_000} MB" if member.memory else "-",
        str(member.home or member.folder),
    )


def _projects(call: Call) -> projects.ProjectsAtWork:
    """Return every project that has a database, this one first."""
    known = projects.projects_at_work(call.directory)
    show_notices(call, known.notices)
    return known


@command("stop", "coterie stop k3f9 ada")
@click.argument("id_", metavar="[ID]", required=False)
@click.argument("member", required=False)
@click.option("--all", "everything", is_flag=True, help="Every running task, in every project.")
def stop(call: Call, id_: str | None, member: str | None, *, everything: bool) -> None:
    """Park a task: its agents stop, nothing is lost, and resume continues it.

    With MEMBER, only that member's agent stops and the task continues; at the member's next turn
    you are asked what to do.
    """
    if everything and id_ is not None:
        raise UsageError("--all takes no ID.", "coterie stop --all, or coterie stop ID")
    if everything:
        _stop_all(call)
    elif id_ is None:
        raise UsageError("Which task?", "coterie stop ID, or coterie stop --all; see coterie ps")
    elif member is not None:
        _stop_member(call, id_, member)
    else:
        _stop_task(call, id_)


def _stop_task(call: Call, id_: str) -> None:
    async def body(app: App, task_id: str) -> tuple[TaskView, bool]:
        ran = await app.stop(task_id)
        return (await app.show(task_id)).view, ran

    view, ran = run_on_task(call, id_, body)
    call.record("task", as_json.task(view) | {"stopped": ran})
    parked = ran and view.status not in ENDED  # it may have ended before the stop arrived
    call.line(f"Parked: coterie resume {view.id}" if parked else _not_running(view))


def _stop_member(call: Call, id_: str, member: str) -> None:
    async def body(app: App, task_id: str) -> tuple[TaskView, bool]:
        ran = await app.stop_member(task_id, member)
        return (await app.show(task_id)).view, ran

    view, ran = run_on_task(call, id_, body)
    call.record("member", {"task": view.id, "member": member, "stopped": ran})
    notice = "You will be asked what to do: coterie inbox"
    call.line(f"Stopped {member}; {view.id} continues.  {notice}" if ran else _not_running(view))


def _not_running(view: TaskView) -> str:
    """Return why there was nothing to stop."""
    if view.status in ENDED:
        return f"{view.id} has ended ({view.status})."
    return f"{view.id} is not running.  coterie resume {view.id}"


def _stop_all(call: Call) -> None:
    done = anyio.run(projects.stop_all, _projects(call))
    for error in done.failures:
        call.problem(error)
    for project, view in done.stopped:
        call.record("task", as_json.task(view) | {"stopped": True, "project": str(project)})
        call.line(f"Parked: coterie -C {shlex.quote(str(project))} resume {view.id}")
    if not done.stopped and not done.failures:
        call.line("Nothing is running.")
    if done.failures:
        raise click.exceptions.Exit(max(error.exit_code for error in done.failures))
