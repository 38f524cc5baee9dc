"""The timeline of a task, newest page first: all entries, only messages, or only tool calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from coterie.app.audit import ToolUse, read_call, use_fields
from coterie.app.views import read_page
from coterie.model.timeline import TimelineSource
from coterie.web.hub import TheProject
from coterie.web.parameters import AskedPage, Before, Limit, ThePage, TheTask, TheTicket
from coterie.web.schema import PageShown, Shown

router: APIRouter = APIRouter(tags=["timeline"])

_TASK = "/projects/{project}/tasks/{task}"


@router.get(f"{_TASK}/timeline")
async def show_timeline(app: TheProject, task: TheTask, page: ThePage) -> PageShown:
    """List the newest entries, the last before a number, or the first after one; oldest first."""
    return await _read(app, task, page)


@router.get(f"{_TASK}/tickets/{{ticket}}/timeline")
async def show_ticket_timeline(app: TheProject, ticket: TheTicket, page: ThePage) -> PageShown:
    """The same for one ticket."""
    return await _read(app, ticket, page)


@router.get(f"{_TASK}/messages")
async def list_messages(
    app: TheProject, task: TheTask, before: Before = None, limit: Limit = 100
) -> PageShown:
    """List the newest messages, or the last before a number."""
    return await _read(app, task, AskedPage(before, limit=limit), "message")


@router.get(f"{_TASK}/tool-calls")
async def list_tool_calls(
    app: TheProject, task: TheTask, before: Before = None, limit: Limit = 100
) -> PageShown:
    """List the newest starts and ends of tool calls, or the last before a number."""
    return await _read(app, task, AskedPage(before, limit=limit), "call")


async def _read(
    app: TheProject, task: str, page: AskedPage, source: TimelineSource | None = None
) -> PageShown:
    timeline = await read_page(app, task, **vars(page), source=source)
    return PageShown.of(timeline, page.limit)


class ToolUseShown(Shown):
    """A complete tool call."""

    at: str
    task: str
    member: str
    id: str
    """The id that its agent gave it."""
    name: str
    input: dict[str, object] | None
    outcome: str
    """`ok`, `failed`, `denied`, `not run`; `open` while its task runs or waits, else `unknown`."""
    output: dict[str, object] | None
    is_error: bool | None
    duration_ms: int | None
    ended_at: str | None

    @classmethod
    def of(cls, use: ToolUse) -> ToolUseShown:
        """Convert a tool call of the audit."""
        return cls.model_validate({**use_fields(use), "at": use.entry.timestamp})


@router.get(f"{_TASK}/tool-calls/{{number}}")
async def show_tool_call(
    app: TheProject, task: TheTask, number: Annotated[int, Path(ge=1, le=2**62)]
) -> ToolUseShown:
    """Show a tool call with its whole input and output, by the number of its start or its end."""
    return ToolUseShown.of(await read_call(app, task, number))
