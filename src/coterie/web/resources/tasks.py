"""Tasks: list them, start one, and control it."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio.to_thread
from fastapi import APIRouter, Query, Response
from pydantic import Field

from coterie.app.open_project import OpenProject
from coterie.app.start import RequestedTask, request_for
from coterie.app.teams import Teams
from coterie.app.views import read_session, read_tasks
from coterie.errors import CoterieError
from coterie.model.record import TaskStanding, TaskView
from coterie.model.team import NAME_PATTERN
from coterie.model.update import Usage
from coterie.web.hub import ProjectId, TheHub, TheProject
from coterie.web.parameters import PROJECT, Limit, TheTask
from coterie.web.schema import RequestBody, Shown, TaskDetailShown, TaskShown

router: APIRouter = APIRouter(tags=["tasks"])

_TASK = "/projects/{project}/tasks/{task}"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Text = Annotated[str, Field(min_length=1, max_length=200_000)]


@router.get("/tasks")
async def list_tasks(
    hub: TheHub,
    project: Annotated[str | None, Query(pattern=PROJECT)] = None,
    state: TaskStanding | None = None,
    limit: Limit = 100,
) -> list[TaskShown]:
    """List the tasks of every known project, or of one, newest first."""
    tasks: list[tuple[str, TaskView, Usage | None]] = []
    for name in (project,) if project is not None else await hub.projects():
        try:
            views = await read_tasks(await hub.project(name))
        except CoterieError:
            if project is not None:
                raise
            continue  # `GET /projects` says what is wrong with it
        tasks += [(name, view, used) for view, used in views if state in (None, view.standing)]
    tasks.sort(key=lambda one: one[1].created_at, reverse=True)
    return [TaskShown.of(*one) for one in tasks[:limit]]


class TaskGiven(RequestBody):
    """What to do, and who does it: without team and agents, the default team."""

    workflow: Literal["chat", "do", "run", "build"] = "chat"
    goal: Text
    team: Name | None = None
    agents: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """A team without a file: `claude,sec=codex:gpt-5.5`."""
    member: Name | None = None
    """For `do`: the member whose job it is."""
    rehearsal: bool = False
    """Whether agents run on a stand-in for their models: no tokens, no login."""
    yes: bool = False
    """Whether a plan is approved without asking; tool calls never are."""


@router.post("/projects/{project}/tasks", status_code=201)
async def start_task(
    hub: TheHub, project: ProjectId, app: TheProject, given: TaskGiven, response: Response
) -> TaskShown:
    """Start a task; this server owns and runs it."""
    teams = Teams(app.project, app.home, given.rehearsal)
    wanted = RequestedTask(
        given.workflow,
        given.goal,
        given.team,
        given.agents,
        given.member,
        given.rehearsal,
        given.yes,
    )
    task = await app.create(await anyio.to_thread.run_sync(request_for, teams, wanted))
    await hub.run(project, task)
    response.headers["location"] = f"/api/v1/projects/{project}/tasks/{task}"
    return await _shown(app, project, task)


@router.get(_TASK)
async def show_task(project: ProjectId, app: TheProject, task: TheTask) -> TaskDetailShown:
    """Show everything about one task, and what each of its members is doing."""
    session = await read_session(app, task)
    running = await app.running(task)
    return TaskDetailShown.of_detail(project, session.detail, running, session.branch)


class SayGiven(RequestBody):
    """A message to a task."""

    text: Text


class SaidShown(Shown):
    """What happened to a message."""

    task: str
    became: str
    """`answered q3`, or `queued`."""
    question: str | None
    """The question that it answered; null: it is delivered after the running turn."""
    resumable: bool
    """Whether no process runs the task, so that it must be resumed to deliver the message."""


@router.post(f"{_TASK}/say")
async def say(app: TheProject, task: TheTask, given: SayGiven) -> SaidShown:
    """Send a message to a task: the answer if it is your turn, else delivered after the running
    turn."""
    outcome = await app.say(task, given.text)
    view = (await app.show(task)).view
    became, resumable = str(outcome), view.resumable
    return SaidShown(task=task, became=became, question=outcome.question, resumable=resumable)


@router.post(f"{_TASK}/interrupt", status_code=204)
async def interrupt(app: TheProject, task: TheTask) -> None:
    """Interrupt the running turn."""
    await app.interrupt(task)


class StopGiven(RequestBody):
    """What to stop."""

    member: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Only this member; the task continues."""


@router.post(f"{_TASK}/stop")
async def stop(
    project: ProjectId, app: TheProject, task: TheTask, given: StopGiven | None = None
) -> TaskShown:
    """Park a task, or stop one member, and wait until that is done."""
    if given is not None and given.member is not None:
        await app.stop_member(task, given.member)
    else:
        await app.stop(task)
    return await _shown(app, project, task)


class ResumeGiven(RequestBody):
    """How to resume a task."""

    trust: bool = False
    """Whether to allow what its members would be started with now."""


@router.post(f"{_TASK}/resume")
async def resume(
    hub: TheHub,
    project: ProjectId,
    app: TheProject,
    task: TheTask,
    given: ResumeGiven | None = None,
) -> TaskShown:
    """Resume a task that was parked, stopped or killed; this server then runs it."""
    if given is not None and given.trust:
        await app.allow(task)
    await hub.run(project, task)
    return await _shown(app, project, task)


@router.post(f"{_TASK}/cancel")
async def cancel(project: ProjectId, app: TheProject, task: TheTask) -> TaskShown:
    """End a task for good; to resume it later, stop it instead."""
    await app.cancel(task)
    return await _shown(app, project, task)


@router.post(f"{_TASK}/end")
async def end(project: ProjectId, app: TheProject, task: TheTask) -> TaskShown:
    """End a conversation as completed; if it is running, it ends after the current turn."""

    await app.end(task)
    return await _shown(app, project, task)


async def _shown(app: OpenProject, project: str, task: str) -> TaskShown:
    return TaskShown.of(project, (await app.show(task)).view)
