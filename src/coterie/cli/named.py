"""The task that the user names, wherever it is: in this project, else in another of theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from coterie.app.project import App
from coterie.app.projects import Project, has_history, project_around, project_of
from coterie.cli.main import Call, current_project, run_with_app
from coterie.errors import NotFound
from coterie.model.workspace import shown

R = TypeVar("R")


def run_on_task(
    call: Call, name: str, body: Callable[[App, str], Awaitable[R]], *, tickets: bool
) -> R:
    """Run `body` on the named task; one of another project is found only by its exact id."""
    around = project_around(call.directory)
    missing = NotFound(f'No task "{name}" in any project.', "coterie inbox")
    if around is not None:
        missing = NotFound(f'No "{name}": nothing has been done in {around.root} yet.')
        if has_history(current_project(call)):
            outcome = _tried(around, name, body, tickets=tickets)
            if not isinstance(outcome, NotFound):
                return outcome[0]
            missing = outcome
    other = None
    if call.directory is None and name.partition("/")[0] != "last":
        other = anyio.run(project_of, name, around)
    if other is None:
        raise missing
    call.directory = other.root  # for the rest of this command
    call.note(f"In {shown(other.root)}:")
    outcome = _tried(other, name, body, tickets=tickets)
    if isinstance(outcome, NotFound):
        raise outcome
    return outcome[0]


def _tried(
    project: Project, name: str, body: Callable[[App, str], Awaitable[R]], *, tickets: bool
) -> tuple[R] | NotFound:
    """Return the outcome, wrapped; the error if this project has no such task."""

    async def inside(app: App) -> tuple[R] | NotFound:
        try:
            task_id = await app.find_task(name, tickets=tickets)
        except NotFound as error:
            return error
        return (await body(app, task_id),)

    return run_with_app(project, inside)
