"""`audit` and `cost`: every recorded tool call, and the usage of turns as agents reported it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import click

from coterie.cli import budgets
from coterie.cli.lines import input_summary
from coterie.cli.main import Call, command, run_in_project, run_on_task
from coterie.cli.tasks import ListLimit, limit_options
from coterie.cli.text import (
    clock,
    counted,
    duration,
    one_line,
    parse_span,
    table,
    write_data,
)
from coterie.model.task import ticket_task_of
from coterie.model.tool_call import ChainedEntry
from coterie.model.update import Usage, sum_of, token_count
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.audit import AuditCheck, AuditView, ToolUse
    from coterie.app.costs import Cost, CostKey
    from coterie.app.project import App
    from coterie.app.views import CostView

UNKNOWN = "-"
_DAYS = re.compile(r"(\d{1,5})d", re.I)


class Since(click.ParamType[str]):
    """An option value that names a point in time: a span back from now, a date or a timestamp."""

    name = "since"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        from coterie.errors import InvalidTime
        from coterie.model import instant

        text = str(value).strip()
        days = _DAYS.fullmatch(text)
        span = int(days[1]) * 86_400.0 if days else parse_span(text)
        try:
            if span is not None:
                return instant.after(-span)
            moment = _parse_moment(text)
            if moment.tzinfo is None:
                ways = (moment.astimezone().isoformat(), f"{moment.isoformat()}Z")
                message = "{!r} has no time zone; write {} for local time, {} for UTC.".format(
                    text, *ways
                )
                self.fail(message, param, ctx)
            return instant.of(moment)
        except InvalidTime as error:
            self.fail(str(error), param, ctx)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not a time; write it like 7d, 2h or 2026-01-31.", param, ctx)


def _parse_moment(text: str) -> datetime:
    """Parse a date as its local midnight, as times are displayed; a timestamp keeps its zone."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text)
    return datetime.combine(day, time.min).astimezone()


_SINCE = click.option(
    "--since",
    type=Since(),
    metavar="7d",
    help="Only since then: 7d, 2h, 2026-01-31 (local midnight), 2026-01-31T12:00Z.",
)


@command("audit", "coterie audit last --errors")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--member", metavar="NAME", help="Only the calls of this member.")
@click.option("--tool", metavar="NAME", help="Only tools with this in their name.")
@_SINCE
@click.option(
    "--errors", is_flag=True, help="Only calls that failed, were denied or have an unknown outcome."
)
@limit_options
@click.option(
    "--verify",
    is_flag=True,
    help="Check that no row and no envelope was changed, added or removed.",
)
@click.option(
    "--export", "path", metavar="FILE", help="Write the rows to a file as JSON lines; - is stdout."
)
def audit(
    call: Call, id_: str | None, *, verify: bool, path: str | None, listed: ListLimit, **given: Any
) -> None:
    """Every tool call that agents made: when, who, what, how it ended.

    The record only grows: each row carries a hash over itself and the row before.
    """
    from coterie.app.audit import AuditFilter, check_audit, read_audit

    async def read(app: App, task_id: str | None = None) -> AuditView:
        wanted = AuditFilter(
            task_id, given["member"], given["tool"], given["since"], given["errors"]
        )
        return await read_audit(app, wanted)

    if verify:
        checked = (
            run_in_project(call, check_audit)
            if id_ is None
            else run_on_task(call, id_, check_audit)
        )
        if checked is not None:
            _show_check(call, checked)
        return
    view = run_in_project(call, read) if id_ is None else run_on_task(call, id_, read, tickets=True)
    if view is None:
        return
    if path is not None:
        _export(call, view.rows[-listed.limit :] if listed.limit else view.rows, path)
        return
    kept = listed.apply(call, view.uses)
    _list(call, kept)
    listed.print_rest(call, len(view.uses) - len(kept))


def _list(call: Call, uses: Sequence[ToolUse]) -> None:
    from coterie.app.audit import use_fields

    for use in uses:
        call.record("audit", use_fields(use), use.entry.timestamp)
    if not uses:
        call.line("No matching tool calls.")
        return
    head = ("TIME", "TASK", "MEMBER", "TOOL", "OUTCOME", "TOOK", "WHAT")
    call.lines(table([head, *(_use_row(use) for use in uses)], call.row_width))


def _use_row(use: ToolUse) -> tuple[str, ...]:
    entry, took = use.entry, use.completed.duration_ms if use.completed else None
    output = use.completed.output if use.completed else None
    return (
        clock(entry.timestamp),
        ticket_task_of(entry.task_id) or entry.task_id,
        entry.author_actor_id,
        one_line(entry.tool_name),
        use.outcome,
        "-" if took is None else duration(took / 1000),
        input_summary(entry.input or {}) or input_summary(output or {}),
    )


def _show_check(call: Call, check: AuditCheck) -> None:
    problems = check.all_problems
    envelopes = sum(one.count for one in check.sessions)
    signed = sum(one.count for one in check.sessions if one.signed)
    call.record("audit_check", check.fields())
    for problem in problems:
        call.note(f"! {one_line(problem)}")
    for fault in (fault for one in check.sessions for fault in one.faults if fault.earlier):
        call.note(one_line(str(fault)))
    if problems:
        raise click.exceptions.Exit(1)
    call.line(f"audit      {counted(check.rows, 'row')}, chain intact")
    call.line(f"events     {counted(check.events, 'row')}, chain intact")
    if envelopes:
        proof = f"{signed} signed, all signatures valid" if signed else "not signed"
        call.line(f"envelopes  {envelopes}, every file unchanged; {proof}")


def _export(call: Call, rows: Sequence[ChainedEntry], path: str) -> None:
    from coterie.app.audit import export_audit, exported

    if path == "-":
        for row in rows:
            write_data(sys.stdout, exported(row))
        return
    target = export_audit(rows, path)
    call.record("export", {"rows": len(rows), "path": str(target)})
    call.line(f"Wrote {counted(len(rows), 'row')} to {shown(target)}")


_KEYS = ("task", "ticket", "member", "agent", "day")
"""What costs can be grouped by."""


@command("cost", "coterie cost --by day --since 7d")
@click.argument("id_", metavar="[ID]", required=False)
@click.option(
    "--by",
    type=click.Choice(_KEYS),
    help="Group by this; default: by task, with ID by member.",
)
@_SINCE
@limit_options
def cost(
    call: Call, id_: str | None, by: CostKey | None, since: str | None, listed: ListLimit
) -> None:
    """Tokens and money, by task, ticket, member, agent or day; for one ticket: k3f9/T2.

    A figure that no agent reported is shown as -, never as 0.
    """
    from coterie.app.costs import cost_fields, grouped
    from coterie.app.views import read_costs

    async def read(app: App, task_id: str | None = None) -> CostView:
        return await read_costs(app, task_id, since)

    view = run_in_project(call, read) if id_ is None else run_on_task(call, id_, read, tickets=True)
    if view is None:
        return
    costs = view.costs
    by = by or ("task" if id_ is None else "member")
    groups = grouped(costs, by)
    kept = dict(listed.apply(call, list(groups.items())))
    for name, group in kept.items():
        call.record("cost", {"by": by, "key": name, **cost_fields(group)})
    if not costs:
        rehearsed = f"{view.rehearsal} is a rehearsal: it used nothing."
        call.line(rehearsed if view.rehearsal else "No turns to count; rehearsals are left out.")
        return
    titles = {spent.task: spent.title for spent in costs} if by == "task" else {}
    rows = [_cost_row(name, group, titles.get(name, "")) for name, group in kept.items()]
    total = [_cost_row("all", costs, "")] if len(groups) > 1 else []
    head = (by.upper(), "TURNS", "INPUT", "OUTPUT", "USD", "SOURCE", "")
    call.lines(table([head, *rows, *total], call.row_width))
    listed.print_rest(call, len(groups) - len(kept))
    used = {name: budgets.used(*budget) for name, budget in view.budgets.items()}
    size = max(map(len, used), default=0)
    lines = [f"  {name:<{size}}  {text}" for name, text in used.items() if text]
    call.lines(["Task budget", *lines] if lines else [])


def _sum(costs: Sequence[Cost]) -> Usage | None:
    """Return the total usage; None if no agent reported any."""
    return sum_of(spent.usage for spent in costs if spent.usage is not None)


def _cost_row(name: str, costs: Sequence[Cost], title: str) -> tuple[str, ...]:
    usage = _sum(costs) or Usage()
    silent = sum(spent.usage is None for spent in costs)
    source = usage.source + (f"; {silent} not reported" if silent else "")
    tokens = (usage.input_tokens, usage.output_tokens)
    return (
        name,
        str(sum(spent.turns for spent in costs)),
        *(UNKNOWN if count is None else token_count(count) for count in tokens),
        UNKNOWN if usage.cost_usd is None else f"{usage.cost_usd:.2f}",
        "not reported" if silent == len(costs) else source,
        one_line(title),
    )
