"""The heads of both chains, kept outside the database as well: `logs/head.json`.

A database whose `-wal` file was lost is sound and yet older.  Events are numbered without gaps,
so a head that is lower than the one on file, or another one, shows it.  The audit's head is kept
whenever an event is, at the latest when a task ends: so rows cut off its end are missed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Head:
    """The last event and the last row of the audit then: number and hash of each."""

    sequence: int
    hash: str
    audit: int = 0
    audit_hash: str = ""


class HeadFile:
    """The file, and the lock under which it is written and a new database is made."""

    def __init__(self, database: Path) -> None:
        self._folder = database.parent / "logs"
        self._path = self._folder / "head.json"

    def read(self) -> Head | None:
        """What the file says; None where there is none or a crash of the machine spoiled it."""
        try:
            found = json.loads(self._path.read_bytes())
            audit = int(found.get("audit", 0)), str(found.get("audit_hash", ""))
            return Head(int(found["sequence"]), str(found["hash"]), *audit)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def raise_to(self, head: Head) -> None:
        """Write the head unless a later one is there already.

        Where the lock stays busy (its holder was stopped) nothing is written: a head that is
        too low only shows less.
        """
        with self.locked(wait=0.1) as ours:
            known = self.read() if ours else None
            if not ours or (known is not None and known.sequence >= head.sequence):
                return
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(asdict(head)))
            fresh.replace(self._path)

    @contextlib.contextmanager
    def locked(self, wait: float) -> Generator[bool]:
        """Hold the lock if it can be had within `wait` seconds; yields whether it is ours."""
        self._folder.mkdir(exist_ok=True)
        descriptor = os.open(
            self._folder / "head.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            yield _flocked(descriptor, time.monotonic() + wait)
        finally:
            os.close(descriptor)  # lets go of the lock


def _flocked(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)
        else:
            return True
