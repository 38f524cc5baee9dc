"""The tickets of a session: the board, one ticket's page, its change."""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter

from coterie.app.views import TicketRow, read_session, read_ticket, ticket_rows
from coterie.model import as_json
from coterie.model.envelope import Envelope
from coterie.model.task import Status
from coterie.model.ticket import TicketState
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
    owner: str | None
    title: str
    message: str
    """Why it stands as it does."""
    dependencies: list[str]
    closed_by: str | None
    checks: str
    """How many of its checks passed, as `2/3`; empty where none was run."""
    plan_task: str
    waits_for: list[str]
    """Tickets that must be done before it begins."""
    asks: str | None
    """The question that its work waits for."""
    turns: int
    seconds: float
    tokens: int | None

    @classmethod
    def of(cls, task: str, row: TicketRow) -> Self:
        """A ticket of a session."""
        return cls.model_validate(as_json.ticket(task, row.view, row.waits_for, row.asks))


class MomentShown(Shown):
    """One line of a ticket's history."""

    at: str
    event: str
    message: str


class TicketDetailShown(TicketShown):
    """One ticket, and all that was said about it."""

    branch: str | None
    history: list[MomentShown]
    envelopes: list[Envelope]
    status: Status | None
    """Of the ticket as a task."""
    failures: list[FailureShown]
    questions: list[QuestionShown]


@router.get(_TICKETS)
async def list_tickets(app: TheProject, task: TheTask) -> list[TicketShown]:
    """The tickets of a session, in the order in which they were made; of another task, none."""
    session = await read_session(app, task)
    return [TicketShown.of(session.id, row) for row in ticket_rows(session.tickets, session.asks)]


@router.get(f"{_TICKETS}/{{ticket}}")
async def show_ticket(
    project: ProjectId, app: TheProject, task: TheTask, ticket: TicketId
) -> TicketDetailShown:
    """A ticket's instruction, report, review and checks, as they were said."""
    found = await read_ticket(app, task, ticket)
    row = next(
        one
        for one in ticket_rows(found.session.tickets, found.session.asks)
        if one.view.ticket.id == ticket
    )
    fields = dict(as_json.ticket(task, row.view, row.waits_for, row.asks))
    own = found.task
    asked = own.questions if own else ()
    fields |= {
        "branch": found.branch or None,
        "history": [vars(moment) for moment in row.view.ticket.history],
        "envelopes": found.said,
        "status": own.view.status if own else None,
        "failures": as_json.failures(own) if own else [],
        "questions": [QuestionShown.of(project, view) for view in asked],
    }
    return TicketDetailShown.model_validate(fields)


@router.get(f"{_TICKETS}/{{ticket}}/diff")
async def show_ticket_diff(app: TheProject, task: TheTask, ticket: TheTicket) -> DiffShown:
    """What a ticket's work changed."""
    return DiffShown.of(ticket, await app.changes.ticket_diff(ticket))


@router.post(f"{_TICKETS}/{{ticket}}/reset")
async def reset_ticket(app: TheProject, task: TheTask, ticket: TicketId) -> TicketShown:
    """Let a ticket that failed be begun anew."""
    await app.reset_ticket(task, ticket)
    session = await read_session(app, task)
    rows = ticket_rows(session.tickets, session.asks)
    return TicketShown.of(task, next(one for one in rows if one.view.ticket.id == ticket))
