"""`coterie tickets`: the table of a session, and a ticket that is begun anew by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from coterie.cli.call import Call, command, group, pass_call
from coterie.cli.graph import graph
from coterie.cli.project import look, named
from coterie.cli.text import Paint
from coterie.cli.ticket_events import ticket_of
from coterie.cli.ticket_table import Row, progress, rows, table
from coterie.errors import NotFound, UsageError
from coterie.model.record import TaskDetail

if TYPE_CHECKING:
    from coterie.app.project import App

TICKETS = "tickets"
"""The workflow that has them."""
TICKET = re.compile(r"(?P<task>[^/\s]+)/(?P<ticket>T\d+)", re.IGNORECASE)
"""How a ticket is named: `k3f9/T2`, `last/t2`."""


class _Tickets(click.Group):
    """A group whose first word may also be a session."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return "list", self.commands["list"], args
        return super().resolve_command(ctx, args)


@group(TICKETS, "coterie tickets last", _Tickets)
@click.pass_context
def tickets(context: click.Context) -> None:
    """The tickets of a session: how each stands, who has it, what it took."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Call), None)


@command("list", "coterie tickets last")
@click.argument("id_", metavar="[ID]", required=False)
@pass_call
def list_(call: Call, id_: str | None) -> None:
    """The table of a session; alone: of the newest one."""
    _list(call, id_)


@command("reset", "coterie tickets reset last/T3")
@click.argument("name", metavar="ID/T3")
@pass_call
def reset(call: Call, name: str) -> None:
    """Let a ticket that failed be begun anew; what was done so far stays in its folder."""
    parts = TICKET.fullmatch(name)
    if parts is None:
        raise UsageError(f'"{name}" names no ticket.', "coterie tickets reset last/T3")

    async def body(app: App) -> str:
        task_id = await app.find_task(parts["task"])
        await app.reset_ticket(task_id, parts["ticket"].upper())
        return task_id

    task_id = named(call, name, body)
    ticket = parts["ticket"].upper()
    call.record("ticket", {"task": task_id, "id": ticket, "state": "pending", "owner": None})
    call.line(f"{task_id}/{ticket} is pending again.   coterie resume {task_id}")


@command("graph", "coterie graph last")
@click.argument("id_", metavar="ID", default="last")
@pass_call
def graph_(call: Call, id_: str) -> None:
    """What waits for what in a session with tickets."""

    async def body(app: App) -> tuple[TaskDetail, list[Row]]:
        return await session(app, await app.find_task(id_))

    detail, listed = named(call, id_, body)
    call.records("ticket", (fields(detail.view.id, row) for row in listed))
    call.lines(drawn(listed, call.width, call.paint) or [f"{detail.view.id} has no tickets."])


for _one in (list_, reset):
    tickets.add_command(_one)


# -- one, and all of them ----------------------------------------------------------------------


def show_ticket(call: Call, name: str) -> None:
    """All about one ticket, which is named as `TICKET` says."""
    from coterie.cli import ticket_page

    parts = TICKET.fullmatch(name)
    assert parts is not None

    async def body(app: App) -> ticket_page.TicketPage:
        detail, listed = await session(app, await app.find_task(parts["task"]))
        task_id, wanted = detail.view.id, parts["ticket"].upper()
        row = next((one for one in listed if one.ticket.id == wanted), None)
        if row is None:
            known = ", ".join(one.ticket.id for one in listed) or "none"
            raise NotFound(f"No ticket {wanted} in {task_id}. There are: {known}.")
        branch = await app.branch(task_id)
        own = f"{branch.rpartition('/')[0]}/{wanted}" if branch else ""
        return ticket_page.TicketPage.of(task_id, row, await app.envelopes(task_id), own)

    page = named(call, name, body)
    call.record("ticket", fields(page.task, page.row) | page.fields())
    call.lines(ticket_page.lines(page, call.width, call.paint))


def show_all(call: Call, task_id: str) -> None:
    """What waits for what in a session, and the table of its tickets."""

    async def body(app: App) -> tuple[TaskDetail, list[Row]]:
        return await session(app, task_id)

    _, listed = named(call, task_id, body)
    call.records("ticket", (fields(task_id, row) for row in listed))
    if listed:
        call.lines(["", *drawn(listed, call.width, call.paint), ""])
        call.lines([progress(listed, call.width), "", *table(listed, call.width, call.paint)])


# -- showing -----------------------------------------------------------------------------------


def _list(call: Call, id_: str | None) -> None:
    async def body(app: App) -> tuple[TaskDetail, list[Row]]:
        task_id = await app.find_task(id_) if id_ else await _newest(app)
        return await session(app, task_id)

    found = look(call, body) if id_ is None else named(call, id_, body)
    if found is None:
        return
    detail, listed = found
    call.records("ticket", (fields(detail.view.id, row) for row in listed))
    call.lines(_table(detail, listed, call.width, call.paint))


async def _newest(app: App) -> str:
    """The newest session that has tickets."""
    for view in reversed(await app.tasks()):
        if view.workflow == TICKETS:
            return view.id
    raise NotFound("No session with tickets yet.", 'coterie run "what should be reached"')


async def session(app: App, task_id: str) -> tuple[TaskDetail, list[Row]]:
    """A session and its tickets, with the questions that some of them wait for."""
    detail = await app.show(task_id)
    views = await app.tickets(task_id)
    known = {view.ticket.id: view.ticket for view in views}
    asks: dict[str, str] = {}
    for question in detail.questions:
        if question.state == "open":
            about = ticket_of(question.interaction, known)
            asks.setdefault(about, question.interaction.interaction_id)
    return detail, rows(views, detail.state.created.team, asks)


def _table(detail: TaskDetail, listed: list[Row], width: int, paint: Paint) -> list[str]:
    if not listed:
        return [f"{detail.view.id} has no tickets."]
    return [progress(listed, width), "", *table(listed, width, paint)]


def fields(task_id: str, row: Row) -> dict[str, object]:
    """A ticket as an object."""
    ticket = row.ticket
    return {
        "task": task_id,
        "id": ticket.id,
        "state": ticket.state,
        "owner": ticket.owner,
        "title": ticket.title,
        "message": ticket.reason,
        "dependencies": ticket.dependencies,
        "closed_by": ticket.closed_by,
        "checks": row.view.checks,
        "plan_task": ticket.task_id,
        "waits_for": row.waits_for,
        "asks": row.asks or None,
        "turns": row.view.turns,
        "seconds": round(row.view.seconds, 3),
        "tokens": row.view.tokens,
    }


def drawn(listed: list[Row], width: int, paint: Paint) -> list[str]:
    """What waits for what, each ticket with the sign of its state."""
    known = {row.ticket.id: row for row in listed if row.kind not in ("dropped", "replaced")}

    def shown(name: str) -> str:
        return f"{known[name].mark} {name}"

    return graph(
        {name: row.ticket.dependencies for name, row in known.items()},
        width,
        shown,
        lambda name: paint(shown(name), known[name].meaning),
    )
