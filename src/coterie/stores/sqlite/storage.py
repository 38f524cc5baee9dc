"""`SqliteStorage`: every store of a project in one SQLite file, or in memory."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from coterie.model.conversation import Message
from coterie.model.journal import AppendEvent, AppendMessage, Fence, TaskHistory, Write
from coterie.model.task import TaskCreated
from coterie.stores.sqlite.integrity import HeadFile, head_of, problems
from coterie.stores.sqlite.opening import open_database, open_in_memory
from coterie.stores.sqlite.queries import select
from coterie.stores.sqlite.stores import (
    SqliteAudit,
    SqliteConversation,
    SqliteEvents,
    SqliteInbox,
    SqliteJournal,
    SqliteLeases,
    SqliteTickets,
    history,
)
from coterie.stores.sqlite.writer import Writer
from coterie.stores.sqlite.writes import Writes, task_exists

PATIENCE = 5.0
"""How long another process may hold the database before we say so, in seconds."""


class SqliteStorage:
    """All stores behind one writer; made by `open` or `in_memory`, let go by `close`."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], head_file: HeadFile | None
    ) -> None:
        self._head_file = head_file
        self._writes = Writes()
        self._writer = Writer(path, connect, self._keep_head)
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
        storage = cls(path, partial(open_database, path, patience), HeadFile(path))
        await storage._writer.start()
        return storage

    @classmethod
    async def in_memory(cls, name: str | None = None) -> SqliteStorage:
        """A database without a file, gone when the last storage on it is closed.

        Two of one name, in this process, are on the same data, as two processes on one file.
        """
        name = name or secrets.token_hex(8)
        storage = cls(Path(name), partial(open_in_memory, name, PATIENCE), None)
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

    async def history(self, task_id: str) -> TaskHistory:
        return await self._writer.read(partial(history, task_id))

    async def changed(self, seen: int) -> int:
        return await self._writer.watch.changed(seen)

    async def member_states(self, task_id: str) -> list[tuple[str, str, str, str]]:
        found = await self._writer.read(lambda c: select(c, "member_states", task_id))
        return [(member, state, reason, since) for member, state, reason, since in found]

    async def problems(self) -> list[str]:
        """What a thorough look finds wrong with the file, in words; reads all of it."""
        known = await anyio.to_thread.run_sync(self._head_file.read) if self._head_file else None
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
        said = () if opening is None else (AppendMessage(opening),)
        self._writes.apply(fence, (AppendEvent(event), *said), connection)
        return fence

    def _keep_head(self, connection: sqlite3.Connection) -> None:
        if self._writes.events_appended:
            self._writes.events_appended = False
            if self._head_file is not None:
                self._head_file.raise_to(head_of(connection))
