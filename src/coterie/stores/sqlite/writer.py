"""The way to the database: what is submitted at one time becomes one transaction.

Where the disk is quick the loop commits by itself, because handing a commit to another thread and
back costs more CPU than the commit.  Reads, a slow disk and a database that somebody else writes
to are for the thread, which calls the loop back once for each batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import anyio

from coterie.model.journal import Fence, Write
from coterie.stores.codec import Row
from coterie.stores.sqlite.transactions import SQL, Job, Transactions, Work, Writes, execute, select
from coterie.stores.statements import After, Query, Reading, T

RIDE = 0.005
"""How long a posted write waits for a commit to ride in, in seconds."""
QUICK = 0.002
"""The loop commits by itself until two commits in a row have taken longer than this, in seconds."""
TURN = 0.005
"""How long whoever commits on the loop may go on before others have their turn, in seconds."""
POLL = 0.05
"""How often others' commits are looked for, in seconds, while somebody waits for them."""
IDLE = 2.0
"""After this long without a write the log is moved into the file and cut to nothing."""


class Writer:
    """Takes submissions from the event loop to the thread, and their outcomes back."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], committed: Work[None]
    ) -> None:
        self._path, self._connect, self._committed = path, connect, committed
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Sequence[Job] | None] = SimpleQueue()
        self._transactions: Transactions | None = None
        self._connection = threading.Lock()  # held by whoever uses it, the loop or the thread
        self._sent = 0  # how many jobs are with the thread, which may take several batches at once
        self._is_quick = self._was_quick = False
        self._wrote_at: float | None = None  # when the log last grew, if it has since it was cut
        self._posted: list[Job] = []
        self._posted_at = 0.0
        self._went_round = (0.0, 0)  # when the loop last did after a commit, at which version
        self._timer: asyncio.TimerHandle | None = None
        self._reported = self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.watch: Watch = Watch(self._loop, lambda: self._queue.put(()))

    # -- on the loop ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the database on the thread; raises what opening raises."""
        opened: asyncio.Future[None] = self._loop.create_future()
        self._sent += 1
        threading.Thread(None, self._run, "coterie-database", (opened,), daemon=True).start()
        try:
            await opened
        except BaseException:
            self._queue.put(None)
            await self._end()
            raise

    async def submit(self, work: Work[T], fence: Fence | None = None, after: After = None) -> T:
        """Run the work in a transaction after all that was posted; returns when it is durable.
        Where the caller is cancelled, the work may be done all the same."""
        self._refuse_if_failed()
        job = Job(work, fence, None, after)
        self._posted.append(job)
        if self._commit_here():
            if self._others_are_due():
                await asyncio.sleep(0)
            if job.error is not None:
                self._reported = self._reported or job.error is self._failure
                raise job.error
            return job.result
        job.future = self._loop.create_future()
        self._send()
        return await job.future

    def _others_are_due(self) -> bool:
        """Whether the loop is to go round: to do so after each commit costs as much as a write."""
        (at, before), now, version = self._went_round, self._wrote_at or 0.0, self.watch.version
        if now - at <= TURN and version == before:
            return False
        self._went_round = (now, version)
        return True

    async def read(self, work: Work[T]) -> T:
        """Run the work, which only reads, after all that was submitted before."""
        if self._stopping:
            raise RuntimeError("the storage is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._posted.append(Job(work, None, future, reads=True))
        self._send()
        return await future

    def post(self, work: Work[Any], fence: Fence | None = None, after: After = None) -> None:
        """Queue the work: it rides in the next submission, or goes alone a little later."""
        self._refuse_if_failed()
        if not self._posted:
            self._posted_at = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(RIDE, self._ride_ended)
        self._posted.append(Job(work, fence, None, after))

    async def stop(self) -> None:
        """Write what is queued and close the file; raises what made a posted write fail, if nobody
        has been told of it yet."""
        if not self._stopping:
            self._stopping = True
            if self._timer is not None:
                self._timer.cancel()
            self._send()
            self._queue.put(None)
        await self._end()
        if self._failure is not None and not self._reported:
            self._reported = True
            raise self._failure

    async def _end(self) -> None:
        with anyio.CancelScope(shield=True):
            await asyncio.shield(self._ended)

    @property
    def _failure(self) -> Exception | None:
        return None if self._transactions is None else self._transactions.failure

    def _refuse_if_failed(self) -> None:
        if self._stopping:
            raise RuntimeError("the storage is closed")
        if self._failure is not None:
            self._reported = True
            raise self._failure

    def _send(self) -> None:
        """Hand everything to the thread."""
        jobs, self._posted = self._posted, []
        self._sent += len(jobs)
        self._queue.put(jobs)

    def _commit_here(self) -> bool:
        """Commit everything on the loop, if that needs no waiting; whether it is dealt with."""
        transactions = self._transactions
        if not self._is_quick or self._sent or transactions is None:
            return False
        if not self._connection.acquire(blocking=False):  # the thread looks, or cuts the log
            return False
        try:
            began = time.monotonic()
            if not transactions.serve_at_once(self._posted):
                return False
            if self._wrote_at is None:
                self._queue.put(())  # the thread cuts the log once nothing is written any more
            self._wrote(began)
        finally:
            self._connection.release()
        jobs, self._posted = self._posted, []
        self._settle(jobs)
        return True

    def _wrote(self, began: float) -> None:
        self._wrote_at = time.monotonic()
        last, self._was_quick = self._was_quick, self._wrote_at - began <= QUICK
        self._is_quick = last or self._was_quick

    def _ride_ended(self) -> None:
        self._timer = None
        if not self._posted:
            return
        left = self._posted_at + RIDE - self._loop.time()
        if left > RIDE / 10:  # the timer was set for an earlier one, which found its ride
            self._timer = self._loop.call_later(left, self._ride_ended)
        elif not self._commit_here():
            self._send()

    def _received(self, jobs: Sequence[Job]) -> None:
        self._sent -= len(jobs)
        self._settle(jobs)

    def _settle(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            future = job.future
            if job.error is None and job.after is not None:
                self._call(job.after)
            if future is None or future.done():
                continue
            if job.error is None:
                future.set_result(job.result)
            else:
                self._reported = self._reported or job.error is self._failure
                future.set_exception(job.error)

    def _call(self, after: Callable[[], None]) -> None:
        try:
            after()
        except Exception as error:  # noqa: BLE001 - a surface that fails stops no task
            self._loop.call_exception_handler({"message": "A surface failed", "exception": error})

    # -- on the thread -------------------------------------------------------------------------

    def _run(self, opened: asyncio.Future[None]) -> None:
        first = Job(lambda _: None, future=opened)
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - it is for who opens
            first.error = error
            self._call_loop(self._received, (first,))
        else:
            with contextlib.closing(connection):
                self._transactions = Transactions(connection, self._path, self._committed)
                self.watch.begin(connection)
                self._call_loop(self._received, (first,))
                self._serve(connection, self._transactions)
                self._transactions.checkpoint()
        self._call_loop(self._ended.set_result, None)

    def _call_loop(self, call: Callable[[T], None], given: T) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(call, given)

    def _serve(self, connection: sqlite3.Connection, transactions: Transactions) -> None:
        going = True
        while going:
            wanted = self.watch.wanted()
            jobs, going = self._take(POLL if wanted else None if self._wrote_at is None else IDLE)
            with self._connection:
                if jobs:
                    began = time.monotonic()
                    if transactions.serve(jobs):
                        self._wrote(began)
                elif self._wrote_at is not None and time.monotonic() - self._wrote_at >= IDLE:
                    transactions.checkpoint()
                    self._wrote_at = None
                if wanted:
                    self.watch.poll(connection)
            if jobs:  # last: the loop wakes up, and needs the interpreter that we then let go
                self._call_loop(self._received, jobs)

    def _take(self, timeout: float | None) -> tuple[Sequence[Job], bool]:
        """Everything that is queued, waiting for the first; and whether to go on after it."""
        try:
            taken = self._queue.get(timeout=timeout)
        except Empty:
            return (), True
        jobs: list[Job] = []
        while taken is not None:
            jobs.extend(taken)
            if self._queue.empty():
                return jobs, True
            taken = self._queue.get()
        return jobs, False


class Watch:
    """Notices that others have written: who waits for that, on the loop, and the check for it, on
    the writer's thread.

    The check is `PRAGMA data_version` on the writer's own connection between transactions: it
    changes with every commit of another connection; ours are announced by `bump`.  A change only
    means: look again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake_thread: Callable[[], None]) -> None:
        self._loop = loop
        self._wake_thread = wake_thread
        # Not 0: the first `changed(0)` says "look", so that nothing from before is missed.
        self.version: int = 1
        self._waiters: set[asyncio.Future[None]] = set()
        self._wanted = False
        self._polling = False
        self._seen: object = None
        self._polled_at = 0.0

    # -- on the loop ---------------------------------------------------------------------------

    async def changed(self, seen: int) -> int:
        """Wait until the version is another one than `seen`; returns it."""
        while self.version <= seen:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.add(waiter)
            self._wanted = True
            if not self._polling:
                self._wake_thread()
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
                self._wanted = bool(self._waiters)
        return self.version

    def bump(self) -> None:
        """Somebody may have written: wake all who wait."""
        self.version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- on the thread -------------------------------------------------------------------------

    def begin(self, connection: sqlite3.Connection) -> None:
        """Remember how things stand before anybody has looked."""
        self._seen = self._data_version(connection)

    def wanted(self) -> bool:
        """Whether to look from time to time.  The order matters: the loop first says that it
        wants, then asks whether we look; we first say that we do not, then ask again."""
        self._polling = self._wanted
        if not self._polling:
            self._polling = self._wanted
        return self._polling

    def poll(self, connection: sqlite3.Connection) -> None:
        """Look for a change, unless we did a moment ago."""
        now = time.monotonic()
        if now - self._polled_at < POLL * 0.9:
            return
        self._polled_at = now
        version = self._data_version(connection)
        if version != self._seen:
            self._seen = version
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self.bump)

    def _data_version(self, connection: sqlite3.Connection) -> object:
        try:
            return connection.execute(SQL["data_version"]).fetchall()[0][0]
        except sqlite3.Error:
            return object()  # unlike any other: who looks again will be told what is wrong


class SqliteStatements:
    """The statements and the writes of the stores, as work for the writer."""

    def __init__(self, writer: Writer, writes: Writes) -> None:
        self._writer = writer
        self._writes = writes
        self.wake: Callable[[], None] = writer.watch.bump

    @property
    def version(self) -> int:
        return self._writer.watch.version

    async def changed(self, seen: int) -> int:
        return await self._writer.watch.changed(seen)

    async def close(self) -> None:
        await self._writer.stop()

    async def read(self, reading: Reading[T]) -> T:
        return await self._writer.read(partial(_read, reading))

    async def submit(
        self, *queries: Query, fence: Fence | None = None, after: After = None
    ) -> list[Row]:
        return await self._writer.submit(partial(_run, queries), fence, after)

    def post(self, *queries: Query) -> None:
        self._writer.post(partial(_run, queries))

    async def commit(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        await self._writer.submit(partial(self._writes.apply, fence, writes), fence, after)

    def queue(self, fence: Fence | None, writes: Sequence[Write], after: After) -> None:
        self._writer.post(partial(self._writes.apply, fence, writes), fence, after)


def _run(queries: Sequence[Query], connection: sqlite3.Connection) -> list[Row]:
    return [execute(connection, SQL[name], row).fetchall() for name, *row in queries][-1]


def _read(reading: Reading[T], connection: sqlite3.Connection) -> T:
    try:
        queries = next(reading)
        while True:
            queries = reading.send(_rows(connection, queries))
    except StopIteration as end:
        return end.value


def _rows(connection: sqlite3.Connection, queries: Sequence[Query]) -> list[list[Row]]:
    if len(queries) == 1:
        return [select(connection, *queries[0])]
    connection.execute(SQL["begin_reading"])  # all as of one moment
    try:
        return [select(connection, *query) for query in queries]
    finally:
        connection.execute(SQL["commit"])
