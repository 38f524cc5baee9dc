"""`coterie show`: all about one task or one question."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from coterie.cli import card, records
from coterie.cli.call import Call, command, pass_call
from coterie.cli.inbox import asked, find_question
from coterie.cli.project import here, named
from coterie.cli.report import in_words
from coterie.cli.tasks import state_of
from coterie.cli.text import Paint, about, clock, counted, field, printable, warned
from coterie.cli.tickets import TICKET, TICKETS, show_all, show_ticket
from coterie.model.record import TaskDetail
from coterie.model.team import member_folder
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from pathlib import Path

    from coterie.app.project import App


@command("show", "coterie show last")
@click.argument("id_", metavar="ID", default="last")
@pass_call
def show(call: Call, id_: str) -> None:
    """All about a task (k3f9, its beginning, or last), a question (q4) or a ticket (k3f9/T2)."""
    if re.fullmatch(r"q\d+", id_, re.I):
        _show_question(call, id_)
        return
    if TICKET.fullmatch(id_):
        show_ticket(call, id_)
        return

    async def body(app: App) -> TaskDetail:
        return await app.show(await app.find_task(id_))

    detail = named(call, id_, body)
    call.record("task", records.detail(detail))
    call.lines(_task(detail, here(call).root, call.width, call.paint))
    if detail.view.workflow == TICKETS:
        show_all(call, detail.view.id)
    open_ones = [view for view in detail.questions if view.state == "open"]
    for view in open_ones:
        call.lines(["", *card.brief(asked(call, view), call.width, call.paint)])


def _show_question(call: Call, name: str) -> None:
    view = find_question(call, name)
    question = asked(call, view)
    call.record("interaction", records.question(view))
    call.lines(card.card(question, call.width, paint=call.paint))
    if view.state == "open":
        call.line(card.how_to_answer(question))
    else:
        when = clock(view.answered_at) if view.answered_at else "unknown time"
        by = f" by {view.answered_by}" if view.answered_by else ""
        said = card.answered(view.interaction, view.answer, view.said)
        call.line(f'{view.state} at {when}{by}: "{said}"')


def _task(detail: TaskDetail, root: Path, width: int, paint: Paint) -> list[str]:
    view, created = detail.view, detail.state.created
    team = created.team
    turns = counted(detail.turns, "turn")
    lines = [f"{view.id}  {view.workflow}  {state_of(view)}  {turns}"]
    lines += field("goal", printable(created.goal), width)
    if view.reason:
        lines += field("why", in_words(view.reason), width)
    if detail.state.summary:
        lines += field("summary", printable(detail.state.summary), width)
    lines += field("started", clock(view.created_at), width)
    lines += field("changed", clock(view.changed_at), width)
    if view.pid is not None:
        lines += field("runs as", f"pid {view.pid}", width)
    lines += field("team", team.name, width)
    for member in team.in_order:
        folder = shown(member_folder(root, team.name, member))
        lines.append(f"    {member.id}  {warned(about(member), paint)}  {folder}")
    for who, what in detail.failures:
        lines += field("failed", f"{who}: {printable(what)}", width)
    for question in detail.questions:
        if question.state != "open":
            name = question.interaction.interaction_id
            said = card.answered(question.interaction, question.answer, question.said)
            lines += field(name, f"{question.state}: {said}", width)
    lines += field("next", _next(detail), width)
    return lines


def _next(detail: TaskDetail) -> str:
    name = detail.view.id
    if detail.view.resumable:
        return f"coterie resume {name}"
    if detail.view.workflow == TICKETS and detail.view.status == "completed":
        return f"coterie diff {name} · coterie accept {name}"
    return f"coterie log {name}"
