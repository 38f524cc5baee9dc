"""A guard of git directories that outlives us: what a command left is put right even if we die.

While a command runs, a piece of memory that its keeper has too says what there was before it.  When
it has ended we put right what it left; if we are gone by then, its keeper does (`recover`).  Not a
file: what is written back is what that says, so no command may ever get at it.  All of it blocks.
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

from coterie.workspace.git_guard import CommonPlaceholder, GitGuard, Held, HeldEntry, SeenGit

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from coterie.workspace.git_work import recover; recover(int(sys.argv[2]))"
)


class GuardedWork:
    """What commands in a work folder may leave behind in git directories.

    One for a command, or for all commands of an agent that may run several at once.
    """

    def __init__(self, root: Path, held: Held) -> None:
        self._root = root
        self._held: Held = held
        self._guard: GitGuard | None = None
        self._placeholder: CommonPlaceholder | None = None
        self.memory: int | None = None
        """Where a keeper finds what there was before; None where a system has no such memory."""
        if hasattr(os, "memfd_create"):
            self.memory = os.memfd_create("coterie-guard")
            weakref.finalize(self, os.close, self.memory)

    @property
    def when_orphaned(self) -> tuple[str, ...]:
        """The words that put right what is on record, in our place; the memory's number is next."""
        return (sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(__file__).parents[2]))

    def hold(self) -> None:
        """Make what a sandbox is to mount: before that is asked what there is to be held."""
        if self._held == "all" and self._placeholder is None:
            self._placeholder = CommonPlaceholder(self._root)

    def begin(self) -> None:
        """Commands run from now on."""
        if self._guard is None:
            self._guard = GitGuard.before(self._root, self._held)
            self._record(json.dumps(_stored(self._guard)).encode())

    def put_right(self) -> list[str]:
        """Put right what they left up to now; the paths of what was taken back."""
        return self._guard.put_right() if self._guard is not None else []

    def end(self) -> list[str]:
        """The same, where none runs any more."""
        taken = self.put_right()
        self._guard = None
        self._record(b"")
        if self._placeholder is not None:
            self._placeholder.remove()
            self._placeholder = None
        return taken

    def _record(self, data: bytes) -> None:
        if self.memory is not None:
            os.ftruncate(self.memory, 0)
            os.pwrite(self.memory, data, 0)


def recover(memory: int) -> None:
    """Put right what is on record, as whoever recorded it is gone."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        data = os.pread(memory, os.fstat(memory).st_size, 0)
        guard = _loaded(json.loads(data))
        guard.put_right()
        CommonPlaceholder(guard.root).remove()


def _stored(guard: GitGuard) -> dict[str, object]:
    seen = {str(path): _stored_seen(known) for path, known in guard.seen.items()}
    return {"root": str(guard.root), "seen": seen, "others": [*map(str, guard.others)]}


def _stored_seen(known: SeenGit) -> dict[str, object]:
    def entry(held: HeldEntry) -> list[object]:
        data = None if held.data is None else base64.b64encode(held.data).decode()
        return [data, held.is_link, held.mode]

    held = {name: entry(one) for name, one in known.held.items()}
    return {"is": known.identity, "whole": known.whole, "held": held, "odd": dict(known.odd)}


def _loaded(stored: Mapping[str, Any]) -> GitGuard:
    def entry(data: str | None, is_link: bool, mode: int) -> HeldEntry:
        return HeldEntry(None if data is None else base64.b64decode(data), is_link, mode)

    seen = {
        Path(path): SeenGit(
            (known["is"][0], known["is"][1]),
            known["whole"],
            {name: entry(*one) for name, one in known["held"].items()},
            known["odd"],
        )
        for path, known in stored["seen"].items()
    }
    return GitGuard(Path(stored["root"]), seen, frozenset(map(Path, stored["others"])))
