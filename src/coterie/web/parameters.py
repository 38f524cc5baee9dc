"""Parameters and dependencies of resources: validated, so that nothing else reaches a use case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Query

from coterie.app.views import require_task
from coterie.model.ticket import TICKET_ID
from coterie.web.hub import TheProject

TaskId = Annotated[str, Path(pattern=r"^[a-z][a-z0-9]{3,31}(\.[0-9]{1,4}){0,8}$")]
TicketId = Annotated[str, Path(pattern=f"^{TICKET_ID}$")]
PROJECT = "^[0-9a-f]{12}$"
"""The pattern of project ids in URLs."""
QUESTION = r"^q[0-9]{1,12}$"
"""The pattern of question ids."""
QuestionId = Annotated[str, Path(pattern=QUESTION)]
Before = Annotated[
    int | None, Query(ge=1, le=2**62, description="Only entries with a lower number.")
]
After = Annotated[
    int | None, Query(ge=0, le=2**62, description="Only entries with a higher number.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="The maximum number of entries.")]


@dataclass(frozen=True)
class AskedPage:
    """The part of a timeline that is requested."""

    before: Before = None
    after: After = None
    limit: Limit = 100


async def known_task(app: TheProject, task: TaskId) -> str:
    """Return the task that the path names; raises NotFound if there is none."""
    await require_task(app, task)
    return task


async def known_ticket(app: TheProject, task: TaskId, ticket: TicketId) -> str:
    """Return the task of the ticket that the path names; raises NotFound if there is none."""
    name = f"{task}/{ticket}"
    await require_task(app, name)
    return name


TheTask = Annotated[str, Depends(known_task)]
TheTicket = Annotated[str, Depends(known_ticket)]
ThePage = Annotated[AskedPage, Depends()]
