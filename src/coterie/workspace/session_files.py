"""A session's own files: the key that signs its envelopes, and its artifacts.

All calls block.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from coterie.errors import ArtifactWrong, EnvelopeForged, NotOurs
from coterie.workspace.beneath import (
    is_draft,
    make_key,
    open_folder,
    open_within,
    read_key,
    real_folder,
    regular_file,
    require_file,
    walk,
    write_file,
)

if TYPE_CHECKING:
    from coterie.model.envelope import ArtifactRef, Envelope


FILE_NAME = "key"


def key_path(folder: Path, session: str) -> Path:
    """Return where a session's key is, below a project's `.coterie`."""
    return folder / "sessions" / session / FILE_NAME


def make_session_key(folder: Path, session: str) -> bytes:
    """Return the session's key, creating it if needed; only its owner can read it."""
    real_folder(folder, "sessions", session, make=True)
    make_key(key_path(folder, session))
    return session_key(folder, session)


def session_key(folder: Path, session: str) -> bytes:
    """Return the session's key.  Raises EnvelopeForged if it is missing or invalid."""
    path = key_path(folder, session)
    try:
        require_file(folder, "sessions", session, FILE_NAME)
        key = read_key(path)
    except (OSError, NotOurs):
        key = None
    if key is None:
        raise EnvelopeForged(session, None, f"the session's key is missing: {path}")
    return key


def put_session_key(folder: Path, session: str, key: bytes) -> None:
    """Store the key that another machine made, replacing a local one that has signed nothing."""
    write_file(folder, ("sessions", session, FILE_NAME), f"{key.hex()}\n".encode())


def check_signatures(session: str, kept: Iterable[tuple[int, Envelope]], key: bytes) -> None:
    """Raise EnvelopeForged at the first envelope that is not signed with the key."""
    for sequence, envelope in kept:
        if not envelope.is_signed_by(key):
            why = "its signature is wrong" if envelope.signature else "it is not signed"
            raise EnvelopeForged(session, sequence, why)


LARGEST = 20 << 20
"""Bytes; a larger file of a worker is not kept as an artifact."""
_LONGEST_NAME = 50
"""Characters of a file's name that its copy keeps; a name has at most 255 bytes."""


@dataclass(frozen=True)
class SessionScoped:
    """Base of classes that work on the files of one session in one project."""

    root: Path
    """The project, which may be a folder inside a repository."""
    session: str


CHECKS = "checks"
"""The folder next to the artifacts with the home and temporary files of checks, and only those."""


def artifacts_folder(root: Path, session: str) -> Path:
    """Return the folder of a session's artifacts."""
    return root / ".coterie" / "sessions" / session / "artifacts"


def artifact_path(root: Path, session: str, uri: str) -> Path:
    """Return the file at a URI: below the session's artifacts, or anywhere with `file://`."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ArtifactWrong(uri, "is not a file on this machine")
        return Path(unquote(parts.path))
    folder = artifacts_folder(root, session).resolve()
    path = (folder / uri).resolve()
    if parts.scheme or not path.is_relative_to(folder) or path == folder:
        raise ArtifactWrong(uri, "is not below the session's artifacts")
    return path


def store_artifact(
    root: Path, session: str, ticket: str, folder: Path, path: Path
) -> ArtifactRef | None:
    """Copy a file that a ticket made to the session's artifacts; None if it cannot be copied.

    No link may lead out of the ticket's folder: to a file that nobody may see.
    """
    from coterie.model.envelope import ArtifactRef

    try:
        with open_within(folder, path) as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError):  # the latter for a name with a null byte
        return None
    if len(data) > LARGEST:
        return None
    # Named after its content too: a file kept from an earlier attempt must not change.
    digest = hashlib.sha256(data).hexdigest()
    uri = f"{ticket}/{digest[:12]}-{path.name[-_LONGEST_NAME:]}"
    base = root / ".coterie"
    write_file(base, ("sessions", session, "artifacts", *Path(uri).parts), data)
    return ArtifactRef(
        label=path.name,
        uri=uri,
        digest=f"sha256:{digest}",
        content_type=content_type_of(path.name, data),
        size_bytes=len(data),
    )


def content_type_of(name: str, data: bytes) -> str:
    """Return a file's media type: by its name, otherwise by whether it is text."""
    import mimetypes

    guessed, encoding = mimetypes.guess_type(name)
    if guessed is not None and encoding is None:
        return guessed
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain" if b"\0" not in data else "application/octet-stream"


def register_artifact(
    root: Path, session: str, ticket: str, folder: Path, named: ArtifactRef
) -> ArtifactRef:
    """Copy a file that a worker registers, from below its own folder, to the session's artifacts.

    Raises ArtifactWrong if it is missing, lies elsewhere, or does not match its description.
    """
    folder = folder.resolve()
    try:
        path = _registered_path(folder, named.uri)
    except ValueError:
        raise ArtifactWrong(named.uri, "is not a path") from None
    stored = store_artifact(root, session, ticket, folder, path)
    if stored is None:
        raise ArtifactWrong(
            named.uri, f"is not a file of at most {LARGEST >> 20} MiB in the member's folder"
        )
    if named.size_bytes not in (None, stored.size_bytes):
        raise ArtifactWrong(
            named.uri, f"has {stored.size_bytes} bytes instead of the stated {named.size_bytes}"
        )
    if named.digest not in (None, stored.digest):
        raise ArtifactWrong(named.uri, f"has the digest {stored.digest}")
    stated = {"label": named.label, "description": named.description}
    content_type = named.content_type or stored.content_type
    return stored.model_copy(update={**stated, "content_type": content_type})


def _registered_path(folder: Path, uri: str) -> Path:
    """Return the file that a worker names; it may register none outside its folder."""
    parts = urlsplit(uri)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else folder / uri
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise ArtifactWrong(uri, "is not a file on this machine")
    if not Path(os.path.realpath(path.parent)).is_relative_to(folder):
        raise ArtifactWrong(uri, "is not in the folder of the member that registers it")
    return path


@dataclass(frozen=True)
class ArtifactFile:
    """A file among a session's artifacts."""

    name: str
    """Its path below the folder of artifacts."""
    path: Path
    digest: str
    size_bytes: int


def artifact_files(root: Path, session: str) -> Iterator[ArtifactFile]:
    """Yield a session's stored artifacts; links and unfinished files are skipped."""
    folder = artifacts_folder(root, session)
    for name, entry in sorted(walk(folder), key=lambda named: named[0].rpartition("/")[::2]):
        if is_draft(entry.name):
            continue
        with suppress(OSError), _opened(Path(entry.path), os.O_NOFOLLOW) as file:
            size = os.fstat(file.fileno()).st_size
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            yield ArtifactFile(name, Path(entry.path), digest, size)


def remove_drafts(root: Path, session: str) -> None:
    """Remove the unfinished files that a kill left in a session's folder.

    For the holder of the lease: nobody else writes there, so nobody will finish them.
    """
    base, place = root / ".coterie", ("sessions", session)
    entries = walk(base.joinpath(*place), lambda name: name != CHECKS)
    for name in [name for name, entry in entries if is_draft(entry.name)]:
        *above, draft = name.split("/")
        with suppress(OSError, NotOurs), open_folder(base, *place, *above) as folder:
            os.unlink(draft, dir_fd=folder)


def check_artifact(root: Path, session: str, artifact: ArtifactRef) -> None:
    """Raise ArtifactWrong unless the file exists and matches its description."""
    path = artifact_path(root, session, artifact.uri)
    try:
        with _opened(path) as file:
            size, digest = os.fstat(file.fileno()).st_size, None
            if artifact.digest is not None:
                digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise ArtifactWrong(artifact.uri, f"cannot be read: {error.strerror}") from None
    if artifact.size_bytes not in (None, size):
        raise ArtifactWrong(
            artifact.uri, f"has {size} bytes instead of the stated {artifact.size_bytes}"
        )
    if artifact.digest != digest:
        raise ArtifactWrong(artifact.uri, f"has the digest {digest}")


def _opened(path: Path, more: int = 0) -> BufferedReader:
    """Open a regular file for reading, as `open_within` does, wherever it is."""
    return regular_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more))
