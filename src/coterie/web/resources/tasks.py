"""Tasks: which there are, starting one, and steering it."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio.to_thread
from fastapi import APIRouter, Query, Response
from pydantic import Field

from coterie.app.open_project import OpenProject
from coterie.app.projects import Project
from coterie.app.start import WantedTask, requested
from coterie.app.teams import Teams
from coterie.app.views import read_session, read_tasks
from coterie.errors import CoterieError
from coterie.model.record import TaskStanding
from coterie.model.team import NAME_PATTERN
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
    """The tasks of every known project, or of one, the newest first."""
    found: list[TaskShown] = []
    for name in (project,) if project is not None else await hub.projects():
        try:
            views = await read_tasks(await hub.project(name))
        except CoterieError:
            if project is not None:
                raise
            continue  # `GET /projects` says what is wrong with it
        kept = [(view, used) for view, used in views if state in (None, view.standing)]
        found += [TaskShown.of(name, view, used) for view, used in kept]
    found.sort(key=lambda task: task.created_at, reverse=True)
    return found[:limit]


class TaskGiven(RequestBody):
    """What is to be done, and by whom; with neither team nor agents, by the default team."""

    workflow: Literal["chat", "do", "run", "build"] = "chat"
    goal: Text
    team: Name | None = None
    agents: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    """A team without a file: `claude,sec=codex:gpt-5.5`."""
    member: Name | None = None
    """For `do`: whose job it is."""
    rehearsal: bool = False
    """Whether agents run on a stand-in for their models: no tokens, no login."""
    yes: bool = False
    """Whether a plan is approved unasked; never a tool."""


@router.post("/projects/{project}/tasks", status_code=201)
async def start_task(
    hub: TheHub, project: ProjectId, app: TheProject, given: TaskGiven, response: Response
) -> TaskShown:
    """Start a task; it belongs to this server, and is run by it."""
    teams = Teams(Project(app.root, app.home), app.home, given.rehearsal)
    wanted = WantedTask(
        given.workflow,
        given.goal,
        given.team,
        given.agents,
        given.member,
        given.rehearsal,
        given.yes,
    )
    task = await app.create(await anyio.to_thread.run_sync(requested, teams, wanted))
    await hub.run(project, task)
    response.headers["location"] = f"/api/v1/projects/{project}/tasks/{task}"
    return await _shown(app, project, task)


@router.get(_TASK)
async def show_task(project: ProjectId, app: TheProject, task: TheTask) -> TaskDetailShown:
    """All about one task, and what each of its members does now."""
    session = await read_session(app, task)
    running = await app.running(task)
    return TaskDetailShown.of_detail(project, session.detail, running, session.branch)


class SayGiven(RequestBody):
    """A word to a task."""

    text: Text


class SaidShown(Shown):
    """What became of a word."""

    task: str
    became: str
    """`answered q3`, or `queued`: heard after the turn that runs."""
    resumable: bool
    """Whether nobody runs the task, so that it must be resumed for the word to be heard."""


@router.post(f"{_TASK}/say")
async def say(app: TheProject, task: TheTask, given: SayGiven) -> SaidShown:
    """A word to a task: the answer where it is your turn, else heard after the running turn."""
    became = await app.say(task, given.text)
    view = (await app.show(task)).view
    return SaidShown(task=task, became=became, resumable=view.resumable)


@router.post(f"{_TASK}/interrupt", status_code=204)
async def interrupt(app: TheProject, task: TheTask) -> None:
    """Break off the turn that runs now."""
    await app.interrupt(task)


class StopGiven(RequestBody):
    """What is to be stopped."""

    member: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Only this member; the task goes on."""


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
    """What a task is resumed with."""

    trust: bool = False
    """Whether what its members are started with now is allowed."""


@router.post(f"{_TASK}/resume")
async def resume(
    hub: TheHub,
    project: ProjectId,
    app: TheProject,
    task: TheTask,
    given: ResumeGiven | None = None,
) -> TaskShown:
    """Go on with a task that was parked, stopped or killed; this server then runs it."""
    if given is not None and given.trust:
        await app.allow(task)
    await hub.run(project, task)
    return await _shown(app, project, task)


@router.post(f"{_TASK}/cancel")
async def cancel(project: ProjectId, app: TheProject, task: TheTask) -> TaskShown:
    """End a task for good; to be able to go on, stop it instead."""
    await app.cancel(task)
    return await _shown(app, project, task)


@router.post(f"{_TASK}/end")
async def end(project: ProjectId, app: TheProject, task: TheTask) -> TaskShown:
    """End a conversation as completed; one that runs ends when its turn is over."""
    await app.end(task)
    return await _shown(app, project, task)


async def _shown(app: OpenProject, project: str, task: str) -> TaskShown:
    return TaskShown.of(project, (await app.show(task)).view)
