"""`export`: the whole record of a task as JSON lines, with its artifacts and its patch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.app.export import TaskExport, read_export, write_export
from coterie.cli.main import Call, command, run_on_task
from coterie.cli.text import counted, write_data
from coterie.model import as_json
from coterie.model.workspace import shown

if TYPE_CHECKING:
    from coterie.app.project import App
    from coterie.model.task import Event


@command("export", "coterie export k3f9 k3f9.export")
@click.argument("id_", metavar="ID")
@click.argument("target", metavar="[FOLDER]", required=False)
def export(call: Call, id_: str, target: str | None) -> None:
    """Write the whole record of a task and its subtasks to a new folder: task.jsonl, changes.patch,
    artifacts/. Without FOLDER it is ID.export; - writes the lines to stdout.

    The first field of each line, type, says what it is: task, then what log --json shows, then
    event, audit, envelope, cost and artifact. Secrets are redacted, as they are in the record.
    """

    async def body(app: App, task_id: str) -> tuple[str, TaskExport]:
        return task_id, await read_export(app, task_id)

    task_id, task_export = run_on_task(call, id_, body)
    lines = [json.dumps(line, default=str, ensure_ascii=False) for line in _lines(task_export)]
    if target == "-":
        for line in lines:
            write_data(sys.stdout, line)
        return
    path = write_export(task_export, lines, Path(target or f"{task_id}.export"))
    fields = {"lines": len(lines), "artifacts": len(task_export.artifacts), "path": str(path)}
    call.record("export", {"task": task_id, **fields})
    artifacts = counted(len(task_export.artifacts), "artifact")
    call.line(f"Wrote {counted(len(lines), 'line')} and {artifacts} to {shown(path)}")


def _lines(exported: TaskExport) -> Iterator[Mapping[str, object]]:
    for part in exported.parts:
        detail = part.detail
        yield {"type": "task", "at": detail.view.created_at, **as_json.detail(detail)}
        for entry in part.timeline:
            fields = as_json.fields_of(entry.record)
            yield {"type": entry.record.type, "at": entry.at, **fields}
    yield from (_event(event) for part in exported.parts for event in part.events)
    yield from ({"type": "audit", "at": row["timestamp"], **row} for row in exported.audit)
    yield from ({"type": "envelope", "at": row["timestamp"], **row} for row in exported.envelopes)
    yield from ({"type": "cost", **row} for row in exported.costs)
    for file in exported.artifacts:
        yield {"type": "artifact", **asdict(file), "path": f"artifacts/{file.name}"}


def _event(event: Event) -> Mapping[str, object]:
    """A domain event as an object; its type goes into `name`."""
    fields = event.model_dump(mode="json", exclude={"type", "at", "task_id"})
    return {"type": "event", "at": event.at, "name": event.type, "task": event.task_id, **fields}
