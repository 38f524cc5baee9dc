"""Questions and requests: what other processes write to a task.  Each call is a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from coterie.model import instant
from coterie.model.interaction import Question
from coterie.model.journal import AppendEvent, Request, RequestKind
from coterie.model.task import Event, IllegalEvent, UserInteractionResponded
from coterie.stores.sqlite import rows
from coterie.stores.sqlite.events import is_open
from coterie.stores.sqlite.queries import SQL, execute
from coterie.stores.sqlite.rows import select
from coterie.stores.sqlite.writer import Writer
from coterie.stores.sqlite.writes import Writes


class SqliteInbox:
    """The inbox of one project."""

    def __init__(self, writer: Writer, writes: Writes) -> None:
        self._writer = writer
        self._writes = writes

    async def allocate(self) -> str:
        number = await self._writer.submit(lambda c: select(c, "next_question")[0][0])
        return f"q{number}"

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        name = "questions_open" if only_open else "questions"
        found = await self._writer.read(lambda c: select(c, name))
        return [rows.question(row) for row in found]

    async def question(self, interaction_id: str) -> Question | None:
        found = await self._writer.read(lambda c: select(c, "question", interaction_id))
        return rows.question(found[0]) if found else None

    async def respond(self, event: Event) -> bool:
        if not isinstance(event, UserInteractionResponded):
            raise IllegalEvent(f"{event.type} is no answer")

        def answer(connection: sqlite3.Connection) -> bool:
            if not is_open(connection, event):
                return False
            self._writes.apply(None, (AppendEvent(event),), connection)
            return True

        return await self._writer.submit(answer, after=self._writer.watch.bump)

    async def request(self, task_id: str, kind: RequestKind, author: str, text: str) -> int:
        row = (task_id, kind, author, text, instant.now())

        def leave(connection: sqlite3.Connection) -> int:
            return execute(connection, SQL["insert_request"], row).fetchall()[0][0]

        return await self._writer.submit(leave, after=self._writer.watch.bump)

    async def requests(self, task_id: str) -> list[Request]:
        found = await self._writer.read(lambda c: select(c, "requests", task_id))
        return [Request(*row) for row in found]

    async def discard_requests(self, task_id: str, kinds: Sequence[RequestKind]) -> None:
        def discard(connection: sqlite3.Connection) -> None:
            for kind in kinds:
                connection.execute(SQL["delete_requests_of_kind"], (task_id, kind))

        await self._writer.submit(discard)
