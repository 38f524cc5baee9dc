"""What a member's processes write to stderr in a session: a file in the member's folder.

It is written line by line as output arrives, without secrets, so it survives any crash.
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
from coterie.workspace.beneath import open_file, open_folder

ENDING = ".stderr.log"
"""Suffix of the file's name."""
_MOST = 1 << 20
"""Bytes per file: an agent that complains endlessly must not fill the disk."""
_LONGEST = 4_000
"""Characters per line."""
_LONGEST_HELD = 64_000
"""Bytes to buffer while waiting for the end of a private key."""
_KEY_BEGUN = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(?!.*-----END )", re.DOTALL)
# Non-blocking has no effect on a file; it documents that this is written from the event loop,
# where a few bytes into the system's cache take less time than a thread would.
_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
_DROPPED = b"... earlier output was dropped: the file had reached its size limit\n"


def stderr_path(member_folder: Path, session: str) -> Path:
    """Return where a member's stderr of a session is stored."""
    return member_folder / f"{session}{ENDING}"


class StderrFile:
    """Stores what one process of a member writes to stderr."""

    def __init__(self, member_folder: Path, session: str, redactor: Redactor) -> None:
        self._path = stderr_path(member_folder, session)
        self._redactor = redactor
        self._held = b""
        """The latest output: an incomplete line, or all of an incomplete key."""

    def add(self, chunk: bytes) -> None:
        """Store the next chunk; an empty one marks the end."""
        text = self._held + chunk
        end = text.rfind(b"\n") + 1
        if not chunk or len(text) - end > _LONGEST:
            end = len(text)
        if chunk and len(text) < _LONGEST_HELD and _KEY_BEGUN.search(text[:end]):
            end = 0  # single lines of a key would not be recognized as a secret
        self._held = text[end:]
        if kept := "".join(self._kept(text[:end].decode("utf-8", "replace"))):
            with suppress(OSError, NotOurs):  # an unwritable place must not end the turn
                self._write(kept.encode("utf-8", "replace"))

    def _kept(self, text: str) -> Iterator[str]:
        now = instant.now()
        for line in self._redactor.text(text).split("\n"):
            if line.strip():
                yield f"{now} {line.rstrip()[:_LONGEST]}\n"

    def _write(self, data: bytes) -> None:
        with open_folder(self._path.parent) as folder:
            descriptor = open_file(folder, self._path, _APPENDING)
        try:
            if os.fstat(descriptor).st_size + len(data) > _MOST:
                os.ftruncate(descriptor, 0)
                data = _DROPPED + data[-_MOST // 2 :]
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def read_stderr(member_folder: Path, session: str) -> str:
    """Return what a member's processes wrote to stderr in a session, if anything.  Blocks."""
    path = stderr_path(member_folder, session)
    try:
        with open_folder(path.parent) as folder:
            descriptor = open_file(folder, path, os.O_RDONLY)
    except (OSError, NotOurs):
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST).decode("utf-8", "replace")
