"""What resources are named by and depend on: typed, so that nothing else reaches a use case."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query

from coterie.app.views import require_task
from coterie.web.hub import TheProject

TaskId = Annotated[str, Path(pattern=r"^[a-z][a-z0-9]{3,31}(\.[0-9]{1,4}){0,8}$")]
TicketId = Annotated[str, Path(pattern=r"^T[0-9]{1,6}$")]
PROJECT = "^[0-9a-f]{12}$"
"""How projects are called in addresses."""
QUESTION = r"^q[0-9]{1,12}$"
"""How questions are called."""
QuestionId = Annotated[str, Path(pattern=QUESTION)]
Before = Annotated[int | None, Query(ge=1, le=2**62, description="Only what has a lower number.")]
After = Annotated[int | None, Query(ge=0, le=2**62, description="Only what has a higher number.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]


async def known_task(app: TheProject, task: TaskId) -> str:
    """The task that the path names; raises NotFound."""
    await require_task(app, task)
    return task


async def known_ticket(app: TheProject, task: TaskId, ticket: TicketId) -> str:
    """The task that is the ticket which the path names; raises NotFound."""
    name = f"{task}/{ticket}"
    await require_task(app, name)
    return name


TheTask = Annotated[str, Depends(known_task)]
TheTicket = Annotated[str, Depends(known_ticket)]
