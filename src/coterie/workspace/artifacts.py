"""Artifacts: the files that a session's `artifact_ref` names, checked against what it says.

All of it blocks.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from coterie.errors import ArtifactWrong

if TYPE_CHECKING:
    from coterie.model.envelope import ArtifactRef

_CHUNK = 1 << 20


def artifacts_folder(root: Path, session: str) -> Path:
    """Where a session's artifacts are."""
    return root / ".coterie" / "sessions" / session / "artifacts"


def artifact_path(root: Path, session: str, uri: str) -> Path:
    """The file that an address means: below the session's artifacts, or anywhere by `file://`."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ArtifactWrong(uri, "is no file of this machine")
        return Path(unquote(parts.path))
    folder = artifacts_folder(root, session).resolve()
    path = (folder / uri).resolve()
    if parts.scheme or not path.is_relative_to(folder) or path == folder:
        raise ArtifactWrong(uri, "is not below the session's artifacts")
    return path


def check_artifact(root: Path, session: str, artifact: ArtifactRef) -> None:
    """Raise ArtifactWrong unless the file is there and is what is said of it."""
    path = artifact_path(root, session, artifact.uri)
    try:
        # Non-blocking, so that a pipe that nobody writes to cannot hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ArtifactWrong(artifact.uri, f"cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode):
            raise ArtifactWrong(artifact.uri, "is no regular file")
        if artifact.size_bytes not in (None, seen.st_size):
            said = f"has {seen.st_size} bytes; {artifact.size_bytes} were said"
            raise ArtifactWrong(artifact.uri, said)
        if artifact.digest is None:
            return
        found = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    if artifact.digest != f"sha256:{found.hexdigest()}":
        raise ArtifactWrong(artifact.uri, f"has the digest sha256:{found.hexdigest()}")
