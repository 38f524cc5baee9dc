"""One stream of events over all projects."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse, ServerSentEvent

from coterie.web.hub import TheHub

router: APIRouter = APIRouter(tags=["events"])


@router.get("/events", response_class=EventSourceResponse)
async def events(hub: TheHub) -> AsyncGenerator[ServerSentEvent]:
    """What happens from now on."""
    yield ServerSentEvent(event="reset", data={})
    await hub.closing.wait()
