"""What a member's processes wrote to stderr in a session: a file in the member's folder.

It is written line by line as it comes, without secrets, and is found after any crash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from coterie.errors import NotOurs
from coterie.model import instant
from coterie.model.redaction import Redactor
from coterie.workspace.beneath import open_file, opened_folder

ENDING = ".stderr.log"
"""How the name of such a file ends."""
_MOST = 1 << 20
"""Bytes of a file: an agent that complains without end fills no disk."""
_LONGEST = 4_000
"""Characters of a line."""
_LONGEST_HELD = 64_000
"""Bytes of a private key that is waited for."""
_KEY_BEGUN = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?!.*-----END )", re.DOTALL)
# Non-blocking means nothing for a file; it says that this is written from the event loop, where a
# few bytes into the system's cache take less than a thread would.
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
_DROPPED = b"... what was written before is dropped: it was too much\n"


def stderr_path(member_folder: Path, session: str) -> Path:
    """Where a member's stderr of a session is kept."""
    return member_folder / f"{session}{ENDING}"


class StderrFile:
    """Keeps what one process of a member writes to stderr."""

    def __init__(self, member_folder: Path, session: str, redactor: Redactor) -> None:
        self._path = stderr_path(member_folder, session)
        self._redactor = redactor
        self._held = b""
        """What came last: a line that has begun, or all of a key that has not ended."""

    def add(self, chunk: bytes) -> None:
        """Keep the next piece; an empty one is the end of it."""
        text = self._held + chunk
        end = text.rfind(b"\n") + 1
        if not chunk or len(text) - end > _LONGEST:
            end = len(text)
        if chunk and len(text) < _LONGEST_HELD and _KEY_BEGUN.search(text[:end]):
            end = 0  # its lines mean nothing alone, so that nobody would know them for a secret
        self._held = text[end:]
        if kept := "".join(self._kept(text[:end].decode("utf-8", "replace"))):
            with suppress(OSError, NotOurs):  # a place that cannot be written ends no turn
                self._write(kept.encode("utf-8", "replace"))

    def _kept(self, text: str) -> Iterator[str]:
        now = instant.now()
        for line in self._redactor.text(text).split("\n"):
            if line.strip():
                yield f"{now} {line.rstrip()[:_LONGEST]}\n"

    def _write(self, data: bytes) -> None:
        with opened_folder(self._path.parent) as folder:
            descriptor = open_file(folder, self._path, _APPENDING)
        try:
            if os.fstat(descriptor).st_size + len(data) > _MOST:
                os.ftruncate(descriptor, 0)
                data = _DROPPED + data[-_MOST // 2 :]
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def read_stderr(member_folder: Path, session: str) -> str:
    """What a member's processes wrote to stderr in a session; empty where nothing.  Blocks."""
    path = stderr_path(member_folder, session)
    try:
        with opened_folder(path.parent) as folder:
            descriptor = open_file(folder, path, os.O_RDONLY)
    except (OSError, NotOurs):
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST).decode("utf-8", "replace")
