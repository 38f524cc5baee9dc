"""`coterie audit`: every tool call on record, and whether the record is whole."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.call import Call, command, pass_call, write
from coterie.cli.lines import input_summary
from coterie.cli.project import look
from coterie.cli.text import Since, clock, counted, duration, one_line, table
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.audit import AuditCheck, AuditView, ToolUse
    from coterie.app.project import App

_FEW = 100
"""So many rows are shown to a reader who did not say how many."""


@command("audit", "coterie audit last --errors")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--member", metavar="NAME", help="Only the calls of this member.")
@click.option("--tool", metavar="NAME", help="Only tools with this in their name.")
@click.option("--since", type=Since(), metavar="7d", help="Only from then on: 7d, 2h, 2026-01-31.")
@click.option(
    "--errors", is_flag=True, help="Only calls that failed, were denied, or whose end nobody knows."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The newest N of them.")
@click.option("--verify", is_flag=True, help="Check that no row was changed, added or removed.")
@click.option("--export", "path", metavar="FILE", help="Rows as JSON lines into a file; - is here.")
@pass_call
def audit(
    call: Call, id_: str | None, *, verify: bool, path: str | None, limit: int | None, **given: Any
) -> None:
    """Every tool call that agents made: when, who, what, how it ended.

    Rows are only ever added, each with a hash over itself and the row before.
    """
    from coterie.app.audit import AuditFilter, check_audit, read_audit

    async def check(app: App) -> AuditCheck:
        return await check_audit(app)

    async def read(app: App) -> AuditView:
        task = await app.find_task(id_) if id_ else None
        wanted = AuditFilter(task, given["member"], given["tool"], given["since"])
        return await read_audit(app, wanted)

    if verify:
        if checked := look(call, check):
            _verified(call, checked)
        return
    found = look(call, read)
    if found is None:
        return
    if path is not None:
        _export(call, found.rows[-limit:] if limit else found.rows, path)
        return
    uses = found.uses
    if given["errors"]:
        uses = [use for use in uses if use.outcome not in ("ok", "open")]
    _list(call, uses, limit)


# -- listing -----------------------------------------------------------------------------------


def _list(call: Call, uses: Sequence[ToolUse], limit: int | None) -> None:
    kept = limit or (len(uses) if call.json else _FEW)
    older = len(uses) - kept
    uses = uses[-kept:]
    for use in uses:
        call.record("audit", _fields(use), use.entry.timestamp)
    if not uses:
        call.line("No tool call is on record for that.")
        return
    head = ("TIME", "TASK", "MEMBER", "TOOL", "OUTCOME", "TOOK", "WHAT")
    call.lines(table([head, *(_row(use) for use in uses)], call.width))
    if older > 0:
        call.line(f"{older} older: coterie audit --limit {len(uses) + older}")


def _row(use: ToolUse) -> tuple[str, ...]:
    entry, took = use.entry, use.completed.duration_ms if use.completed else None
    return (
        clock(entry.timestamp),
        entry.task_id,
        entry.author_actor_id,
        one_line(entry.tool_name),
        use.outcome,
        "-" if took is None else duration(took / 1000),
        input_summary(entry.input or {}) or _said(use.completed),
    )


def _said(completed: AuditEntry | None) -> str:
    return input_summary(completed.output or {}) if completed else ""


def _fields(use: ToolUse) -> Mapping[str, object]:
    entry, completed = use.entry, use.completed
    return {
        "task": entry.task_id,
        "member": entry.author_actor_id,
        "id": entry.tool_call_id,
        "name": entry.tool_name,
        "input": entry.input,
        "outcome": use.outcome,
        "output": completed.output if completed else None,
        "is_error": completed.is_error if completed else None,
        "duration_ms": completed.duration_ms if completed else None,
        "ended_at": completed.timestamp if completed else None,
    }


# -- the chain ---------------------------------------------------------------------------------


def _verified(call: Call, found: AuditCheck) -> None:
    fields = {"rows": found.rows, "events": found.events, "whole": not found.problems}
    call.record("audit_check", {**fields, "problems": found.problems})
    if not found.problems:
        call.line(f"audit    {counted(found.rows, 'row')}, chain whole")
        call.line(f"events   {counted(found.events, 'row')}, chain whole")
        return
    for problem in found.problems:
        call.note(f"! {one_line(problem)}")
    raise click.exceptions.Exit(1)


def _export(call: Call, rows: Sequence[ChainedEntry], path: str) -> None:
    from coterie.app.audit import export_audit, exported

    if path == "-":
        for row in rows:
            write(sys.stdout, exported(row))
        return
    target = export_audit(rows, path)
    call.record("export", {"rows": len(rows), "path": str(target)})
    call.line(f"Wrote {counted(len(rows), 'row')} to {shown(target)}")
