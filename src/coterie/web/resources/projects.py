"""Projects: list the known ones, and add one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter
from pydantic import Field

from coterie.app.projects import adopt_folder
from coterie.errors import CoterieError
from coterie.web.hub import Hub, TheHub
from coterie.web.problems import Problem, problem_of
from coterie.web.schema import RequestBody, ShownText

router: APIRouter = APIRouter(tags=["projects"])


class ProjectShown(ShownText):
    """A project in a list."""

    id: str
    name: str
    root: str
    problem: Problem | None = None
    """Why it cannot be opened."""


@router.get("/projects")
async def list_projects(hub: TheHub) -> list[ProjectShown]:
    """List every known project, starting with the one the server was started in."""
    return [await _shown(hub, name, root) for name, root in (await hub.projects()).items()]


class ProjectGiven(RequestBody):
    """The folder of a new project."""

    folder: Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=4096)]


@router.post("/projects", status_code=201)
async def make_project(hub: TheHub, given: ProjectGiven) -> ProjectShown:
    """Make a folder a project: its `.coterie` is created if there is none."""
    root = await anyio.to_thread.run_sync(adopt_folder, Path(given.folder))
    return await _shown(hub, await hub.add(root), root)


async def _shown(hub: Hub, name: str, root: Path) -> ProjectShown:
    problem = None
    try:
        await hub.project(name)
    except CoterieError as error:
        problem = problem_of(error)
    return ProjectShown(id=name, name=root.name, root=str(root), problem=problem)
