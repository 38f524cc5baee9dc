"""`coterie audit`: every tool call on record, and whether the record is whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coterie.cli.call import Call, command, pass_call, write
from coterie.cli.lines import telling
from coterie.cli.project import look
from coterie.cli.text import Since, clock, counted, duration, one_line, table
from coterie.config.files import write_atomically
from coterie.errors import UsageError
from coterie.model.paths import shown
from coterie.model.tool_call import DENIED, AuditEntry, ChainedEntry

if TYPE_CHECKING:
    from coterie.app.project import App

_FEW = 100
"""So many rows are shown to a reader who did not say how many."""


@dataclass(frozen=True)
class _Wanted:
    """Which calls are meant; an empty field means all."""

    task: str | None
    member: str | None
    tool: str | None
    since: str | None

    def fits(self, entry: AuditEntry) -> bool:
        tool = (self.tool or "").casefold()
        return (
            self.task in (None, entry.task_id)
            and self.member in (None, entry.author_actor_id)
            and tool in entry.tool_name.casefold()
            and entry.timestamp >= (self.since or "")
        )


@dataclass(frozen=True)
class _Use:
    """A tool call: its request and its completion, where it has both."""

    entry: AuditEntry
    completed: AuditEntry | None
    outcome: str
    """`ok`, `failed`, `denied`; `open` while its task runs, `unknown` after."""


@dataclass(frozen=True)
class _Found:
    rows: list[ChainedEntry]
    running: frozenset[str]
    """Tasks that somebody runs now."""
    problems: list[str]
    events: int
    task: str | None


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
    found = look(call, lambda app: _read(app, id_, verify=verify))
    if found is None:
        return
    if verify:
        _verified(call, found)
        return
    wanted = _Wanted(found.task, given["member"], given["tool"], given["since"])
    if path is not None:
        rows = [row for row in found.rows if wanted.fits(row.entry)]
        _export(call, rows[-limit:] if limit else rows, path)
        return
    uses = [use for use in _uses(found) if wanted.fits(use.entry)]
    if given["errors"]:
        uses = [use for use in uses if use.outcome not in ("ok", "open")]
    _list(call, uses, limit)


async def _read(app: App, id_: str | None, *, verify: bool) -> _Found:
    views = await app.tasks()
    return _Found(
        await app.audit(),
        frozenset(view.id for view in views if view.pid is not None),
        await app.problems() if verify else [],
        await app.event_count(),
        await app.find_task(id_) if id_ else None,
    )


# -- listing -----------------------------------------------------------------------------------


def _uses(found: _Found) -> list[_Use]:
    """Requests with their completions, in the order of the requests."""
    ended: dict[int, AuditEntry] = {}
    waiting: dict[tuple[str, str, str], list[int]] = {}
    firsts: list[tuple[int, AuditEntry]] = []
    for row in found.rows:
        entry = row.entry
        calls = waiting.setdefault((entry.task_id, entry.author_actor_id, entry.tool_call_id), [])
        if entry.kind == "ToolCallRequested":
            calls.append(row.sequence)
            firsts.append((row.sequence, entry))
        elif calls:
            ended[calls.pop()] = entry
        else:  # its request was never told
            firsts.append((row.sequence, entry))
            ended[row.sequence] = entry
    return [
        _Use(entry, ended.get(number), _outcome(ended.get(number), entry.task_id in found.running))
        for number, entry in firsts
    ]


def _outcome(completed: AuditEntry | None, running: bool) -> str:
    if completed is None:
        return "open" if running else "unknown"
    if DENIED in (completed.output or {}):
        return "denied"
    return "failed" if completed.is_error else "ok"


def _list(call: Call, uses: Sequence[_Use], limit: int | None) -> None:
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


def _row(use: _Use) -> tuple[str, ...]:
    entry, took = use.entry, use.completed.duration_ms if use.completed else None
    return (
        clock(entry.timestamp),
        entry.task_id,
        entry.author_actor_id,
        one_line(entry.tool_name),
        use.outcome,
        "-" if took is None else duration(took / 1000),
        telling(entry.input or {}) or _said(use.completed),
    )


def _said(completed: AuditEntry | None) -> str:
    return telling(completed.output or {}) if completed else ""


def _fields(use: _Use) -> Mapping[str, object]:
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


def _verified(call: Call, found: _Found) -> None:
    calls = len(found.rows)
    fields = {"rows": calls, "events": found.events, "whole": not found.problems}
    call.record("audit_check", {**fields, "problems": found.problems})
    if not found.problems:
        call.line(f"audit    {counted(calls, 'row')}, chain whole")
        call.line(f"events   {counted(found.events, 'row')}, chain whole")
        return
    for problem in found.problems:
        call.note(f"! {one_line(problem)}")
    raise click.exceptions.Exit(1)


def _export(call: Call, rows: Iterable[ChainedEntry], path: str) -> None:
    """Rows with the names of the design, and what others need to check the chain."""
    lines = [_exported(row) for row in rows]
    if path == "-":
        for line in lines:
            write(sys.stdout, line)
        return
    target = Path(path).expanduser().absolute()
    if target.is_dir() or not target.parent.is_dir():
        raise UsageError(f"{target} cannot be a file.", "Name a file in a folder that exists.")
    write_atomically(target, "".join(f"{line}\n" for line in lines))
    call.record("export", {"rows": len(lines), "path": str(target)})
    call.line(f"Wrote {counted(len(lines), 'row')} to {shown(target)}")


def _exported(row: ChainedEntry) -> str:
    entry = row.entry
    fields = {
        "sequence": row.sequence,
        "kind": entry.kind,
        "toolCallId": entry.tool_call_id,
        "toolName": entry.tool_name,
        "authorActorId": entry.author_actor_id,
        "taskId": entry.task_id,
        "input": entry.input,
        "output": entry.output,
        "isError": entry.is_error,
        "durationMs": entry.duration_ms,
        "timestamp": entry.timestamp,
        "previous": row.previous,
        "hash": row.hash,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
