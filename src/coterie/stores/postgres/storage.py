"""`PostgresStorage`: every store of a project in a schema of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence

import anyio.to_thread

from coterie.model import journal
from coterie.model.conversation import Message
from coterie.model.journal import Fence, IllegalWrite, Write
from coterie.model.task import TaskCreated, UserInteractionResponded
from coterie.model.team import Reservation
from coterie.stores.chain import broken_chains, cut_off
from coterie.stores.codec import RESERVATION, Row
from coterie.stores.postgres.known_head import KnownHead
from coterie.stores.postgres.sql_text import ANSWERING, statement
from coterie.stores.postgres.store_url import StoreUrl
from coterie.stores.postgres.submission import Submission
from coterie.stores.postgres.writer import CONNECT_TIMEOUT, PostgresWriter
from coterie.stores.postgres.writes import statements
from coterie.stores.statements import After, Query, Reading, T
from coterie.stores.storage import DatabaseStorage

_URGENT = frozenset({"insert_request"})
"""Statements that another process waits for: it is notified at once."""


class _Statements:
    """The statements and the writes of the stores, as messages of the writer."""

    def __init__(self, writer: PostgresWriter) -> None:
        self._writer = writer
        self.changed = writer.watch.changed
        self.wake = writer.watch.bump
        self.close = writer.stop

    @property
    def version(self) -> int:
        return self._writer.watch.version

    async def read(self, reading: Reading[T]) -> T:
        return await self._writer.read(reading)

    async def submit(
        self, *queries: Query, fence: Fence | None = None, after: After = None
    ) -> list[Row]:
        return await self._writer.submit(_job(queries, fence, after)) or []

    def post(self, *queries: Query) -> None:
        self._writer.post(_job(queries))

    async def commit(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        await self._writer.submit(_writing(writes, fence, after))

    def queue(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        try:
            job = _writing(writes, fence, after)
        except IllegalWrite as error:  # what was posted before is still written
            job = Submission([statement("illegal_write", str(error))])
        self._writer.post(job)

    async def create(self, event: TaskCreated, owner: str, opening: Message | None) -> Fence | None:
        writes = () if opening is None else (journal.AppendMessage(opening),)
        new = statement("task_is_new", event.task_id, owner, event.task_id)
        texts = [new, *statements((journal.AppendEvent(event), *writes))]
        refused = await self._writer.submit(Submission(texts, has_event=True)) is False
        return None if refused else Fence(event.task_id, 1)

    async def respond(self, event: UserInteractionResponded, request: int | None) -> bool:
        key = (event.task_id, event.response.interaction_id)
        taken = () if request is None else (journal.TakeRequest(request),)
        texts = [
            # Each statement sees what is committed when it begins: lock first, then check.
            statement("lock_head"),
            statement("question_is_open", *key),
            *statements((journal.AppendEvent(event), *taken)),
        ]
        job = Submission(texts, after=self.wake, has_event=True, is_urgent=True)
        return await self._writer.submit(job) is not False

    async def reserve(self, fence: Fence, reservation: Reservation, seen: int) -> bool:
        texts = [
            statement("next_reservation", seen),
            statement("drop_reservations_of_others"),
            statement("insert_reservation", *RESERVATION.row(reservation)),
        ]
        return await self._writer.submit(Submission(texts, fence)) is not False


def _writing(writes: Sequence[Write], fence: Fence | None, after: After) -> Submission:
    has_event = any(isinstance(write, journal.AppendEvent) for write in writes)
    return Submission(statements(writes), fence, after=after, has_event=has_event)


def _job(queries: Sequence[Query], fence: Fence | None = None, after: After = None) -> Submission:
    return Submission(
        [statement(*query) for query in queries],
        fence,
        after=after,
        answers=sum(query[0] in ANSWERING for query in queries),
        is_urgent=any(query[0] in _URGENT for query in queries),
    )


class PostgresStorage(DatabaseStorage):
    """All stores over one connection; made by `open`, released by `close`."""

    def __init__(self, writer: PostgresWriter) -> None:
        self._writer = writer
        super().__init__(_Statements(writer))

    @classmethod
    async def open(
        cls, url: str, *, connect_timeout: float = CONNECT_TIMEOUT, known: KnownHead | None = None
    ) -> PostgresStorage:
        """Connect to the database, which must have our schema.

        Raises StorageError if it cannot be reached, its schema is not the one we work with, or it
        lacks history that is `known`.
        """
        storage = cls(PostgresWriter(StoreUrl.of(url), connect_timeout, known))
        await storage._writer.start()
        return storage

    async def problems(self) -> list[str]:
        known, read = self._writer.known, self._statements.read
        head = await anyio.to_thread.run_sync(known.read) if known is not None else None
        return await read(broken_chains()) or await read(cut_off(head))
