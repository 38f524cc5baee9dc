"""The tickets of a session: the list, one ticket in detail, its diff."""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter

from coterie.app.views import TicketRow, read_session, read_ticket, ticket_rows
from coterie.model import as_json
from coterie.model.envelope import Envelope
from coterie.model.task import Status
from coterie.model.ticket import TicketKind, TicketState
from coterie.web.changes import DiffShown
from coterie.web.hub import ProjectId, TheProject
from coterie.web.parameters import TheTask, TheTicket, TicketId
from coterie.web.schema import FailureShown, QuestionShown, Shown

router: APIRouter = APIRouter(tags=["tickets"])

_TICKETS = "/projects/{project}/tasks/{task}/tickets"


class TicketShown(Shown):
    """A ticket in the list of its session."""

    task: str
    id: str
    state: TicketState
    kind: TicketKind
    """What it counts as."""
    owner: str | None
    title: str
    message: str
    """Why it is in this state."""
    dependencies: list[str]
    closed_by: str | None
    checks: str
    """How many of its checks passed, as `2/3`; empty if none was run."""
    plan_task: str
    waits_for: list[str]
    """Tickets that must be done before it starts."""
    asks: str | None
    """The question that its work waits for."""
    turns: int
    seconds: float
    tokens: int | None

    @classmethod
    def of(cls, task: str, row: TicketRow) -> Self:
        """Convert a ticket of a session."""
        fields = as_json.ticket(task, row.view, row.kind, row.waits_for, row.asks)
        return cls.model_validate(fields)


class MomentShown(Shown):
    """One line of a ticket's history."""

    at: str
    event: str
    message: str


class TicketDetailShown(TicketShown):
    """One ticket, with every envelope about it."""

    branch: str | None
    history: list[MomentShown]
    envelopes: list[Envelope]
    status: Status | None
    """The status of the ticket's task."""
    failures: list[FailureShown]
    questions: list[QuestionShown]


@router.get(_TICKETS)
async def list_tickets(app: TheProject, task: TheTask) -> list[TicketShown]:
    """List the tickets of a session in the order of their creation; any other task has none."""
    session = await read_session(app, task)
    return [TicketShown.of(session.id, row) for row in ticket_rows(session.tickets, session.asks)]


@router.get(f"{_TICKETS}/{{ticket}}")
async def show_ticket(
    project: ProjectId, app: TheProject, task: TheTask, ticket: TicketId
) -> TicketDetailShown:
    """Show a ticket with its instruction, report, review and checks, as they were sent."""
    detail = await read_ticket(app, task, ticket)
    row = next(
        one
        for one in ticket_rows(detail.session.tickets, detail.session.asks)
        if one.view.ticket.id == ticket
    )
    fields = as_json.ticket(task, row.view, row.kind, row.waits_for, row.asks)
    own = detail.task
    questions = own.questions if own else ()
    fields |= {
        "branch": detail.branch or None,
        "history": [vars(moment) for moment in row.view.ticket.history],
        "envelopes": detail.envelopes,
        "status": own.view.status if own else None,
        "failures": as_json.failures(own) if own else [],
        "questions": [QuestionShown.of(project, view) for view in questions],
    }
    return TicketDetailShown.model_validate(fields)


@router.get(f"{_TICKETS}/{{ticket}}/diff")
async def show_ticket_diff(app: TheProject, task: TheTask, ticket: TheTicket) -> DiffShown:
    """Show what the work on a ticket changed."""
    return DiffShown.of(ticket, await app.changes.ticket_diff(ticket))


@router.post(f"{_TICKETS}/{{ticket}}/reset")
async def reset_ticket(app: TheProject, task: TheTask, ticket: TicketId) -> TicketShown:
    """Reset a failed ticket so that it can be started again."""
    await app.reset_ticket(task, ticket)
    session = await read_session(app, task)
    rows = ticket_rows(session.tickets, session.asks)
    return TicketShown.of(task, next(one for one in rows if one.view.ticket.id == ticket))
