"""The files of a ledger: `<sequence>-<payload_type>.json` each, and a line each in `events.log`.

What stands in them follows from the rows alone.  All of it blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.stores.event_lines import event_line

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope

EVENTS = "events.log"
_OURS = re.compile(r"\d{6,}-[a-z_]+\.json")
_NEW = ".new"


class LedgerFiles:
    """One session's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / EVENTS
        self._size = 0
        """How long the log is, unless somebody else wrote to it."""

    def put_right(self, rows: Sequence[tuple[int, Envelope]]) -> None:
        """Make the folder hold what the rows say, and all of it; `rows` are all there are."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wanted = {_name(sequence, envelope): envelope for sequence, envelope in rows}
        self._tidy(wanted.keys())
        for name, envelope in wanted.items():
            data = _data(envelope)
            if _read(self.folder / name) != data:
                self._replace(self.folder / name, data)
        lines = _lines(rows)
        found = _read(self._log)
        if found is not None and lines.startswith(found):  # a crash left it short
            self._append(lines[len(found) :])
        elif found != lines:
            self._replace(self._log, lines)
        self._size = len(lines)

    def add(self, rows: Sequence[tuple[int, Envelope]]) -> bool:
        """Write what is new; False where what is there is not what we left: put it right then."""
        try:
            if self._log.stat().st_size != self._size:
                return False
            for sequence, envelope in rows:
                self._replace(self.folder / _name(sequence, envelope), _data(envelope))
            lines = _lines(rows)
            self._append(lines)
        except FileNotFoundError:
            return False
        self._size += len(lines)
        return True

    def _tidy(self, wanted: Collection[str]) -> None:
        for path in list(self.folder.iterdir()):
            if path.name.startswith(".") and path.suffix == _NEW:
                path.unlink()  # ours, and cut
            elif _OURS.fullmatch(path.name) and path.name not in wanted:
                path.replace(path.with_name(f"{path.name}.stray"))  # no row says that

    def _append(self, lines: bytes) -> None:
        # In one piece, so that a reader sees whole lines.
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with os.fdopen(descriptor, "ab", buffering=0) as file:
            file.write(lines)

    def _replace(self, path: Path, data: bytes) -> None:
        # Not forced to the disk: what a power cut takes is put right from the rows.
        fresh = path.with_name(f".{path.name}{_NEW}")
        fresh.write_bytes(data)
        fresh.replace(path)


def _name(sequence: int, envelope: Envelope) -> str:
    return f"{sequence:06d}-{envelope.payload_type}.json"


def _data(envelope: Envelope) -> bytes:
    return envelope.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"


def _lines(rows: Sequence[tuple[int, Envelope]]) -> bytes:
    return "".join(event_line(envelope) for _, envelope in rows).encode()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
