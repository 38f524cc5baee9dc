"""Access to `coterie serve`: the user's token, and the browsers that were admitted with it."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import ClassVar, cast

from coterie.config.files import locked, make_folder, storage_errors, write_atomically
from coterie.config.project import coterie_home
from coterie.model import instant

TOKEN_FILE = "serve.token"  # noqa: S105 - where it is, not what
SESSIONS_FILE = "serve.sessions"
MAX_SESSIONS = 64
"""The most browsers at a time; beyond that the oldest is forgotten."""


class WebSessions:
    """The token and the browser sessions, in two files that only their user may read.  Blocks.

    A browser stays admitted when the server is restarted.  Only a hash of its cookie is stored,
    bound to the token: a new token ends all sessions.
    """

    LIFETIME: ClassVar[int] = 7 * 24 * 3600
    """How many seconds a browser is admitted without giving the token again."""

    def __init__(self, home: Path | None = None) -> None:
        folder = home or coterie_home()
        self.token_file: Path = folder / TOKEN_FILE
        self._file = folder / SESSIONS_FILE
        with storage_errors(folder):
            make_folder(folder)
            with locked(self.token_file):
                self.token: str = _read(self.token_file) or _create_token(self.token_file)
        self._known: dict[str, str] = self._read()

    def is_token(self, value: str) -> bool:
        """Whether the value is the token, compared in constant time."""
        return compare_digest(value.encode("utf-8", "surrogatepass"), self.token.encode())

    def begin(self, value: str) -> None:
        """Admit whoever presents this value from now on."""
        with locked(self._file):
            known = self._read()
            known[_hash(value)] = instant.after(self.LIFETIME)
            newest = sorted(known.items(), key=lambda one: one[1])[-MAX_SESSIONS:]
            self._write(dict(newest))

    def end(self, value: str) -> None:
        """Stop admitting whoever presents this value."""
        with locked(self._file):
            known = self._read()
            known.pop(_hash(value), None)
            self._write(known)

    def is_admitted(self, value: str) -> bool:
        """Whether this value is admitted, by this or another server of the user."""
        name = _hash(value)
        if name not in self._known:
            self._known = self._read()
        return self._known.get(name, "") > instant.now()

    def _read(self) -> dict[str, str]:
        text = _read(self._file, least=2)
        try:
            loaded: object = json.loads(text or "{}")
        except ValueError:
            loaded = None
        if not isinstance(loaded, dict):
            return {}
        data = cast("Mapping[str, object]", loaded)
        stored, now = data.get("sessions"), instant.now()
        if data.get("token") != _hash(self.token) or not isinstance(stored, dict):
            return {}
        sessions = cast("Mapping[str, object]", stored)
        return {name: str(until) for name, until in sessions.items() if str(until) > now}

    def _write(self, known: dict[str, str]) -> None:
        data = {"token": _hash(self.token), "sessions": known}
        write_atomically(self._file, json.dumps(data) + "\n")
        self._known = known


def _hash(value: str) -> str:
    return sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path, least: int = 32) -> str:
    """Return the content of a file; empty unless only this user can read and write it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        info = os.fstat(file)
        is_ours = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
        if not is_ours or stat.S_IMODE(info.st_mode) & 0o077:
            return ""
        text = os.read(file, 1 << 16).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    return text if len(text) >= least and text.isprintable() else ""


def _create_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    if path.is_symlink():
        path.unlink()
    write_atomically(path, token + "\n")
    return token
