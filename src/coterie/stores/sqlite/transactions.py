"""Running submissions on the writer's thread: many in one transaction, each kept or undone."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from coterie.errors import LeaseLost, StorageError, StorageLocked
from coterie.model.journal import Fence
from coterie.stores.sqlite.failures import explained
from coterie.stores.sqlite.queries import SQL

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_BEGIN, _COMMIT, _ROLLBACK = SQL["begin"], SQL["commit"], SQL["rollback"]
_SAVEPOINT, _RELEASE, _ROLLBACK_TO = SQL["savepoint"], SQL["release"], SQL["rollback_to"]
_HOLDS_LEASE = SQL["holds_lease"]


@dataclass(slots=True, eq=False)
class Job:
    """One submission.  Without a future it was posted: its caller has gone on."""

    work: Work[Any]
    fence: Fence | None = None
    future: asyncio.Future[Any] | None = None
    after: Callable[[], None] | None = None
    reads: bool = False
    result: Any = None
    error: Exception | None = None


class Transactions:
    """Runs jobs in their order and leaves each with its result or its error.

    Once `failure` is set nothing is written any more: a caller has gone on from a write that
    was not kept, or the file cannot be trusted, or the task is somebody else's.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, committed: Work[None]) -> None:
        self.failure: Exception | None = None
        self._connection = connection
        self._path = path
        self._committed = committed

    def serve(self, jobs: Sequence[Job]) -> bool:
        """Run them all, neighbouring writes in one transaction; whether there were writes."""
        writes: list[Job] = []
        wrote = False
        for job in jobs:
            if not job.reads:
                writes.append(job)
                continue
            if writes:  # a read sees what was submitted before it, and only if it is durable
                self._write(writes)
                writes, wrote = [], True
            self._read(job)
        if writes:
            self._write(writes)
        return wrote or bool(writes)

    def _read(self, job: Job) -> None:
        try:
            job.result = job.work(self._connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for the caller
            job.error = explained(error, self._path)

    def _write(self, jobs: list[Job]) -> None:
        """All at once; only when something fails, each in a savepoint of its own."""
        if self.failure is not None:
            self._fail(jobs, self.failure)
            return
        try:
            self._together(jobs)
        except Exception as error:  # noqa: BLE001 - it is for the callers
            self._undo()
            cause = explained(error, self._path)
            if len(jobs) == 1 or isinstance(cause, StorageError):
                self._fail(jobs, cause)
            else:
                self._apart(jobs)

    def _together(self, jobs: list[Job]) -> None:
        connection = self._connection
        connection.execute(_BEGIN)
        checked: Fence | None = None
        for job in jobs:
            if job.fence is None:
                checked = None  # it may have been a claim
            elif job.fence is not checked:
                self._check(job.fence)
                checked = job.fence
            job.result = job.work(connection)
        connection.execute(_COMMIT)
        self._after_commit()

    def _apart(self, jobs: list[Job]) -> None:
        try:
            self._connection.execute(_BEGIN)
            for job in jobs:
                if self.failure is None:
                    self._alone(job)
                else:
                    job.error = self.failure
            self._connection.execute(_COMMIT)
        except Exception as error:  # noqa: BLE001 - it is for the callers
            self._undo()
            self._fail(jobs, explained(error, self._path))
        else:
            self._after_commit()

    def _alone(self, job: Job) -> None:
        connection = self._connection
        connection.execute(_SAVEPOINT)
        try:
            if job.fence is not None:
                self._check(job.fence)
            job.result = job.work(connection)
        except Exception as error:
            cause = explained(error, self._path)
            if isinstance(cause, StorageError):
                raise  # not this job's own trouble
            connection.execute(_ROLLBACK_TO)
            self._refuse(job, cause)
        connection.execute(_RELEASE)

    def _check(self, fence: Fence) -> None:
        held = self._connection.execute(_HOLDS_LEASE, (fence.task_id, fence.token)).fetchall()
        if not held:
            raise LeaseLost(fence.task_id, fence.token)

    def _after_commit(self) -> None:
        try:
            self._committed(self._connection)
        except (sqlite3.Error, OSError) as error:
            # What was committed stands; the next one would not be safe.
            self.failure = explained(error, self._path)

    def _undo(self) -> None:
        # On a full disk SQLite has rolled back by itself, and a second time would hide the cause.
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute(_ROLLBACK)

    def _fail(self, jobs: list[Job], cause: Exception) -> None:
        for job in jobs:
            if job.error is None:
                self._refuse(job, cause)

    def _refuse(self, job: Job, cause: Exception) -> None:
        job.error = cause
        if self.failure is None and (job.future is None or _stops_everything(cause)):
            self.failure = cause


def _stops_everything(cause: Exception) -> bool:
    if isinstance(cause, StorageLocked):
        return False  # nothing was tried; the caller may try again
    return isinstance(cause, LeaseLost | StorageError)
