"""The key that a session signs its envelopes with: in a file of its own, and nowhere else.

All of it blocks.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.errors import EnvelopeForged

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope

FILE_NAME = "key"
_BYTES = 32


def key_path(folder: Path, session: str) -> Path:
    """Where a session's key is, below a project's `.coterie`."""
    return folder / "sessions" / session / FILE_NAME


def make_session_key(folder: Path, session: str) -> bytes:
    """The session's key, made if there is none; nobody but its owner can read it."""
    path = key_path(folder, session)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{FILE_NAME}.{os.urandom(4).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # whole or not at all, and never in another's place
            os.link(fresh, path)
    finally:
        fresh.unlink()
    return session_key(folder, session)


def session_key(folder: Path, session: str) -> bytes:
    """The session's key.  Raises EnvelopeForged where it is gone or is none."""
    path = key_path(folder, session)
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        key = b""
    if len(key) != _BYTES:
        raise EnvelopeForged(session, None, f"the session's key is missing: {path}")
    return key


def check_signatures(session: str, kept: Iterable[tuple[int, Envelope]], key: bytes) -> None:
    """Raise EnvelopeForged at the first envelope that was not signed with the key."""
    for sequence, envelope in kept:
        if not envelope.is_signed_by(key):
            why = "its signature is wrong" if envelope.signature else "it is not signed"
            raise EnvelopeForged(session, sequence, why)
