"""The two chains of hashes, events and audit: their heads, kept outside the database as well, in
`logs/head.json`, and a thorough check for `doctor`.

A database whose `-wal` file was lost is sound and yet older.  Events are numbered without gaps,
so a head that is lower than the one on file, or another one, shows it.  The audit's head is kept
whenever an event is, at the latest when a task ends: so rows cut off its end are missed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from coterie.stores.projection import chained
from coterie.stores.sqlite.queries import select


@dataclass(frozen=True)
class Head:
    """The last event and the last row of the audit then: number and hash of each."""

    sequence: int
    hash: str
    audit: int = 0
    audit_hash: str = ""


def head_of(connection: sqlite3.Connection) -> Head:
    """The last event, and the last row of the audit, that the database holds."""
    ends = (select(connection, name) for name in ("last_event", "last_audit"))
    event, audit = ((rows[0][0], rows[0][1].hex()) if rows else (0, "") for rows in ends)
    return Head(*event, *audit)


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


def problems(known: Head | None, connection: sqlite3.Connection) -> list[str]:
    """What is wrong, in words; nothing where all is well.  `known` was on file before."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(10)").fetchall()]
    if found != ["ok"]:
        return found  # the rows cannot be trusted to be rows
    broken = [*_broken_chain(connection, "events"), *_broken_chain(connection, "audit")]
    return broken or [*_cut_off(connection, known)]


def _cut_off(connection: sqlite3.Connection, known: Head | None) -> Iterator[str]:
    """A chain that lost its end is whole in itself."""
    if known is None or known.audit == 0:
        return
    hashes = [row[-1].hex() for row in select(connection, "all_audit")]
    if len(hashes) < known.audit:
        yield f"audit: {known.audit} rows were written, {len(hashes)} are there"
    elif hashes[known.audit - 1] != known.audit_hash:
        yield f"audit: row {known.audit} is not the one that was written"


def _broken_chain(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    previous = b""
    for place, row in enumerate(select(connection, f"all_{table}"), start=1):
        *fields, found = row
        if fields[0] != place:
            yield f"{table}: row {place} is missing"
            return
        if chained(previous, fields) != found:
            yield f"{table}: row {place} is not the one that was written"
            return
        previous = found
