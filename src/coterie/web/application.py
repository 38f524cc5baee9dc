"""The application: every resource under `/api/v1`, the page everywhere else."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from coterie import __version__
from coterie.web import description, events, problems, session
from coterie.web.access import API, Access, Guard
from coterie.web.hub import Hub
from coterie.web.resources import (
    artifacts,
    changes,
    inbox,
    machine,
    pipeline,
    projects,
    record,
    tasks,
    teams,
    tickets,
    timeline,
)

PAGE = Path(__file__).with_name("page")
"""Where `make page` puts the built page."""

ROUTERS: tuple[APIRouter, ...] = (
    session.router,
    projects.router,
    tasks.router,
    timeline.router,
    inbox.router,
    tickets.router,
    pipeline.router,
    artifacts.router,
    changes.router,
    record.router,
    teams.router,
    machine.router,
    events.router,
)


def bare_application() -> FastAPI:
    """Build the application with every resource, but without the hub and access check they need."""
    application = FastAPI(
        title="Coterie",
        version=__version__,
        description="The coding agents you have, as one team.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    for router in ROUTERS:
        application.include_router(router, prefix=API)
    description.describe(application)
    return application


def make_application(hub: Hub, access: Access, page: Path | None) -> FastAPI:
    """Build the whole application, or only the API if `page` is None.  Blocks."""
    application = bare_application()
    application.state.hub = hub
    application.state.access = access
    problems.install(application)
    if page is not None:
        _serve_page(application, page)
    application.add_middleware(Guard, access=access, changed=hub.touch)
    return application


def _serve_page(application: FastAPI, page: Path) -> None:
    """Serve the page's files; every other path is one of its screens."""
    mimetypes.init(
        files=()
    )  # the built-in types cover our files, and the machine's tables may differ
    if (page / "assets").is_dir():
        application.mount("/assets", StaticFiles(directory=page / "assets"))
    files = {one.name: one for one in page.iterdir() if one.is_file()}  # such as its icon

    async def screen(request: Request, path: str) -> Response:
        if path.startswith("api/"):
            raise HTTPException(404)
        file = files.get(path, files["index.html"])
        return FileResponse(file, headers={"cache-control": "no-cache"})

    application.add_api_route("/{path:path}", screen, include_in_schema=False)
