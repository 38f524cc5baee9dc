"""The writer for SQLite: writes that are submitted together become one transaction.

If the disk is fast, the loop commits by itself, because handing a commit to another thread and
back costs more CPU than the commit.  Reads, a slow disk and a database that somebody else writes
to are left to the thread, which calls the loop back once per batch.
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
from coterie.stores.storage import settle

POST_DELAY = 0.005
"""How long a posted write waits for a commit that it can join, in seconds."""
QUICK = 0.002
"""The loop commits by itself until two commits in a row have taken longer than this, in seconds."""
LOOP_SLICE = 0.005
"""How long commits on the loop may go on before other tasks get their turn, in seconds."""
POLL = 0.05
"""How often to poll for others' commits, in seconds, while somebody waits for them."""
IDLE = 2.0
"""After this many seconds without a write, the log is moved into the file and truncated."""


class Writer:
    """Passes submissions from the event loop to the thread, and their outcomes back."""

    def __init__(
        self, path: Path, connect: Callable[[], sqlite3.Connection], committed: Work[None]
    ) -> None:
        self._path, self._connect, self._committed = path, connect, committed
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Sequence[Job] | None] = SimpleQueue()
        self._transactions: Transactions | None = None
        self._connection = threading.Lock()  # held by its current user, the loop or the thread
        self._sent = 0  # how many jobs are with the thread, which may take several batches at once
        self._is_quick = self._was_quick = False
        self._wrote_at: float | None = None  # when the log last grew, if not truncated since
        self._posted: list[Job] = []
        self._posted_at = 0.0
        self._last_yield = (0.0, 0)  # when a commit last yielded, and at which version
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
        """Run the work in a transaction after everything posted; returns when it is durable.
        If the caller is cancelled, the work may still be done."""
        self._raise_if_failed()
        job = Job(work, fence, None, after)
        self._posted.append(job)
        if self._commit_here():
            if self._should_yield():
                await asyncio.sleep(0)
            return job.result
        job.future = self._loop.create_future()
        self._send()
        return await job.future

    def _should_yield(self) -> bool:
        """Whether to yield to the loop: doing so after each commit costs as much as a write."""
        (at, before), now, version = self._last_yield, self._wrote_at or 0.0, self.watch.version
        if now - at <= LOOP_SLICE and version == before:
            return False
        self._last_yield = (now, version)
        return True

    async def read(self, work: Work[T]) -> T:
        """Run the work, which only reads, after everything submitted before it."""
        if self._stopping:
            raise RuntimeError("the storage is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._posted.append(Job(work, None, future, reads=True))
        self._send()
        return await future

    def post(self, work: Work[Any], fence: Fence | None = None, after: After = None) -> None:
        """Queue the work: it joins the next submission, or runs alone shortly after."""
        self._raise_if_failed()
        if not self._posted:
            self._posted_at = self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(POST_DELAY, self._post_delay_ended)
        self._posted.append(Job(work, fence, None, after))

    async def stop(self) -> None:
        """Write what is queued and close the file; raises the error that made a posted write fail,
        unless it has been reported already."""
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

    def _raise_if_failed(self) -> None:
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
        """Commit everything on the loop if that needs no waiting; returns whether it did."""
        transactions = self._transactions
        if not self._is_quick or self._sent or transactions is None:
            return False
        if not self._connection.acquire(blocking=False):  # the thread polls, or truncates the log
            return False
        try:
            began = time.monotonic()
            if not transactions.serve_at_once(self._posted):
                return False
            if self._wrote_at is None:
                self._queue.put(())  # the thread truncates the log once writes have stopped
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

    def _post_delay_ended(self) -> None:
        self._timer = None
        if not self._posted:
            return
        left = self._posted_at + POST_DELAY - self._loop.time()
        if left > POST_DELAY / 10:  # the timer was set for an earlier write, which has been sent
            self._timer = self._loop.call_later(left, self._post_delay_ended)
        elif not self._commit_here():
            self._send()

    def _received(self, jobs: Sequence[Job]) -> None:
        self._sent -= len(jobs)
        self._settle(jobs)

    def _settle(self, jobs: Sequence[Job]) -> None:
        reported = settle(self._loop, jobs, self._failure)
        self._reported = self._reported or reported

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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
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
            if jobs:  # last: the loop wakes up and needs the GIL, which we then release
                self._call_loop(self._received, jobs)

    def _take(self, timeout: float | None) -> tuple[Sequence[Job], bool]:
        """Take everything queued, waiting for the first item; and whether to go on after it."""
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
    """Notices when others have written: tasks wait for that on the loop, and the writer's thread
    checks for it.

    The check is `PRAGMA data_version` on the writer's own connection between transactions: it
    changes with every commit of another connection; ours are announced by `bump`.  A change only
    means: look again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, wake_thread: Callable[[], None]) -> None:
        self._loop = loop
        self._wake_thread = wake_thread
        # Not 0: the first `changed(0)` returns at once, so that no earlier change is missed.
        self.version: int = 1
        self._waiters: set[asyncio.Future[None]] = set()
        self._wanted = False
        self._polling = False
        self._seen: object = None
        self._polled_at = 0.0

    # -- on the loop ---------------------------------------------------------------------------

    async def changed(self, seen: int) -> int:
        """Wait until the version is higher than `seen`; returns it."""
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
        """Wake all waiting tasks: somebody may have written."""
        self.version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- on the thread -------------------------------------------------------------------------

    def begin(self, connection: sqlite3.Connection) -> None:
        """Record the initial data version."""
        self._seen = self._data_version(connection)

    def wanted(self) -> bool:
        """Whether to poll.  The order matters: the loop first sets `_wanted`, then reads
        `_polling`; the thread first clears `_polling`, then reads `_wanted` again."""
        self._polling = self._wanted
        if not self._polling:
            self._polling = self._wanted
        return self._polling

    def poll(self, connection: sqlite3.Connection) -> None:
        """Check for a change, unless we did so a moment ago."""
        now = time.monotonic()
        if now - self._polled_at < POLL * 0.9:
            return
        self._polled_at = now
        version = self._data_version(connection)
        if version != self._seen:
            self._seen = version
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                self._loop.call_soon_threadsafe(self.bump)

    def _data_version(self, connection: sqlite3.Connection) -> object:
        try:
            return connection.execute(SQL["data_version"]).fetchall()[0][0]
        except sqlite3.Error:
            return object()  # unlike any other: the next read will report what is wrong


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
    connection.execute(SQL["begin_reading"])  # all from one snapshot
    try:
        return [select(connection, *query) for query in queries]
    finally:
        connection.execute(SQL["commit"])
