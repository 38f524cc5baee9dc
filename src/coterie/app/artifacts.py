"""The files that tasks produced, identified by their digests."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import anyio.to_thread

from coterie.app.project import App
from coterie.errors import NotFound
from coterie.workspace.beneath import read_file
from coterie.workspace.session_files import artifact_files


@dataclass(frozen=True)
class ArtifactView:
    """A file among a task's artifacts."""

    name: str
    """Its path below the artifacts folder."""
    sha256: str
    size_bytes: int


async def list_artifacts(app: App, task_id: str) -> list[ArtifactView]:
    """Return every file among the artifacts of a task's session."""
    session = (await app.show(task_id)).state.created.session_id

    def look() -> list[ArtifactView]:
        return [
            ArtifactView(file.name, file.digest.rpartition(":")[2], file.size_bytes)
            for file in artifact_files(app.root, session)
        ]

    return await anyio.to_thread.run_sync(look)


async def read_artifact(app: App, task_id: str, digest: str) -> tuple[str, bytes]:
    """Return the name and content of the file with this digest; raises NotFound if there is none
    or it was changed meanwhile."""
    session = (await app.show(task_id)).state.created.session_id
    for one in await list_artifacts(app, task_id):
        if one.sha256 == digest:
            place = ("sessions", session, "artifacts", *one.name.split("/"))
            data = await anyio.to_thread.run_sync(read_file, app.root / ".coterie", *place)
            if sha256(data).hexdigest() == digest:
                return one.name.rpartition("/")[2], data
    raise NotFound(f"{task_id} has no such artifact.", f"coterie export {task_id}")
