"""`SqliteStorage`: every store of a project in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from coterie.model.journal import AppendEvent, Fence, Write
from coterie.model.message import Message
from coterie.model.task import TaskCreated
from coterie.stores.sqlite.events import head_of, task_exists
from coterie.stores.sqlite.head import HeadFile
from coterie.stores.sqlite.inbox import SqliteInbox
from coterie.stores.sqlite.leases import SqliteLeases
from coterie.stores.sqlite.opening import open_database
from coterie.stores.sqlite.records import (
    SqliteAudit,
    SqliteConversation,
    SqliteEvents,
    SqliteJournal,
)
from coterie.stores.sqlite.rows import select
from coterie.stores.sqlite.tickets import SqliteTickets
from coterie.stores.sqlite.verification import problems
from coterie.stores.sqlite.writer import Writer
from coterie.stores.sqlite.writes import Writes, append_message

PATIENCE = 5.0
"""How long another process may hold the database before we say so, in seconds."""


class SqliteStorage:
    """All stores behind one writer; made by `open`, let go by `close`."""

    def __init__(self, path: Path, patience: float) -> None:
        self._head_file = HeadFile(path)
        self._writes = Writes()
        self._writer = Writer(path, partial(open_database, path, patience), self._keep_head)
        self.events: SqliteEvents = SqliteEvents(self._writer)
        self.audit: SqliteAudit = SqliteAudit(self._writer)
        self.conversation: SqliteConversation = SqliteConversation(self._writer)
        self.journal: SqliteJournal = SqliteJournal(self._writer)
        self.tickets: SqliteTickets = SqliteTickets(self._writer, path)
        self.inbox: SqliteInbox = SqliteInbox(self._writer, self._writes)
        self.leases: SqliteLeases = SqliteLeases(self._writer)

    @classmethod
    async def open(cls, path: Path, *, patience: float = PATIENCE) -> SqliteStorage:
        """Open the database at `path`, which is made if there is none; its folder must exist.

        Raises StorageError where it is damaged, locked, newer than we are or cannot be written.
        """
        storage = cls(path, patience)
        await storage._writer.start()
        return storage

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        return await self._writer.submit(partial(self._create, event, owner, opening))

    async def commit(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        await self._writer.submit(partial(self._writes.apply, fence, writes), fence, after)

    def post(
        self, fence: Fence | None, *writes: Write, after: Callable[[], None] | None = None
    ) -> None:
        self._writer.post(partial(self._writes.apply, fence, writes), fence, after)

    async def changed(self, seen: int) -> int:
        return await self._writer.watch.changed(seen)

    async def member_states(self, task_id: str) -> list[tuple[str, str, str, str]]:
        found = await self._writer.read(lambda c: select(c, "member_states", task_id))
        return [(member, state, reason, since) for member, state, reason, since in found]

    async def problems(self) -> list[str]:
        """What a thorough look finds wrong with the file, in words; reads all of it."""
        known = await anyio.to_thread.run_sync(self._head_file.read)
        return await self._writer.read(partial(problems, known))

    async def close(self) -> None:
        await self._writer.stop()

    # -- on the writer's thread ----------------------------------------------------------------

    def _create(
        self,
        event: TaskCreated,
        owner: str,
        opening: Message | None,
        connection: sqlite3.Connection,
    ) -> Fence | None:
        if task_exists(connection, event.task_id):
            return None
        if not select(connection, "insert_lease", event.task_id, owner, "running"):
            return None
        fence = Fence(event.task_id, 1)
        self._writes.apply(fence, (AppendEvent(event),), connection)
        if opening is not None:
            append_message(connection, opening)
        return fence

    def _keep_head(self, connection: sqlite3.Connection) -> None:
        if self._writes.events_appended:
            self._writes.events_appended = False
            self._head_file.raise_to(head_of(connection))
