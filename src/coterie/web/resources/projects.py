"""Projects: those that are known."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from coterie.web.hub import TheHub

router: APIRouter = APIRouter(tags=["projects"])


class ProjectShown(BaseModel):
    """A project in a list."""

    id: str
    name: str
    root: str


@router.get("/projects")
async def projects(hub: TheHub) -> list[ProjectShown]:
    """Every known project, the one around the server first."""
    return [
        ProjectShown(id=name, name=root.name, root=str(root))
        for name, root in (await hub.projects()).items()
    ]
