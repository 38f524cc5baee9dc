"""The stores that are only read from here: events, audit, conversation and journal.

What goes into them goes in through `Storage.commit` and `Storage.post`.
"""

from __future__ import annotations

from coterie.model.journal import Step, Turn
from coterie.model.message import Message
from coterie.model.task import Event, TaskRow
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.stores.sqlite import rows
from coterie.stores.sqlite.events import head_of
from coterie.stores.sqlite.rows import select
from coterie.stores.sqlite.writer import Writer


class SqliteEvents:
    """Domain events and the list of tasks that is folded from them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def of_task(self, task_id: str) -> list[Event]:
        found = await self._writer.read(lambda c: select(c, "events_of_task", task_id))
        return [rows.event(row) for row in found]

    async def tasks(self) -> list[TaskRow]:
        found = await self._writer.read(lambda c: select(c, "tasks"))
        return [TaskRow(*row) for row in found]

    async def head(self) -> tuple[int, str]:
        head = await self._writer.read(head_of)
        return head.sequence, head.hash


class SqliteAudit:
    """Tool calls."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def of_task(self, task_id: str) -> list[AuditEntry]:
        found = await self._writer.read(lambda c: select(c, "audit_of_task", task_id))
        return [rows.audit_entry(row) for row in found]

    async def all(self) -> list[AuditEntry]:
        found = await self._writer.read(lambda c: select(c, "audit_entries"))
        return [rows.audit_entry(row) for row in found]

    async def chain(self) -> list[ChainedEntry]:
        found = await self._writer.read(lambda c: select(c, "audit_chain"))
        hashes = ["", *(row[1].hex() for row in found)]
        return [
            ChainedEntry(row[0], hashes[place], hashes[place + 1], rows.audit_entry(row[2:]))
            for place, row in enumerate(found)
        ]


class SqliteConversation:
    """Messages."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        found = await self._writer.read(lambda c: select(c, "messages", task_id, after))
        return [rows.message(row) for row in found]

    async def thread(self, thread: str) -> list[str]:
        found = await self._writer.read(lambda c: select(c, "thread", thread))
        return [row[0] for row in found]


class SqliteJournal:
    """Steps and turns."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def steps(self, task_id: str) -> list[Step]:
        found = await self._writer.read(lambda c: select(c, "steps", task_id))
        return [Step(*row) for row in found]

    async def turns(self, task_id: str) -> list[Turn]:
        found = await self._writer.read(lambda c: select(c, "turns", task_id))
        return [Turn(*row) for row in found]

    async def spending(self, since: str = "") -> list[Turn]:
        found = await self._writer.read(lambda c: select(c, "spending", since))
        return [Turn(*row) for row in found]
