"""`show` and `tickets`: all about one task, question or ticket, or a session's tickets."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.app.views import (
    MemberStderr,
    SessionView,
    read_checked,
    read_member_stderr,
    read_session,
    read_ticket,
)
from coterie.cli import card
from coterie.cli.inbox import context_of, find_question
from coterie.cli.main import (
    Call,
    command,
    current_project,
    group,
    run_in_project,
    run_on_task,
    valued_flag,
)
from coterie.cli.report import in_words
from coterie.cli.text import Paint, about, clock, counted, field, one_line, state_of, warned
from coterie.cli.ticket_report import page_lines
from coterie.cli.ticket_table import Row, progress, rows, table, ticket_fields, ticket_graph
from coterie.errors import UsageError
from coterie.model import as_json
from coterie.model.record import TaskDetail
from coterie.model.task import TICKET as TICKET_WORKFLOW
from coterie.model.team import PIPELINE, TICKETS, member_folder
from coterie.model.ticket import after_session, named_ticket
from coterie.model.visible import printable
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.pipeline_state import PipelineState

"""The workflows that have more to show."""


@command("show", "coterie show last")
@click.argument("id_", metavar="[ID]", default="last")
@valued_flag(
    "--stderr", "[MEMBER]", "What its members' programs wrote to stderr: one member's, or all."
)
def show(call: Call, id_: str, stderr: str | None) -> None:
    """All about a task (k3f9, a prefix, or last), a question (q4) or a ticket (k3f9/T2).

    Without ID: the last task that you started.
    """
    if stderr is not None:
        _show_stderr(call, id_, stderr)
    elif re.fullmatch(r"q\d+", id_, re.I):
        _show_question(call, id_)
    elif ticket := named_ticket(id_):
        _show_ticket(call, *ticket)
    else:
        _show_task(call, id_)


def _show_task(call: Call, id_: str) -> None:
    session = run_on_task(call, id_, read_checked)
    detail, listed = session.detail, rows(session)
    call.record("task", as_json.detail(detail))
    call.lines(_task(detail, current_project(call).root, call.width, call.paint))
    if detail.view.workflow == PIPELINE:
        _show_state(call, detail.view.id)
    call.lines(field("next", _next(session), call.width))
    _show_faults(call, session)
    call.records("ticket", (ticket_fields(detail.view.id, row) for row in listed))
    if listed:
        call.lines(["", *ticket_graph(listed, call.width, call.paint), ""])
        call.lines(_table(listed, call.width, call.paint))
    call.lines(_open(call, detail))


def _show_state(call: Call, task_id: str) -> None:
    """Show the current phase and gates of a pipeline, and the folder of all that it made."""
    from coterie.cli.phase_events import state_lines

    async def body(app: App, task: str) -> PipelineState:
        return (await app.pipelines.view(task)).state

    state = run_on_task(call, task_id, body)
    call.record("pipeline", state.model_dump(mode="json"))
    call.lines([*state_lines(state), f"  files    .coterie/sessions/{task_id}/artifacts"])


def _show_stderr(call: Call, id_: str, member: str) -> None:
    """Show what members wrote to stderr; for a ticket, what its worker wrote."""

    async def read(app: App, task_id: str) -> list[MemberStderr]:
        return await read_member_stderr(app, task_id, member or None)

    outputs = run_on_task(call, id_, read, tickets=True)
    for one in outputs:
        call.record("stderr", {"member": one.member, "path": one.path, "text": one.text})
        lines = [f"  {printable(line)}" for line in one.text.splitlines()]
        call.lines([f"{one.member}  {shown(Path(one.path))}", *lines])
    if not outputs:
        call.line(
            f"{member} wrote nothing to stderr." if member else "Nothing was written to stderr."
        )


def _show_faults(call: Call, session: SessionView) -> None:
    """Say which envelopes are no longer as they were written."""
    for fault in session.faults:
        fields = {"task": session.id, "file": fault.file, "kind": fault.kind}
        call.record("envelope_fault", {**fields, "mended": fault.mended, "kept": fault.kept_as})
        call.line(f"! {one_line(str(fault))}")


def _show_question(call: Call, name: str) -> None:
    view = find_question(call, name)
    context = context_of(call, view)
    call.record("interaction", as_json.question(view))
    call.lines(card.card(context, call.width, paint=call.paint))
    if view.state == "open":
        call.line(card.how_to_answer(context))
    else:
        when = clock(view.answered_at) if view.answered_at else "unknown time"
        by = f" by {view.answered_by}" if view.answered_by else ""
        answer = card.answered(view.interaction, view.answer, view.said)
        call.line(f'{view.state} at {when}{by}: "{answer}"')


def _where(detail: TaskDetail, width: int) -> list[str]:
    """Who runs the task, or may run it."""
    view = detail.view
    if view.machine:
        return field("runs", f"on {view.machine}", width)
    if view.pid is not None:
        return field("runs as", f"pid {view.pid}", width)
    if not view.offered:
        return []
    refusals = [printable(f"{machine}: {why}") for machine, why in detail.refused.items()]
    texts = ["to every machine that meets its requirements", *refusals]
    return [line for text in texts for line in field("offered", text, width)]


def _task(detail: TaskDetail, root: Path, width: int, paint: Paint) -> list[str]:
    view, created = detail.view, detail.state.created
    team = created.team
    turns = counted(detail.turns, "turn")
    lines = [f"{view.id}  {view.workflow}  {state_of(view)}  {turns}"]
    lines += field("goal", printable(created.goal), width)
    if why := in_words(view.reason):
        lines += field("why", why, width)
    if detail.state.summary:
        lines += field("summary", printable(detail.state.summary), width)
    lines += field("started", clock(view.created_at), width)
    lines += field("updated", clock(view.changed_at), width)
    lines += _where(detail, width)
    lines += field("team", team.name, width)
    for member in team.in_order:
        folder = shown(member_folder(root, team.name, member))
        lines.append(
            f"    {member.id}  {warned(about(member), member.permissions.mode, paint)}  {folder}"
        )
    lines += _past(detail, width)
    for part in detail.children:
        if part.workflow != TICKET_WORKFLOW:  # tickets have a table of their own
            about_it = f"{part.id}  {state_of(part)}  {printable(part.title)}"
            lines += field("subtask", about_it, width)
    return lines


def _past(detail: TaskDetail, width: int) -> list[str]:
    """What failed, and what was answered."""
    lines: list[str] = []
    for who, what in detail.failures:
        lines += field("failed", f"{who}: {printable(what)}", width)
    for question in detail.questions:
        if question.state != "open":
            name = question.interaction.interaction_id
            answer = card.answered(question.interaction, question.answer, question.said)
            lines += field(name, f"{question.state}: {answer}", width)
    return lines


def _open(call: Call, detail: TaskDetail) -> list[str]:
    """The questions that wait for an answer."""
    lines: list[str] = []
    for view in detail.questions:
        if view.state == "open":
            lines += ["", *card.brief(context_of(call, view), call.width, call.paint)]
    return lines


def _next(session: SessionView) -> str:
    name, view = session.id, session.detail.view
    if view.resumable:
        return f"coterie resume {name}"
    if view.workflow == TICKETS and view.status == "completed":
        return " · ".join(after_session(name, has_branch=bool(session.branch)))
    return f"coterie log {name}"


def _show_ticket(call: Call, session: str, wanted: str) -> None:
    detail = run_on_task(call, session, partial(read_ticket, ticket_id=wanted))
    row = next(row for row in rows(detail.session) if row.ticket.id == wanted)
    more = {
        "branch": detail.branch or None,
        "history": [vars(event) for event in row.ticket.history],
        "envelopes": [one.model_dump(mode="json", exclude_none=True) for one in detail.envelopes],
    }
    if detail.task is not None:
        more |= {"failures": as_json.failures(detail.task), "status": detail.task.view.status}
        more |= {"questions": [as_json.question(view) for view in detail.task.questions]}
    call.record("ticket", ticket_fields(detail.session.id, row) | more)
    call.lines(page_lines(detail, row, call.width, call.paint))
    _show_faults(call, detail.session)
    if detail.task is not None:
        call.lines([*_past(detail.task, call.width), *_open(call, detail.task)])


class _Tickets(click.Group):
    """A group whose first argument may also be a session."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return "list", self.commands["list"], args
        return super().resolve_command(ctx, args)


@group(TICKETS, "coterie tickets last", _Tickets)
@click.pass_context
def tickets(context: click.Context) -> None:
    """The tickets of a session: the state, owner, time and cost of each."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Call), None)


@command("list", "coterie tickets last", tickets)
@click.argument("id_", metavar="[ID]", required=False)
def list_(call: Call, id_: str | None) -> None:
    """The tickets of a session. Without ID: of the newest; with k3f9/T3: all about that ticket."""
    if ticket := named_ticket(id_ or ""):
        _show_ticket(call, *ticket)
    else:
        _list(call, id_)


@command("reset", "coterie tickets reset last/T3", tickets)
@click.argument("name", metavar="ID/T3")
def reset(call: Call, name: str) -> None:
    """Let a failed ticket start over. What was done so far stays in its folder."""
    named = named_ticket(name)
    if named is None:
        raise UsageError(f'"{name}" is not a ticket.', "coterie tickets reset last/T3")

    session, ticket = named

    async def body(app: App, task_id: str) -> str:
        await app.reset_ticket(task_id, ticket)
        return task_id

    task_id = run_on_task(call, session, body)
    call.record("ticket", {"task": task_id, "id": ticket, "state": "pending", "owner": None})
    call.line(f"{task_id}/{ticket} is pending again.   coterie resume {task_id}")


def _list(call: Call, id_: str | None) -> None:
    if named := _tickets_of(call, id_):
        name, listed = named
        none = [f"{name} has no tickets."]
        call.lines(_table(listed, call.width, call.paint) if listed else none)


def _tickets_of(call: Call, id_: str | None) -> tuple[str, list[Row]] | None:
    """Return the named session's tickets, else the newest session's; None if there is no task."""
    session = (
        run_in_project(call, read_session) if id_ is None else run_on_task(call, id_, read_session)
    )
    if session is None:
        return None
    listed = rows(session)
    call.records("ticket", (ticket_fields(session.id, row) for row in listed))
    return session.id, listed


def _table(listed: list[Row], width: int, paint: Paint) -> list[str]:
    return [progress(listed, width), "", *table(listed, width, paint)]
