"""Export a task to files for other tools: its whole record as JSON lines, artifacts, the patch."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio.to_thread

from coterie.app.audit import exported
from coterie.app.project import App
from coterie.config.files import storage_errors
from coterie.errors import UsageError
from coterie.model.record import Entry, TaskDetail
from coterie.model.task import Event, ticket_id_of
from coterie.workspace.session_files import ArtifactFile, artifact_files

RECORD, PATCH, ARTIFACTS = "task.jsonl", "changes.patch", "artifacts"


@dataclass(frozen=True)
class TaskPart:
    """A task, or a task below it, with everything that happened in it."""

    detail: TaskDetail
    timeline: Sequence[Entry]
    events: Sequence[Event]
    """The domain events, as the design defines them; the timeline shows them to readers."""


@dataclass(frozen=True)
class TaskExport:
    """Everything on record about a task and those below it."""

    parts: Sequence[TaskPart]
    audit: Sequence[Mapping[str, object]]
    envelopes: Sequence[Mapping[str, object]]
    costs: Sequence[Mapping[str, object]]
    patch: str
    artifacts: Sequence[ArtifactFile]


async def read_export(app: App, task_id: str) -> TaskExport:
    """Read everything to export about a task; writes nothing."""
    ids = await app.below(task_id)
    parts = [
        TaskPart(
            await app.show(one),
            # A ticket's timeline is part of its session's.
            () if ticket_id_of(one) else await app.timeline(one),
            await app.storage.events.of_task(one),
        )
        for one in ids
    ]
    rows = [row for row in await app.storage.audit.chain() if row.entry.task_id in ids]
    costs = [asdict(cost) for cost in await app.costs(task_id)]
    session = parts[0].detail.state.created.session_id
    envelopes = [
        {"sequence": number, **envelope.model_dump(mode="json", exclude_none=True)}
        for number, envelope in enumerate(await app.envelopes(task_id), 1)
    ]
    diff = await app.diff(task_id)
    patch = "".join(one.text for one in diff.patches)
    files = await anyio.to_thread.run_sync(lambda: list(artifact_files(app.root, session)))
    audit: list[Mapping[str, object]] = [json.loads(exported(row)) for row in rows]
    return TaskExport(parts, audit, envelopes, costs, patch, files)


def write_export(export: TaskExport, lines: Sequence[str], target: Path) -> Path:
    """Write an export to a new folder, which appears once complete; return its path.  Blocks."""
    target = target.expanduser().absolute()
    if target.exists():
        raise UsageError(f"{target} already exists.", "Name a folder that does not exist yet.")
    if not target.parent.is_dir():
        raise UsageError(
            f"{target.parent} is not a folder.", "Name a new folder inside an existing one."
        )
    draft = target.with_name(f".{target.name}.{os.urandom(4).hex()}.new")
    with storage_errors(target.parent):
        try:
            draft.mkdir(mode=0o700)
            (draft / RECORD).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            if export.patch:
                (draft / PATCH).write_bytes(export.patch.encode("utf-8", "surrogateescape"))
            for file in export.artifacts:
                copy = draft / ARTIFACTS / file.name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.path, copy, follow_symlinks=False)
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return target
