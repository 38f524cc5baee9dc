"""`ps` and `stop`: who does what now, in every project, and having one, some or all of it end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import click

from coterie.app import projects
from coterie.cli.doing import in_words
from coterie.cli.main import Call, command, named, pass_call, show_notices
from coterie.cli.text import ago, table, warned
from coterie.errors import UsageError
from coterie.model import as_json
from coterie.model.record import RunningMember, TaskView
from coterie.model.task import ENDED
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App


@command("ps", "coterie ps")
@pass_call
def ps(call: Call) -> None:
    """Who does what now, in every project: working, waiting (and for what), quiet, stuck."""
    known = _projects(call)
    at_work = anyio.run(projects.members_at_work, known)
    for error in at_work.failures:
        call.problem(error)
    found = at_work.members
    call.records("member", map(as_json.running, found))
    here = known.here.root if known.here else None
    head = ("  MEMBER", "AGENT", "DOES", "SINCE", "TASK", "MODE", "PID", "MEMORY", "HOME")
    rows = [head, *(_row(member, here) for member in found)]
    lines = table(rows, call.row_width, painted=lambda cell: warned(cell, call.paint))
    call.lines(lines if found else ["Nobody runs now."])
    call.line("What could run: coterie agents")


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
    """Every project something was done in, this one first."""
    known = projects.projects_at_work(call.directory)
    show_notices(call, known.notices)
    return known


@command("stop", "coterie stop k3f9 ada")
@click.argument("id_", metavar="[ID]", required=False)
@click.argument("member", required=False)
@click.option("--all", "everything", is_flag=True, help="Every task that runs, in every project.")
@pass_call
def stop(call: Call, id_: str | None, member: str | None, *, everything: bool) -> None:
    """Park a task: its agents end, nothing is lost, resume goes on.

    With MEMBER, only that one's agent ends and the task goes on; when its turn comes, you are asked
    what now.
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

    view, ran = named(call, id_, body)
    call.record("task", as_json.task(view) | {"stopped": ran})
    parked = ran and view.status not in ENDED  # it may have come to its end before it was told
    call.line(f"Stopped, kept: coterie resume {view.id}" if parked else _not_running(view))


def _stop_member(call: Call, id_: str, member: str) -> None:
    async def body(app: App, task_id: str) -> tuple[TaskView, bool]:
        ran = await app.stop_member(task_id, member)
        return (await app.show(task_id)).view, ran

    view, ran = named(call, id_, body)
    call.record("member", {"task": view.id, "member": member, "stopped": ran})
    asked = "You are asked what comes next: coterie inbox"
    call.line(f"Stopped {member}; {view.id} goes on.  {asked}" if ran else _not_running(view))


def _not_running(view: TaskView) -> str:
    """Why there was nothing to stop."""
    if view.status in ENDED:
        return f"{view.id} has ended ({view.status})."
    return f"Nobody runs {view.id}.  coterie resume {view.id}"


def _stop_all(call: Call) -> None:
    done = anyio.run(projects.stop_all, _projects(call))
    for error in done.failures:
        call.problem(error)
    for project, view in done.stopped:
        call.record("task", as_json.task(view) | {"stopped": True, "project": str(project)})
        call.line(f"Stopped, kept: coterie -C {shlex.quote(str(project))} resume {view.id}")
    if not done.stopped and not done.failures:
        call.line("Nothing runs.")
    if done.failures:
        raise click.exceptions.Exit(max(error.exit_code for error in done.failures))
