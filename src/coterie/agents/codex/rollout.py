"""Codex's own record of a thread, read as it grows.

On a thread that was taken up again Codex sends no raw response items; here they stand all the
same, in the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from coterie.agents.wire import Object
from coterie.process.lines import LineSplitter
from coterie.process.stdio_turns import parse_object


@dataclass
class Rollout:
    """The part of a record that was not read yet.  Its methods block."""

    path: Path
    _offset: int

    @classmethod
    def at_end(cls, path: Path) -> Rollout:
        """What will be added from now on."""
        return cls(path, path.stat().st_size if path.is_file() else 0)

    def new_items(self) -> list[Object]:
        """The response items that were added since the last look, as far as they are whole."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except OSError:  # gone: then nothing was added
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = [parse_object(line.text) for line in LineSplitter().feed(whole)]
        payloads = [row.get("payload") for row in rows if row and row.get("type") == _ITEM]
        return [cast("Object", payload) for payload in payloads if isinstance(payload, dict)]


_ITEM = "response_item"
