"""The audit of tool calls: which there were, how they ended, and whether the record is intact."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from coterie.app.project import App
from coterie.config.files import write_atomically
from coterie.errors import NotFound, UsageError
from coterie.model.task import is_part
from coterie.model.team import TICKETS, is_instance_of
from coterie.model.timeline import AuditedCall
from coterie.model.tool_call import DENIED, NOT_RUN, AuditEntry, ChainedEntry

if TYPE_CHECKING:
    from coterie.model.envelope_fault import EnvelopeCheck


@dataclass(frozen=True)
class AuditFilter:
    """Which calls to select; an empty field matches all."""

    task: str | None = None
    member: str | None = None
    """A member with all its instances, or one of those: `wren`, `wren#2`."""
    tool: str | None = None
    """Part of a tool's name."""
    since: str | None = None
    errors: bool = False
    """Only calls that failed, were denied or not run, or whose outcome is unknown."""

    def fits(self, entry: AuditEntry) -> bool:
        """Whether a row belongs to one of these calls; `errors` is not considered."""
        tool = (self.tool or "").casefold()
        return (
            (self.task is None or is_part(entry.task_id, self.task))
            and (self.member is None or is_instance_of(self.member, entry.author_actor_id))
            and tool in entry.tool_name.casefold()
            and entry.timestamp >= (self.since or "")
        )


@dataclass(frozen=True)
class ToolUse:
    """A tool call: its request and its completion, as far as they were recorded."""

    entry: AuditEntry
    completed: AuditEntry | None
    outcome: str
    """`ok`, `failed`, `denied`, `not run`; `open` while its task runs or asks, `unknown` after."""


@dataclass(frozen=True)
class AuditView:
    """The selected rows, and the calls they belong to, in order."""

    rows: Sequence[ChainedEntry]
    uses: Sequence[ToolUse]


@dataclass(frozen=True)
class AuditCheck:
    """Whether any row was changed, added or removed."""

    rows: int
    events: int
    problems: Sequence[str]
    sessions: Sequence[EnvelopeCheck] = ()
    """Every session with tickets, or only the requested one."""

    @property
    def all_problems(self) -> Sequence[str]:
        """The problems of the rows and of the envelopes."""
        return [*self.problems, *(str(one) for session in self.sessions for one in session.new)]

    def fields(self) -> dict[str, object]:
        """The outcome as a JSON object."""
        return {
            "rows": self.rows,
            "events": self.events,
            "whole": not self.all_problems,
            "envelopes": sum(one.count for one in self.sessions),
            "signed": sum(one.count for one in self.sessions if one.signed),
            "problems": self.all_problems,
        }


async def read_audit(app: App, wanted: AuditFilter) -> AuditView:
    """Return the recorded tool calls that match a filter."""
    rows = await app.storage.audit.chain()
    running = {
        task_id
        for view in await app.tasks()
        if view.is_run or view.questions
        for task_id in await app.below(view.id)
    }
    uses = [
        use
        for use in _uses(rows, running)
        if wanted.fits(use.entry) and not (wanted.errors and use.outcome in ("ok", "open"))
    ]
    selected = [row for row in rows if wanted.fits(row.entry)]
    if wanted.errors:
        failed = {id(entry) for use in uses for entry in (use.entry, use.completed)}
        selected = [row for row in selected if id(row.entry) in failed]
    return AuditView(selected, uses)


async def read_call(app: App, task_id: str, number: int) -> ToolUse:
    """Return a tool call of a task by the number of its start or end on the timeline."""
    rows = await app.storage.timeline.before(task_id, number + 1, 1, "call")
    source = rows[0].source if rows and rows[0].sequence == number else None
    if not isinstance(source, AuditedCall):
        raise NotFound(f"{task_id} has no tool call {number}.", f"coterie audit {task_id}")
    entry = source.entry
    calls = await app.storage.audit.of_call(entry.task_id, entry.tool_call_id)
    view = (await app.show(task_id)).view
    uses = _uses(calls, {entry.task_id} if view.is_run or view.questions else ())
    return next(use for use in uses if entry in (use.entry, use.completed))


def use_fields(use: ToolUse) -> Mapping[str, object]:
    """Return a tool call as a JSON object."""
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


async def check_audit(app: App, task_id: str | None = None) -> AuditCheck:
    """Check every page of the database, both hash chains, and the envelopes of one or all
    sessions."""
    rows, problems = await app.storage.audit.chain(), [*await app.storage.problems()]
    views = await app.tasks()
    wanted = [one.id for one in views if one.workflow == TICKETS] if task_id is None else [task_id]
    sessions = [await app.check_envelopes(one) for one in wanted]
    if task_id is None and app.shared is None:  # a shared store may be newer than the logs here
        known = {one.id for one in views}
        problems += await anyio.to_thread.run_sync(lambda: list(_unknown(app.root, known)))
    return AuditCheck(len(rows), (await app.storage.events.head())[0], problems, sessions)


def _unknown(root: Path, known: Collection[str]) -> Iterator[str]:
    """Yield a problem for each session that left envelopes but is missing from the database."""
    for folder in sorted((root / ".coterie" / "logs").glob("*/")):
        if folder.name not in known and any(folder.glob("*.json")):
            yield f"logs/{folder.name} belongs to a session that the database has lost"


def _uses(rows: Sequence[ChainedEntry], running: Collection[str]) -> list[ToolUse]:
    """Pair requests with their completions, in the order of the requests."""
    ended: dict[int, AuditEntry] = {}
    waiting: dict[tuple[str, str, str], list[int]] = {}
    firsts: list[tuple[int, AuditEntry]] = []
    for row in rows:
        entry = row.entry
        calls = waiting.setdefault((entry.task_id, entry.author_actor_id, entry.tool_call_id), [])
        if entry.kind == "ToolCallRequested":
            calls.append(row.sequence)
            firsts.append((row.sequence, entry))
        elif calls:
            ended[calls.pop()] = entry
        else:  # its request was never reported
            firsts.append((row.sequence, entry))
            ended[row.sequence] = entry
    return [
        ToolUse(entry, ended.get(number), _outcome(ended.get(number), entry.task_id in running))
        for number, entry in firsts
    ]


def _outcome(completed: AuditEntry | None, running: bool) -> str:
    if completed is None:
        return "open" if running else "unknown"
    if DENIED in (completed.output or {}):
        return "denied"
    if NOT_RUN in (completed.output or {}):
        return "not run"
    return "failed" if completed.is_error else "ok"


def export_audit(rows: Sequence[ChainedEntry], path: str) -> Path:
    """Write rows to a file as JSON lines; returns its absolute path.  Blocks."""
    target = Path(path).expanduser().absolute()
    if target.is_dir() or not target.parent.is_dir():
        raise UsageError(
            f"{target} is not a usable file path.", "Name a file in a folder that exists."
        )
    text = "".join(f"{exported(row)}\n" for row in rows)
    write_atomically(target, text)
    return target


def exported(row: ChainedEntry) -> str:
    """Return a row as JSON, with the design's field names and what checking the chain needs."""
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
