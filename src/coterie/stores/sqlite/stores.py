"""The stores of a project, as far as they are read, and what other processes write: the inbox and
the leases, each call of which is a transaction.

All else goes in through `Storage.commit` and `Storage.post`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from coterie.model import instant, journal
from coterie.model.conversation import Message
from coterie.model.interaction import Question
from coterie.model.journal import Fence, Lease, Request, RequestKind, Step, Turn
from coterie.model.task import Event, IllegalEvent, TaskRow, UserInteractionResponded
from coterie.model.ticket import Moment, Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.stores.codec import Decoder, Value
from coterie.stores.sqlite import queries
from coterie.stores.sqlite.failures import damaged
from coterie.stores.sqlite.integrity import head_of
from coterie.stores.sqlite.queries import SQL, execute, select, values
from coterie.stores.sqlite.writer import Writer
from coterie.stores.sqlite.writes import Writes, is_open

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope

T = TypeVar("T")


def history(task_id: str, connection: sqlite3.Connection) -> journal.TaskHistory:
    """All that is recorded of a task, as of one moment."""
    connection.execute(SQL["begin_reading"])
    try:
        leases = values(connection, queries.LEASE, "lease", task_id)
        return journal.TaskHistory(
            events=values(connection, queries.EVENTS, "events_of_task", task_id, 0),
            lease=leases[0] if leases else None,
            children=values(connection, queries.CHILD, "children_of_task", task_id),
            messages=values(connection, queries.MESSAGE, "messages", task_id, 0),
            steps=values(connection, queries.STEP, "steps", task_id),
            turns=values(connection, queries.TURN, "turns", task_id, 0),
            requests=values(connection, queries.REQUEST, "requests", task_id),
        )
    finally:
        connection.execute(SQL["commit"])


class _Store:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def _all(self, decoder: Decoder[T], name: str, *given: Value) -> list[T]:
        return await self._writer.read(lambda c: values(c, decoder, name, *given))


class SqliteEvents(_Store):
    """Domain events and the list of tasks that is folded from them."""

    async def of_task(self, task_id: str, after: int = 0) -> list[Event]:
        return await self._all(queries.EVENTS, "events_of_task", task_id, after)

    async def tasks(self) -> list[TaskRow]:
        return await self._all(queries.TASK, "tasks")

    async def head(self) -> tuple[int, str]:
        head = await self._writer.read(head_of)
        return head.sequence, head.hash


class SqliteAudit(_Store):
    """Tool calls."""

    async def of_task(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        return await self._all(queries.AUDIT, "audit_of_task", task_id, after)

    async def all(self) -> list[AuditEntry]:
        return await self._all(queries.AUDIT, "audit_entries")

    async def chain(self) -> list[ChainedEntry]:
        found = await self._writer.read(lambda c: select(c, "all_audit"))
        hashes = ["", *(row[-1].hex() for row in found)]
        return [
            ChainedEntry(row[0], hashes[n], hashes[n + 1], queries.AUDIT.value(row[1:-1]))
            for n, row in enumerate(found)
        ]


class SqliteConversation(_Store):
    """Messages, and the threads that we keep ourselves."""

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        return await self._all(queries.MESSAGE, "messages", task_id, after)

    async def thread(self, thread: str) -> list[str]:
        found = await self._writer.read(lambda c: select(c, "thread", thread))
        return [row[0] for row in found]


class SqliteJournal(_Store):
    """Steps and turns."""

    async def steps(self, task_id: str) -> list[Step]:
        return await self._all(queries.STEP, "steps", task_id)

    async def turns(self, task_id: str, after: int = 0) -> list[Turn]:
        return await self._all(queries.TURN, "turns", task_id, after)

    async def spending(self, since: str = "") -> list[Turn]:
        return await self._all(queries.TURN, "spending", since)


class SqliteTickets(_Store):
    """Tickets and envelopes."""

    def __init__(self, writer: Writer, path: Path) -> None:
        super().__init__(writer)
        self._path = path

    async def tickets(self, session_id: str, seen: Mapping[str, int] | None = None) -> list[Ticket]:
        def read(connection: sqlite3.Connection) -> list[Ticket]:
            histories: dict[str, list[Moment]] = {}
            for ticket_id, *moment in select(connection, "ticket_history", session_id):
                histories.setdefault(ticket_id, []).append(queries.MOMENT.value(tuple(moment)))
            known = seen or {}
            return [
                queries.TICKET.value(row, history=tuple(histories.get(row[0], ())))
                for row in select(connection, "tickets", session_id)
                if len(histories.get(row[0], ())) > known.get(row[0], -1)
            ]

        return await self._writer.read(read)

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        try:
            return await self._all(queries.ENVELOPES, "envelopes", session_id, after)
        except ValidationError as error:
            raise damaged(self._path, f"An envelope of {session_id} is none: {error}") from None


class SqliteInbox(_Store):
    """Questions and requests."""

    def __init__(self, writer: Writer, writes: Writes) -> None:
        super().__init__(writer)
        self._writes = writes

    async def allocate(self) -> str:
        number = await self._writer.submit(lambda c: select(c, "next_question")[0][0])
        return f"q{number}"

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        return await self._all(queries.QUESTIONS, "questions_open" if only_open else "questions")

    async def question(self, interaction_id: str) -> Question | None:
        found = await self._all(queries.QUESTIONS, "question", interaction_id)
        return found[0] if found else None

    async def respond(self, event: Event) -> bool:
        if not isinstance(event, UserInteractionResponded):
            raise IllegalEvent(f"{event.type} is no answer")

        def answer(connection: sqlite3.Connection) -> bool:
            if not is_open(connection, event):
                return False
            self._writes.apply(None, (journal.AppendEvent(event),), connection)
            return True

        return await self._writer.submit(answer, after=self._writer.watch.bump)

    async def request(self, task_id: str, kind: RequestKind, author: str, text: str) -> int:
        row = (task_id, kind, author, text, instant.now())

        def leave(connection: sqlite3.Connection) -> int:
            return execute(connection, SQL["insert_request"], row).fetchall()[0][0]

        return await self._writer.submit(leave, after=self._writer.watch.bump)

    async def requests(self, task_id: str) -> list[Request]:
        return await self._all(queries.REQUEST, "requests", task_id)

    async def discard_requests(self, task_id: str, kinds: Sequence[RequestKind]) -> None:
        def discard(connection: sqlite3.Connection) -> None:
            for kind in kinds:
                connection.execute(SQL["delete_requests_of_kind"], (task_id, kind))

        await self._writer.submit(discard)


class SqliteLeases(_Store):
    """Who may run a task, and which processes run for it."""

    async def get(self, task_id: str) -> Lease | None:
        found = await self._all(queries.LEASE, "lease", task_id)
        return found[0] if found else None

    async def all(self) -> list[Lease]:
        return await self._all(queries.LEASE, "leases")

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        def take(connection: sqlite3.Connection) -> int | None:
            if seen == 0:
                found = select(connection, "insert_lease", task_id, owner, "reclaiming")
            else:
                found = select(connection, "claim_lease", owner, task_id, seen)
            return found[0][0] if found else None

        return await self._writer.submit(take)

    async def confirm(self, fence: Fence) -> bool:
        found = await self._writer.submit(
            lambda c: select(c, "confirm_lease", fence.task_id, fence.token)
        )
        return bool(found)

    async def park(self, fence: Fence) -> None:
        await self._writer.submit(lambda c: select(c, "park_lease", fence.task_id, fence.token))

    async def record_child(self, fence: Fence, child: journal.ChildLease) -> None:
        row = queries.CHILD.row(child)
        await self._writer.submit(lambda c: execute(c, SQL["insert_child"], row).close(), fence)

    def set_child_pid(self, mark: str, pid: int) -> None:
        self._writer.post(lambda c: select(c, "set_child_pid", pid, mark))

    def drop_child(self, mark: str) -> None:
        self._writer.post(lambda c: select(c, "drop_child", mark))

    async def children(self, task_id: str | None = None) -> list[journal.ChildLease]:
        if task_id is None:
            return await self._all(queries.CHILD, "children")
        return await self._all(queries.CHILD, "children_of_task", task_id)
