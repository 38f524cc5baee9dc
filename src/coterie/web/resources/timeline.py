"""What happened in a task, page by page, newest page first: all of it, messages or tool calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from coterie.app.audit import ToolUse, read_call, use_fields
from coterie.app.views import read_page
from coterie.model.timeline import TimelineSource
from coterie.web.hub import TheProject
from coterie.web.parameters import After, Before, Limit, TheTask, TheTicket
from coterie.web.schema import PageShown, Shown

router: APIRouter = APIRouter(tags=["timeline"])

_TASK = "/projects/{project}/tasks/{task}"


@router.get(f"{_TASK}/timeline")
async def show_timeline(
    app: TheProject,
    task: TheTask,
    before: Before = None,
    after: After = None,
    limit: Limit = 100,
) -> PageShown:
    """The newest entries, the last before a number, or the first after one; oldest first."""
    found = await read_page(app, task, before=before, after=after, limit=limit)
    return PageShown.of(found, limit)


@router.get(f"{_TASK}/tickets/{{ticket}}/timeline")
async def show_ticket_timeline(
    app: TheProject,
    ticket: TheTicket,
    before: Before = None,
    after: After = None,
    limit: Limit = 100,
) -> PageShown:
    """The same of one ticket."""
    found = await read_page(app, ticket, before=before, after=after, limit=limit)
    return PageShown.of(found, limit)


@router.get(f"{_TASK}/messages")
async def list_messages(
    app: TheProject, task: TheTask, before: Before = None, limit: Limit = 100
) -> PageShown:
    """The newest messages, or the last before a number."""
    return await _only(app, task, before, limit, "message")


@router.get(f"{_TASK}/tool-calls")
async def list_tool_calls(
    app: TheProject, task: TheTask, before: Before = None, limit: Limit = 100
) -> PageShown:
    """The newest beginnings and ends of tool calls, or the last before a number."""
    return await _only(app, task, before, limit, "call")


async def _only(
    app: TheProject, task: str, before: int | None, limit: int, source: TimelineSource
) -> PageShown:
    found = await read_page(app, task, before=before, limit=limit, source=source)
    return PageShown.of(found, limit)


class ToolUseShown(Shown):
    """A whole tool call."""

    at: str
    task: str
    member: str
    id: str
    """What its agent calls it."""
    name: str
    input: dict[str, object] | None
    outcome: str
    """`ok`, `failed`, `denied`, `not run`; `open` while its task runs or asks, `unknown` after."""
    output: dict[str, object] | None
    is_error: bool | None
    duration_ms: int | None
    ended_at: str | None

    @classmethod
    def of(cls, use: ToolUse) -> ToolUseShown:
        """A call of the audit."""
        return cls.model_validate({**use_fields(use), "at": use.entry.timestamp})


@router.get(f"{_TASK}/tool-calls/{{number}}")
async def show_tool_call(
    app: TheProject, task: TheTask, number: Annotated[int, Path(ge=1, le=2**62)]
) -> ToolUseShown:
    """A tool call with its whole input and output, by the number of its beginning or its end."""
    return ToolUseShown.of(await read_call(app, task, number))
