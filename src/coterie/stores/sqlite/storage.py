"""`SqliteStorage`: every store of a project in one SQLite file, or in memory.

The stores only read, but for the inbox and the leases, which other processes write to: each of
their calls is a transaction.  All else goes in through `Storage.commit` and `Storage.post`.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from pydantic import ValidationError

from coterie.model import instant, journal
from coterie.model.conversation import Message
from coterie.model.interaction import Question
from coterie.model.journal import Fence
from coterie.model.task import (
    Event,
    IllegalEvent,
    Status,
    TaskCreated,
    TaskRow,
    UserInteractionResponded,
)
from coterie.model.team import Reservation
from coterie.model.ticket import Moment, Ticket
from coterie.model.tool_call import AuditEntry, ChainedEntry
from coterie.model.update import Usage
from coterie.stores.sqlite import codec, database
from coterie.stores.sqlite.codec import SQL, execute, select, values
from coterie.stores.sqlite.failures import damaged
from coterie.stores.sqlite.notifications import SqliteNotifications
from coterie.stores.sqlite.timeline import SqliteTimeline
from coterie.stores.sqlite.transactions import Writes
from coterie.stores.sqlite.writer import SqliteStore, Writer

if TYPE_CHECKING:
    from coterie.model.envelope import Envelope


def history(task_id: str, seen: int, connection: sqlite3.Connection) -> journal.TaskHistory:
    """All that is recorded of a task, as of one moment."""
    connection.execute(SQL["begin_reading"])
    try:
        leases = values(connection, codec.LEASE.value, "lease", task_id)
        tickets: dict[str, Status] = dict(select(connection, "tickets_below", task_id))
        below = "messages_of_tickets"
        turn = codec.TURN.value
        return journal.TaskHistory(
            events=values(connection, codec.event_of, "events_of_task", task_id, 0),
            lease=leases[0] if leases else None,
            messages=[
                *values(connection, codec.MESSAGE.value, "messages", task_id, 0),
                *(values(connection, codec.MESSAGE.value, below, task_id) if tickets else ()),
            ],
            steps=values(connection, codec.STEP.value, "steps", task_id),
            turns=values(connection, turn, "turns", task_id, 0)
            if tickets
            else values(connection, turn, "turns_of_task", task_id),
            requests=values(connection, codec.REQUEST.value, "requests", task_id),
            children=tickets,
            seen=seen,
        )
    finally:
        connection.execute(SQL["commit"])


class SqliteEvents(SqliteStore):
    """Domain events and the list of tasks that is folded from them."""

    async def of_task(self, task_id: str, after: int = 0) -> list[Event]:
        return await self._all(codec.event_of, "events_of_task", task_id, after)

    async def tasks(self) -> list[TaskRow]:
        return await self._all(codec.TASK.value, "tasks")

    async def head(self) -> tuple[int, str]:
        head = await self._writer.read(database.head_of)
        return head.sequence, head.hash


class SqliteAudit(SqliteStore):
    """Tool calls."""

    async def of_task(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_of_task", task_id, after)

    async def with_tickets(self, task_id: str, after: int = 0) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_with_tickets", task_id, after)

    async def all(self) -> list[AuditEntry]:
        return await self._all(codec.AUDIT.value, "audit_entries")

    async def of_call(self, task_id: str, tool_call_id: str) -> list[ChainedEntry]:
        return await self._all(codec.chained_of, "audit_of_call", task_id, tool_call_id)

    async def chain(self) -> list[ChainedEntry]:
        return await self._all(codec.chained_of, "audit_chain")


class SqliteConversation(SqliteStore):
    """Messages, and the threads that we keep ourselves."""

    async def messages(self, task_id: str, after: int = 0) -> list[Message]:
        return await self._all(codec.MESSAGE.value, "messages", task_id, after)

    async def thread(self, thread: str) -> list[str]:
        found = await self._writer.read(lambda c: select(c, "thread", thread))
        return [row[0] for row in found]


class SqliteJournal(SqliteStore):
    """Steps and turns."""

    async def steps(self, task_id: str) -> list[journal.Step]:
        return await self._all(codec.STEP.value, "steps", task_id)

    async def turns(self, task_id: str, after: int = 0) -> list[journal.Turn]:
        return await self._all(codec.TURN.value, "turns", task_id, after)

    async def spending(self, since: str = "", task_id: str | None = None) -> list[journal.Turn]:
        if task_id is None:
            return await self._all(codec.TURN.value, "spending", since)
        return await self._all(codec.TURN.value, "spending_of_task", task_id, since)

    async def used(self) -> dict[str, Usage]:
        found = await self._writer.read(lambda c: select(c, "used"))
        return {session: Usage(*figures) for session, *figures in found}


class SqliteTickets(SqliteStore):
    """Tickets and envelopes."""

    def __init__(self, writer: Writer, path: Path) -> None:
        super().__init__(writer)
        self._path = path

    async def tickets(self, session_id: str) -> list[Ticket]:
        def read(connection: sqlite3.Connection) -> list[Ticket]:
            histories: dict[str, list[Moment]] = {}
            for ticket_id, *moment in select(connection, "ticket_history", session_id):
                histories.setdefault(ticket_id, []).append(codec.MOMENT.value(tuple(moment)))
            return [
                codec.TICKET.value(row, history=tuple(histories.get(row[0], ())))
                for row in select(connection, "tickets", session_id)
            ]

        return await self._writer.read(read)

    async def envelopes(self, session_id: str, after: int = 0) -> list[tuple[int, Envelope]]:
        try:
            return await self._all(codec.envelope_of, "envelopes", session_id, after)
        except ValidationError as error:
            raise damaged(self._path, f"An envelope of {session_id} is none: {error}") from None


class SqliteInbox(SqliteStore):
    """Questions and requests."""

    def __init__(self, writer: Writer, writes: Writes) -> None:
        super().__init__(writer)
        self._writes = writes

    async def allocate(self) -> str:
        number = await self._writer.submit(lambda c: select(c, "next_question")[0][0])
        return f"q{number}"

    async def questions(self, *, only_open: bool = True) -> list[Question]:
        return await self._all(codec.question_of, "questions_open" if only_open else "questions")

    async def question(self, interaction_id: str) -> Question | None:
        found = await self._all(codec.question_of, "question", interaction_id)
        return found[0] if found else None

    async def respond(self, event: Event) -> bool:
        if not isinstance(event, UserInteractionResponded):
            raise IllegalEvent(f"{event.type} is no answer")

        def answer(connection: sqlite3.Connection) -> bool:
            questions = select(connection, "open_questions", event.task_id)
            if (event.response.interaction_id,) not in questions:
                return False
            self._writes.apply(None, (journal.AppendEvent(event),), connection)
            return True

        return await self._writer.submit(answer, after=self._writer.watch.bump)

    async def request(self, task_id: str, kind: journal.RequestKind, author: str, text: str) -> int:
        row = (task_id, kind, author, text, instant.now())

        def leave(connection: sqlite3.Connection) -> int:
            return execute(connection, SQL["insert_request"], row).fetchall()[0][0]

        return await self._writer.submit(leave, after=self._writer.watch.bump)

    async def requests(self, task_id: str) -> list[journal.Request]:
        return await self._all(codec.REQUEST.value, "requests", task_id)

    async def discard_requests(self, task_id: str, kinds: Sequence[journal.RequestKind]) -> None:
        def discard(connection: sqlite3.Connection) -> None:
            for kind in kinds:
                connection.execute(SQL["delete_requests_of_kind"], (task_id, kind))

        await self._writer.submit(discard)


class SqliteLeases(SqliteStore):
    """Who may run a task, and which processes run for it."""

    async def get(self, task_id: str) -> journal.Lease | None:
        found = await self._all(codec.LEASE.value, "lease", task_id)
        return found[0] if found else None

    async def all(self) -> list[journal.Lease]:
        return await self._all(codec.LEASE.value, "leases")

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
        held = {"task_id": fence.task_id, "token": fence.token}
        await self._writer.submit(lambda c: c.execute(SQL["park_lease"], held).close())

    async def record_child(self, fence: Fence, child: journal.ChildLease) -> None:
        row = codec.CHILD.row(child)
        await self._writer.submit(lambda c: execute(c, SQL["insert_child"], row).close(), fence)

    def set_child_pid(self, mark: str, pid: int) -> None:
        self._writer.post(lambda c: select(c, "set_child_pid", pid, mark))

    def drop_child(self, mark: str) -> None:
        self._writer.post(lambda c: select(c, "drop_child", mark))

    async def children(self, task_id: str | None = None) -> list[journal.ChildLease]:
        if task_id is None:
            return await self._all(codec.CHILD.value, "children")
        return await self._all(codec.CHILD.value, "children_of_task", task_id)


class SqliteReservations(SqliteStore):
    """What turns under way may still use of budgets."""

    async def all(self) -> tuple[int, list[Reservation]]:
        def read(connection: sqlite3.Connection) -> tuple[int, list[Reservation]]:
            # The number first: what is reserved in between makes it too old, and is seen.
            made = select(connection, "reservations_made")[0][0]
            return made, values(connection, codec.RESERVATION.value, "reservations")

        return await self._writer.read(read)

    async def add(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        def reserve(connection: sqlite3.Connection) -> bool:
            if not select(connection, "next_reservation", seen):
                return False
            connection.execute(SQL["drop_reservations_of_others"])
            row = codec.RESERVATION.row(reservation)
            execute(connection, SQL["insert_reservation"], row).close()
            return True

        return await self._writer.submit(reserve, fence)

    def drop(self, task_id: str, step: str) -> None:
        self._writer.post(lambda c: select(c, "drop_reservation", task_id, step))


PATIENCE = 5.0
"""How long another process may hold the database before we say so, in seconds."""


class SqliteStorage:
    """All stores behind one writer; made by `open` or `in_memory`, let go by `close`."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[], sqlite3.Connection],
        head_file: database.HeadFile | None,
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
        self.reservations: SqliteReservations = SqliteReservations(self._writer)
        self.notifications: SqliteNotifications = SqliteNotifications(self._writer)

    @classmethod
    async def open(cls, path: Path, *, patience: float = PATIENCE) -> SqliteStorage:
        """Open the database at `path`, which is made if there is none; its folder must exist.

        Raises StorageError where it is damaged, locked, newer than we are or cannot be written.
        """
        storage = cls(
            path, partial(database.open_database, path, patience), database.HeadFile(path)
        )
        await storage._writer.start()
        return storage

    @classmethod
    async def in_memory(cls, name: str | None = None) -> SqliteStorage:
        """A database without a file, gone when the last storage on it is closed.

        Two of one name, in this process, are on the same data, as two processes on one file.
        """
        name = name or secrets.token_hex(8)
        storage = cls(Path(name), partial(database.open_in_memory, name, PATIENCE), None)
        await storage._writer.start()
        return storage

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        return await self._writer.submit(partial(self._create, event, owner, opening))

    async def commit(
        self, fence: Fence | None, *writes: journal.Write, after: Callable[[], None] | None = None
    ) -> None:
        await self._writer.submit(partial(self._writes.apply, fence, writes), fence, after)

    def post(
        self, fence: Fence | None, *writes: journal.Write, after: Callable[[], None] | None = None
    ) -> None:
        self._writer.post(partial(self._writes.apply, fence, writes), fence, after)

    @property
    def timeline(self) -> SqliteTimeline:
        """The one order of it all, which most commands never ask for."""
        return SqliteTimeline(self._writer)

    async def history(self, task_id: str) -> journal.TaskHistory:
        return await self._writer.read(partial(history, task_id, self._writer.watch.version))

    async def changed(self, seen: int) -> int:
        return await self._writer.watch.changed(seen)

    async def member_states(self, task_id: str | None = None) -> list[journal.SetMemberState]:
        return await self._writer.read(
            lambda c: values(c, codec.MEMBER_STATE.value, "member_states", task_id)
        )

    async def problems(self) -> list[str]:
        known = await anyio.to_thread.run_sync(self._head_file.read) if self._head_file else None
        return await self._writer.read(partial(database.problems, known))

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
        if select(connection, "task_status", event.task_id):
            return None
        if not select(connection, "insert_lease", event.task_id, owner, "running"):
            return None
        fence = Fence(event.task_id, 1)
        said = () if opening is None else (journal.AppendMessage(opening),)
        self._writes.apply(fence, (journal.AppendEvent(event), *said), connection)
        return fence

    def _keep_head(self, connection: sqlite3.Connection) -> None:
        if self._writes.events_appended:
            self._writes.events_appended = False
            if self._head_file is not None:
                self._head_file.raise_to(database.head_of(connection))
