"""Which project a command is about, and running something on it without making anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from coterie.app.projects import (
    Notice,
    Project,
    ProjectsAtWork,
    find_project,
    open_folder,
    projects_at_work,
)
from coterie.cli.call import Call
from coterie.errors import NotFound

if TYPE_CHECKING:
    from coterie.app.project import App

T = TypeVar("T")


def here(call: Call) -> Project:
    """The project around us, or the one that `-C` names."""
    return find_project(call.directory)


def made(call: Call, project: Project, *, announced: bool = True) -> Project:
    """The project with its `.coterie`, which is announced when it is new."""
    opened = open_folder(project)
    if opened.is_new and announced:
        call.note(f"Made {project.folder} (git ignores it; nothing else was touched).")
    show_notices(call, opened.notices)
    return project


def show_notices(call: Call, notices: Iterable[Notice]) -> None:
    """What is worth knowing about a file, on stderr."""
    for notice in notices:
        hint = f"  {notice.hint}" if notice.hint else ""
        call.note(f"note: {notice.message}{hint}")


def look(call: Call, body: Callable[[App], Awaitable[T]]) -> T | None:
    """Run `body` on this project; says so kindly where nothing was ever done here."""
    project = here(call)
    if not project.database.exists():
        call.line(f"Nothing has been done in {project.root} yet.")
        call.line('Start:  coterie "what the team should do"')
        return None
    return opened(project, body)


def named(call: Call, name: str, body: Callable[[App], Awaitable[T]]) -> T:
    """Run `body` on this project, which must hold the task or question that was named."""
    project = here(call)
    if not project.database.exists():
        raise NotFound(f'No "{name}": nothing has been done in {project.root} yet.')
    return opened(project, body)


def opened(project: Project, body: Callable[[App], Awaitable[T]]) -> T:
    """Run `body` on an open project."""
    import anyio

    async def inside() -> T:
        from coterie.app.project import App

        async with App.open(project.root) as app:
            return await body(app)

    return anyio.run(inside)


def all_known(call: Call) -> ProjectsAtWork:
    """Every project something was done in, this one first."""
    known = projects_at_work(call.directory)
    show_notices(call, known.notices)
    return known
