"""A secret key in a file that nobody but its owner can read."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_BYTES = 32


def make_key(path: Path) -> bytes | None:
    """The key in a file, made if there is no file; None where the file holds none."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
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
    return read_key(path)


def read_key(path: Path) -> bytes | None:
    """The key in a file; None where it is gone or holds none."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return key if len(key) == _BYTES else None
