"""A guard of git directories that works even if this process dies while a command runs.

While a command runs, memory shared with its keeper records the state before it.  When the command
has ended, this process undoes what it left; if the process is gone by then, the keeper does
(`recover`).  The record determines what is written back, so it must be out of reach of every
command: hence memory, not a file.  All calls block.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from coterie.workspace.git_guard import (
    CommondirPlaceholder,
    GitDirState,
    GitGuard,
    GitRestored,
    ProtectedEntry,
    SandboxProtection,
)

_DYING = 5.0
"""How long a process that was killed may still keep its locks, in seconds."""
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from coterie.workspace.durable_git_guard import recover; recover(int(sys.argv[2]))"
)


class DurableGitGuard:
    """What commands in a work folder may leave behind in git directories.

    Used for a single command, or for all commands of an agent that may run several at once.
    """

    def __init__(self, root: Path, protection: SandboxProtection) -> None:
        self._root = root
        self._protection: SandboxProtection = protection
        self._guard: GitGuard | None = None
        self._placeholder: CommondirPlaceholder | None = None
        self.record_fd: int | None = None
        """Descriptor of the record for the keeper; None if the system has no such memory."""
        if hasattr(os, "memfd_create"):
            self.record_fd = os.memfd_create("coterie-guard")
            weakref.finalize(self, os.close, self.record_fd)

    @property
    def recovery_command(self) -> tuple[str, ...]:
        """The command by which the keeper undoes changes; it appends the record's descriptor."""
        return (sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[2]))

    def create_placeholders(self) -> None:
        """Create what a sandbox has to mount, before asking what is protected."""
        if self._protection == "all" and self._placeholder is None:
            self._placeholder = CommondirPlaceholder(self._root)

    def begin(self) -> None:
        """Record the state before commands start to run."""
        if self._guard is None:
            self._guard = GitGuard.before(self._root, self._protection)
            self._record(json.dumps(_stored(self._guard)).encode())

    def restore(self) -> GitRestored:
        """Undo what commands have left so far."""
        return self._guard.restore() if self._guard is not None else GitRestored()

    def end(self) -> GitRestored:
        """Do the same after the last command has ended, and stop guarding."""
        restored = self.restore()
        self._guard = None
        self._record(b"")
        if self._placeholder is not None:
            self._placeholder.remove()
            self._placeholder = None
        return restored

    def _record(self, data: bytes) -> None:
        if self.record_fd is not None:
            os.ftruncate(self.record_fd, 0)
            os.pwrite(self.record_fd, data, 0)


def recover(record_fd: int) -> None:
    """Undo what a command left, from the record of a process that is gone."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = os.pread(record_fd, os.fstat(record_fd).st_size, 0)
        guard = _loaded(json.loads(data))
        guard.restore()
        CommondirPlaceholder(guard.root).remove(_DYING)


def _stored(guard: GitGuard) -> dict[str, object]:
    states = {str(path): _stored_state(known) for path, known in guard.states.items()}
    return {"root": str(guard.root), "states": states, "unwritable": [*map(str, guard.unwritable)]}


def _stored_state(known: GitDirState) -> dict[str, object]:
    def entry(one: ProtectedEntry) -> list[object]:
        data = None if one.data is None else base64.b64encode(one.data).decode()
        return [data, one.is_link, one.mode]

    entries = {name: entry(one) for name, one in known.entries.items()}
    return {
        "identity": known.identity,
        "complete": known.complete,
        "entries": entries,
        "special_files": dict(known.special_files),
    }


def _loaded(stored: Mapping[str, Any]) -> GitGuard:
    def entry(data: str | None, is_link: bool, mode: int) -> ProtectedEntry:
        return ProtectedEntry(None if data is None else base64.b64decode(data), is_link, mode)

    states = {
        Path(path): GitDirState(
            (known["identity"][0], known["identity"][1]),
            known["complete"],
            {name: entry(*one) for name, one in known["entries"].items()},
            known["special_files"],
        )
        for path, known in stored["states"].items()
    }
    return GitGuard(Path(stored["root"]), states, frozenset(map(Path, stored["unwritable"])))
