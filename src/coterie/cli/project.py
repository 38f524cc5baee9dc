"""Which project a command is about, and opening it for a look without making anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from coterie.cli.call import Call
from coterie.config.known_projects import KnownProjects, known_projects, remember_project
from coterie.config.mistakes import Notice
from coterie.config.project import Project, find_project, make_project
from coterie.errors import NotFound, UsageError
from coterie.model import instant

if TYPE_CHECKING:
    from coterie.app.project import App

T = TypeVar("T")


def here(call: Call) -> Project:
    """The project around us, or the one that `-C` names."""
    return find_project(call.directory)


def around(call: Call) -> Project | None:
    """The same; None in a home folder, which is no project and no reason to complain either."""
    try:
        return here(call)
    except UsageError:
        if call.directory is not None:
            raise
        return None


def made(call: Call, project: Project, *, announced: bool = True) -> Project:
    """The project with its `.coterie`, which is announced when it is new."""
    if make_project(project) and announced:
        call.note(f"Made {project.folder} (git ignores it; nothing else was touched).")
    notices(call, (remember_project(project, instant.now()),))
    return project


def notices(call: Call, told: tuple[Notice | None, ...]) -> None:
    """What was worth saying about a file, on stderr."""
    for notice in told:
        if notice is not None:
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


def all_known(call: Call) -> tuple[Project, ...]:
    """Every project something was done in, this one first."""
    known: KnownProjects = known_projects()
    notices(call, known.notices)
    first = around(call)
    others = [one for one in known.projects if first is None or one.root != first.root]
    found = [first, *others] if first is not None else others
    return tuple(one for one in found if one.database.exists())
