"""The writer for PostgreSQL: writes submitted together become one message, and so one transaction.

Each message that writes has a number.  If the connection is lost before the reply arrives, the
number recorded on the server tells whether it was committed: if so, its answers are there too, else
it is sent again.  Everything runs on the event loop but connecting, which blocks and has a thread.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import psycopg
from pydantic import ValidationError

from coterie.errors import LeaseLost, stops_writing
from coterie.model.journal import Fence, IllegalWrite
from coterie.model.task import IllegalEvent
from coterie.stores.codec import Head, Row
from coterie.stores.postgres import schema
from coterie.stores.postgres.connection import PgConnection, ServerError, ServerReply
from coterie.stores.postgres.diagnosis import no_connection
from coterie.stores.postgres.failures import from_server, history_lost, unreadable
from coterie.stores.postgres.known_head import HEAD, KnownHead
from coterie.stores.postgres.listener import Listener
from coterie.stores.postgres.schema import PreparedConnection
from coterie.stores.postgres.sql_text import encoded, statement
from coterie.stores.postgres.store_url import StoreUrl
from coterie.stores.postgres.submission import Submission, writes_in
from coterie.stores.statements import Reading, T
from coterie.stores.storage import settle

POST_DELAY = 0.005
"""How long a posted write waits for a commit that it can join, in seconds."""
CONNECT_TIMEOUT = 60.0
"""How long to wait for a database that is out of reach, in seconds."""
_RETRYABLE = frozenset({"40P01", "40001"})  # deadlock_detected, serialization_failure
_CONDITION_FAILED, _ALREADY_COMMITTED = "CT004", "CT005"


class PostgresWriter:
    """Sends jobs in order, one message at a time, and settles them."""

    def __init__(
        self, store: StoreUrl, timeout: float = CONNECT_TIMEOUT, known: KnownHead | None = None
    ) -> None:
        self.store = store
        self.known = known
        self.failure: Exception | None = None
        self._id = secrets.token_hex(8)
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self.watch: Listener = Listener(self._loop, self._id)
        self._batch = 0
        """The number of the last message that the server has committed."""
        self._connection: PgConnection | None = None
        self._queue: list[Submission] = []
        self._sent: list[Submission] = []
        """The jobs of the message in flight: one reading, or writes."""
        self._timer: asyncio.TimerHandle | None = None
        self._reported = False
        self._stopping = False
        self._given_up = threading.Event()
        self._idle: asyncio.Future[None] | None = None

    # -- for the stores ------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; raises StorageError if that fails or the schema is not ours."""
        opened: asyncio.Future[PreparedConnection] = self._loop.create_future()
        self._connect(opened, timeout=0)
        try:
            self._attach(await opened)
        except asyncio.CancelledError:
            if not opened.cancelled() and opened.exception() is None:
                opened.result().connection.close()
            raise

    async def submit(self, job: Submission) -> Any:
        """Write in a transaction after everything posted before; returns when it is durable.

        If the caller is cancelled, the write may still be done.
        """
        self._raise_if_failed()
        return await self._queued(job)

    async def read(self, reading: Reading[T]) -> T:
        """Run the reading after everything submitted before it."""
        if self._stopping:
            raise RuntimeError("the storage is closed")
        if self._connection is None and self.failure is not None:
            raise self.failure
        return await self._queued(Submission(reading=reading))

    async def _queued(self, job: Submission) -> Any:
        job.future = self._loop.create_future()
        self._queue.append(job)
        self._pump()
        return await job.future

    def post(self, job: Submission) -> None:
        """Queue a write: it joins the next message, or is sent alone shortly after."""
        self._raise_if_failed()
        self._queue.append(job)
        if self._timer is None:
            self._timer = self._loop.call_later(POST_DELAY, self._post_delay_ended)

    async def stop(self) -> None:
        """Write what is queued and close the connection.

        Raises the error that made a posted write fail, unless it has been reported already.
        """
        if not self._stopping:
            self._stopping = True
            with anyio.CancelScope(shield=True):
                await self._drained()
                if self.known is not None:
                    await self.known.written()
            self._given_up.set()
            if self._timer is not None:
                self._timer.cancel()
            if self._connection is not None:
                self._connection.close()
        if self.failure is not None and not self._reported:
            self._reported = True
            raise self.failure

    async def _drained(self) -> None:
        if self._connection is not None and self.failure is None:
            # Alone: the answers of a message are kept in the row that this deletes.
            self._queue.append(Submission([statement("drop_writer", self._id)], is_alone=True))
        self._idle = self._loop.create_future()
        self._pump()
        await self._idle

    def _raise_if_failed(self) -> None:
        if self._stopping:
            raise RuntimeError("the storage is closed")
        if self.failure is not None:
            self._reported = True
            raise self.failure

    # -- sending -------------------------------------------------------------------------------

    def _post_delay_ended(self) -> None:
        self._timer = None
        self._pump()

    def _pump(self) -> None:
        """Send the next message, unless one is in flight."""
        while self._connection is not None and not self._sent and self._queue:
            self._send(self._connection)
        if self._idle is not None and not self._sent and not self._queue and not self._idle.done():
            self._idle.set_result(None)

    def _send(self, connection: PgConnection) -> None:
        first = self._queue[0]
        if first.reading is None and self.failure is not None:
            self._fail(self._queue.pop(0), self.failure)
            return
        count = 1 if first.reading is not None or first.is_alone else writes_in(self._queue)
        jobs, self._queue = self._queue[:count], self._queue[count:]
        if first.reading is None:
            self._transmit(connection, jobs)
        elif first.message or self._advance(first, None):
            self._sent = jobs
            connection.send(encoded(first.message), self._answered)

    def _transmit(self, connection: PgConnection, jobs: list[Submission]) -> None:
        self._sent = jobs
        connection.send(encoded(self._message(jobs)), self._answered)

    def _message(self, jobs: Sequence[Submission]) -> str:
        note = self._id + ("!" if any(job.is_urgent for job in jobs) else "")
        parts = [statement("begin_batch", self._id, self._batch + 1, note)]
        held: Fence | None = None
        for job in jobs:
            if job.fence is None:
                held = None  # it may have claimed a lease
            elif job.fence is not held:
                held = job.fence
                parts.append(statement("hold", held.task_id, held.token))
            parts.extend(job.statements)
        if self.known is not None and any(job.has_event for job in jobs):
            parts.append(HEAD)
        if any(job.answers for job in jobs):
            parts.append(statement("keep_answers", self._id))
        return ";\n".join(parts)

    def _advance(self, job: Submission, rows: list[list[Row]] | None) -> bool:
        """Give a reading the rows that it asked for; returns whether it asks for more."""
        assert job.reading is not None
        try:
            queries = next(job.reading) if rows is None else job.reading.send(rows)
        except StopIteration as end:
            job.result = end.value
        except ValidationError as error:
            job.error = unreadable(self.store, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for the caller
            job.error = error
        else:
            texts = [statement(*query) for query in queries]
            if len(texts) > 1:  # all from one snapshot
                texts.insert(0, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            job.message = ";\n".join(texts)
            return True
        self._settle([job])
        return False

    # -- replies -------------------------------------------------------------------------------

    def _answered(self, reply: ServerReply) -> None:
        jobs, self._sent = self._sent, []
        if jobs[0].reading is not None:
            self._read_answered(jobs[0], reply)
        elif reply.error is not None:
            self._rolled_back(jobs, reply.error)
        else:
            answers = reply.rows.pop()[0][0] if any(job.answers for job in jobs) else ""
            if self.known is not None and any(job.has_event for job in jobs):
                self.known.note(Head(*reply.rows[-1][0]))
            self._committed(jobs, answers)
        self._pump()

    def _read_answered(self, job: Submission, reply: ServerReply) -> None:
        if reply.error is not None:
            job.error = from_server(self.store, reply.error.state, reply.error.problem)
            self._settle([job])
        elif self._advance(job, reply.rows):
            self._queue.insert(0, job)

    def _committed(self, jobs: Sequence[Submission], answers: str) -> None:
        self._batch += 1
        each = iter(answers.split(";"))
        for job in jobs:
            if job.answers:
                last = [next(each) for _ in range(job.answers)][-1]
                job.result = [(int(last),)] if last else []
        self._settle(jobs)

    def _rolled_back(self, jobs: list[Submission], error: ServerError) -> None:
        """Handle a rollback: several jobs are retried one by one, a single one has failed."""
        if error.state == _ALREADY_COMMITTED:  # it was committed on the previous connection
            self._sent = jobs
            self._reconnect()
        elif error.state in _RETRYABLE:
            self._queue[:0] = jobs
        elif len(jobs) > 1:
            for job in jobs:
                job.is_alone = True
            self._queue[:0] = jobs
        elif error.state == _CONDITION_FAILED:
            jobs[0].result = False
            self._settle(jobs)
        else:
            self._fail(jobs[0], self._error_of(error))

    def _error_of(self, error: ServerError) -> Exception:
        if error.state == "CT001":
            return LeaseLost(error.detail, int(error.hint))
        if error.state == "CT003":
            return IllegalEvent(error.problem)
        if error.state == "CT002" or error.state.startswith("23"):
            return IllegalWrite(error.problem)
        return from_server(self.store, error.state, error.problem)

    def _fail(self, job: Submission, cause: Exception) -> None:
        job.error = cause
        if self.failure is None and (job.future is None or stops_writing(cause)):
            self.failure = cause
        self._settle([job])

    def _settle(self, jobs: Sequence[Submission]) -> None:
        reported = settle(self._loop, jobs, self.failure)
        self._reported = self._reported or reported

    # -- connecting ----------------------------------------------------------------------------

    def _reconnect(self) -> None:
        """Replace a lost or useless connection by a new one, and ask what was committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._given_up.is_set():
            return
        opened: asyncio.Future[PreparedConnection] = self._loop.create_future()
        opened.add_done_callback(self._reconnected)
        self._connect(opened, self._timeout)

    def _lost(self) -> None:
        self._connection = None
        self._reconnect()

    def _reconnected(self, opened: asyncio.Future[PreparedConnection]) -> None:
        if opened.cancelled():
            return
        jobs, self._sent = self._sent, []
        error = opened.exception()
        if error is not None:
            self._give_up(error, [*jobs, *self._queue])
            return
        prepared = opened.result()
        if self._given_up.is_set():
            prepared.connection.close()
            return
        if (prepared.batch is None and not self._stopping) or _is_older(prepared, self._batch):
            prepared.connection.close()
            lost = history_lost(self.store, "it lacks commits that it confirmed to this process")
            self._give_up(lost, [*jobs, *self._queue])
            return
        connection = self._attach(prepared)
        if not jobs or jobs[0].reading is not None:
            self._queue[:0] = jobs
        elif prepared.batch in (self._batch + 1, None):
            self._committed(jobs, prepared.answers)
        else:  # the same message: it may still be in progress on the connection that was cut
            self._transmit(connection, jobs)
        self.watch.bump()  # notifications sent in the meantime are lost
        self._pump()

    def _give_up(self, error: BaseException, jobs: list[Submission]) -> None:
        self._queue = []
        if self.failure is None and isinstance(error, Exception):
            self.failure = error
        for job in jobs:
            job.error = self.failure
        self._settle(jobs)
        self.watch.bump()  # tasks that wait for a change look again and see the failure, too
        self._pump()

    def _attach(self, prepared: PreparedConnection) -> PgConnection:
        self._connection = connection = PgConnection(
            prepared.connection, self.watch.on_notify, self._lost
        )
        return connection

    def _connect(self, opened: asyncio.Future[PreparedConnection], timeout: float) -> None:
        def run() -> None:
            try:
                call, result = opened.set_result, self._prepare(timeout)
            except Exception as error:  # noqa: BLE001 - it is for who waits
                call, result = opened.set_exception, error
            try:
                self._loop.call_soon_threadsafe(_unless_done, opened, call, result)
            except RuntimeError:  # the loop is closed: nobody is waiting
                if isinstance(result, PreparedConnection):
                    result.connection.close()

        threading.Thread(target=run, name="coterie-connect", daemon=True).start()

    def _prepare(self, timeout: float) -> PreparedConnection:
        """On the thread: open a prepared connection, retrying until the timeout."""
        until = time.monotonic() + timeout
        pause = 0.05
        while True:
            try:
                return schema.opened(self.store, self._id, self.known, is_new=timeout == 0)
            except psycopg.OperationalError as error:
                if time.monotonic() >= until or self._given_up.wait(pause):
                    raise no_connection(self.store, error) from None
                pause = min(pause * 2, 1.0)


def _unless_done(
    opened: asyncio.Future[PreparedConnection], call: Callable[[Any], None], result: Any
) -> None:
    if not opened.done():
        call(result)
    elif isinstance(result, PreparedConnection):
        result.connection.close()


def _is_older(prepared: PreparedConnection, batch: int) -> bool:
    """Whether the server lacks what it had committed: another one with less took over."""
    return prepared.batch is not None and prepared.batch < batch
