"""The files that a task produced: downloads only, never shown by the server's own page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path
from fastapi.responses import Response

from coterie.app.artifacts import list_artifacts, read_artifact
from coterie.web.hub import TheProject
from coterie.web.parameters import TheTask
from coterie.web.schema import ShownText

router: APIRouter = APIRouter(tags=["artifacts"])

_ARTIFACTS = "/projects/{project}/tasks/{task}/artifacts"
_BYTES = {"type": "string", "format": "binary"}
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The file's SHA-256.")]


class ArtifactShown(ShownText):
    """A file that a task produced."""

    name: str
    digest: str
    """Its SHA-256, by which it is downloaded."""
    size_bytes: int


@router.get(_ARTIFACTS)
async def list_files(app: TheProject, task: TheTask) -> list[ArtifactShown]:
    """List every file among a task's artifacts."""
    return [
        ArtifactShown(name=one.name, digest=one.sha256, size_bytes=one.size_bytes)
        for one in await list_artifacts(app, task)
    ]


@router.get(
    f"{_ARTIFACTS}/{{digest}}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": _BYTES}}}},
)
async def download(app: TheProject, task: TheTask, digest: Digest) -> Response:
    """Download a file; sandboxed, so that nothing in it runs."""
    name, data = await read_artifact(app, task, digest)
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    return Response(data, media_type="application/octet-stream", headers=headers)
