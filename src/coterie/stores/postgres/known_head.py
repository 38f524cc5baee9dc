"""The known extent of a store's history, recorded on this machine independently of the store.

A replica that took over after losing commits, and a restored backup, are consistent and yet older.
So each machine keeps the head of every store that it has used in a file of its own, named after the
history: a store that deliberately continues from a backup begins another history.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from coterie.errors import NotOurs
from coterie.stores.codec import Head, HeadFile
from coterie.stores.postgres.failures import history_lost
from coterie.stores.postgres.store_url import StoreUrl

FOLDER = "stores"
HEAD = "SELECT events, encode(events_hash, 'hex'), audit, encode(audit_hash, 'hex') FROM head"
"""Selects a `Head`; a transaction that has just appended holds the row, so it reads its own."""


@dataclass
class KnownHead:
    """The known head of one store, for one process."""

    home: Path
    """The user's `~/.coterie`."""
    _history: str | None = None
    _name: str | None = None
    """The name of the head file."""
    _head: Head = Head(0, "")
    _unwritten: bool = False
    _writing: asyncio.Future[None] | None = field(default=None, repr=False)

    def check(self, store: StoreUrl, connection: psycopg.Connection, *, keeps: bool = True) -> None:
        """Raise HistoryLost if the store holds less than is known, or something else.

        If `keeps` is set, the store's head is known from then on.  Blocks.
        """
        row = connection.execute("SELECT history FROM project").fetchone()
        if row is None:
            return
        history = str(row[0])
        if self._history not in (None, history):
            raise history_lost(store, "it was continued from a backup")
        name = f"{_digest(history)}.json"
        # Read before the store: others write down what they append only after their commit.
        known = _later(self._head, self._read(name))
        row = connection.execute(HEAD).fetchone()
        assert row is not None
        head = Head(*row)
        self._compare(store, connection, known, head)
        if keeps:
            self._history, self._name, self._head = history, name, _later(self._head, head)
            self._write(head)

    def _compare(
        self, store: StoreUrl, connection: psycopg.Connection, known: Head, head: Head
    ) -> None:
        if head.sequence < known.sequence:
            problem = f"it ends at event {head.sequence}, but event {known.sequence} was written"
            raise history_lost(store, problem)
        query = "SELECT encode(hash, 'hex') FROM events WHERE sequence = %s"
        row = connection.execute(query, [known.sequence]).fetchone()
        if row is not None and row[0] != known.hash:
            raise history_lost(store, f"event {known.sequence} differs from what was written")

    def note(self, head: Head) -> None:
        """Note a committed head, to be written to the file soon.  Runs on the loop."""
        if self._name is None or head.sequence <= self._head.sequence:
            return
        self._head, self._unwritten = head, True
        if self._writing is None:
            self._start()

    async def written(self) -> None:
        """Wait until everything noted is written to the file."""
        while self._writing is not None:
            await asyncio.shield(self._writing)
            # A future that was done already returns without yielding to the loop, which would
            # then never run the callback that clears it.
            await asyncio.sleep(0)

    def read(self) -> Head | None:
        """Return the head on file of the store that was last checked.  Blocks."""
        return None if self._name is None else self._read(self._name)

    def _start(self) -> None:
        self._unwritten = False
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(None, self._write, self._head)
        self._writing.add_done_callback(self._wrote)

    def _wrote(self, _: asyncio.Future[None]) -> None:
        self._writing = None
        if self._unwritten:
            self._start()

    def _read(self, name: str) -> Head:
        with suppress(OSError, NotOurs):
            return HeadFile(self.home, FOLDER, name).read() or Head(0, "")
        return Head(0, "")

    def _write(self, head: Head) -> None:
        if self._name is None:
            return
        with suppress(OSError, NotOurs):  # a head that is not written only detects less
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with closing(HeadFile(self.home, FOLDER, self._name)) as file:
                file.raise_to(head)


def _later(one: Head, other: Head) -> Head:
    return max(one, other, key=lambda head: head.sequence)


def _digest(history: str) -> str:
    """Make a file name, whatever the store returns as its history."""
    return hashlib.blake2b(history.encode(), digest_size=12).hexdigest()
