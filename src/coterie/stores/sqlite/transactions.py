"""Submissions, many in one transaction, each kept or rolled back; and what each `Write` does to the
database.  The hot path: two submissions a turn."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from coterie.errors import LeaseLost, StorageError, stops_writing
from coterie.model import journal, task
from coterie.model.journal import Fence, IllegalWrite, Write
from coterie.model.task import TaskCreated
from coterie.stores import codec
from coterie.stores.codec import Row, Value
from coterie.stores.sqlite.failures import explained
from coterie.stores.statements import load
from coterie.stores.writes import PLAIN, moments, problem_of, put_ticket, updates

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

SQL = load(Path(__file__).parent)
_UPDATES = updates(SQL)
_FIRST_TURN = updates(
    {**SQL, "spend_turn": SQL["spend_first_turn"], "close_turn": SQL["close_first_turn"]}
)
"""The same for an attempt that is stored in the row of its step."""

# Without it, sqlite3 searches for an adapter in vain each time, which costs more than binding.
sqlite3.register_adapter(NoneType, lambda none: none)


def select(connection: sqlite3.Connection, name: str, *values: Value) -> list[Row]:
    """Fetch all rows at once: an open cursor would prevent the log from being truncated."""
    return connection.execute(SQL[name], values).fetchall()


def execute(connection: sqlite3.Connection, statement: str, row: Sequence[Value]) -> sqlite3.Cursor:
    """Write a row; text that UTF-8 cannot encode is repaired rather than refused."""
    try:
        return connection.execute(statement, row)
    except UnicodeEncodeError:
        return connection.execute(statement, codec.repair_row(row))


@dataclass(slots=True, eq=False)
class Job:
    """One submission.  Without a future it was posted: its caller does not wait for it."""

    work: Work[Any]
    fence: Fence | None = None
    future: asyncio.Future[Any] | None = None
    after: Callable[[], None] | None = None
    reads: bool = False
    result: Any = None
    error: Exception | None = None


class Transactions:
    """Runs jobs in order and leaves each with its result or its error.

    Once `failure` is set, nothing more is written: a posted write was lost after its caller had
    moved on, or `stops_writing` says so.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, committed: Work[None]) -> None:
        self.failure: Exception | None = None
        self._connection = connection
        self._path = path
        self._committed = committed
        self._timeout: int = connection.execute("PRAGMA busy_timeout").fetchall()[0][0]
        self._may_wait = True

    def serve(self, jobs: Sequence[Job]) -> bool:
        """Run all jobs, adjacent writes in one transaction; returns whether there were writes."""
        self._wait_for_others(may_wait=True)
        writes: list[Job] = []
        wrote = False
        for job in jobs:
            if not job.reads:
                writes.append(job)
                continue
            if writes:  # a read sees what was submitted before it, once that is durable
                self._write(writes)
                writes, wrote = [], True
            self._read(job)
        if writes:
            self._write(writes)
        return wrote or bool(writes)

    def serve_at_once(self, writes: list[Job]) -> bool:
        """Run the writes in one transaction; False if that failed and nothing was committed."""
        if self.failure is not None:
            return False
        try:
            self._wait_for_others(may_wait=False)
            self._run_together(writes)
        except Exception:  # noqa: BLE001 - `serve` will find it too
            self._undo()
            return False
        return True

    def checkpoint(self) -> None:
        """Move the log into the file, unless other processes use the database: then they will.

        A failure loses nothing: what is in the log is durable.
        """
        with contextlib.suppress(sqlite3.Error):
            self._wait_for_others(may_wait=False)
            self._connection.execute(SQL["checkpoint"]).fetchall()

    def _wait_for_others(self, *, may_wait: bool) -> None:
        """Set whether to wait from now on for another process that holds the database."""
        if may_wait != self._may_wait:
            self._may_wait = may_wait
            self._connection.execute(f"PRAGMA busy_timeout={self._timeout if may_wait else 0}")

    def _read(self, job: Job) -> None:
        try:
            job.result = job.work(self._connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for the caller
            job.error = explained(error, self._path)

    def _write(self, jobs: list[Job]) -> None:
        """Write all at once; only if something fails, each in a savepoint of its own."""
        if self.failure is not None:
            self._fail(jobs, self.failure)
            return
        try:
            self._run_together(jobs)
        except Exception as error:  # noqa: BLE001 - it is for the callers
            self._undo()
            cause = explained(error, self._path)
            if len(jobs) == 1 or isinstance(cause, StorageError):
                self._fail(jobs, cause)
            else:
                self._run_in_savepoints(jobs)

    def _run_together(self, jobs: list[Job]) -> None:
        connection = self._connection
        connection.execute(SQL["begin"])
        checked: Fence | None = None
        for job in jobs:
            if job.fence is None:
                checked = None  # it may have claimed a lease
            elif job.fence is not checked:
                self._check(job.fence)
                checked = job.fence
            job.result = job.work(connection)
        connection.execute(SQL["commit"])
        self._after_commit()

    def _run_in_savepoints(self, jobs: list[Job]) -> None:
        try:
            self._connection.execute(SQL["begin"])
            for job in jobs:
                if self.failure is None:
                    self._run_in_savepoint(job)
                else:
                    job.error = self.failure
            self._connection.execute(SQL["commit"])
        except Exception as error:  # noqa: BLE001 - it is for the callers
            self._undo()
            self._fail(jobs, explained(error, self._path))
        else:
            self._after_commit()

    def _run_in_savepoint(self, job: Job) -> None:
        connection = self._connection
        connection.execute(SQL["savepoint"])
        try:
            if job.fence is not None:
                self._check(job.fence)
            job.result = job.work(connection)
        except Exception as error:
            cause = explained(error, self._path)
            if isinstance(cause, StorageError):
                raise  # not specific to this job
            connection.execute(SQL["rollback_to"])
            self._refuse(job, cause)
        connection.execute(SQL["release"])

    def _check(self, fence: Fence) -> None:
        if not select(self._connection, "holds_lease", fence.task_id, fence.token):
            raise LeaseLost(fence.task_id, fence.token)

    def _after_commit(self) -> None:
        try:
            self._committed(self._connection)
        except Exception as error:  # noqa: BLE001 - what was committed must not be written again
            # It stands; the next commit would not be safe.
            self.failure = explained(error, self._path)

    def _undo(self) -> None:
        # On a full disk SQLite rolls back by itself, and a second rollback would hide the cause.
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute(SQL["rollback"])

    def _fail(self, jobs: list[Job], cause: Exception) -> None:
        for job in jobs:
            if job.error is None:
                self._refuse(job, cause)

    def _refuse(self, job: Job, cause: Exception) -> None:
        job.error = cause
        if self.failure is None and (job.future is None or stops_writing(cause)):
            self.failure = cause


class Writes:
    """Applies writes; tracks the last `opened` number of each task.

    It is read from the database once per fencing token: as long as the token is valid, nobody
    else opens steps of the task.
    """

    def __init__(self) -> None:
        self._events_appended = False
        self._run, self._token = "", 0
        self._opened: dict[str, tuple[int, int]] = {}
        self._apply: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
            **dict.fromkeys(_UPDATES, _update),
            **dict.fromkeys(PLAIN, _run_plain),
            journal.AppendEvent: self._append_event,
            journal.AppendMessage: _append_message,
            journal.AppendAudit: _append_audit,
            journal.OpenStep: self._open_step,
            journal.OpenTurn: self._open_turn,
            journal.SpendTurn: _update_turn,
            journal.CloseTurn: _update_turn,
            journal.PutTicket: _put_ticket,
        }

    def after_events(self, keep: Work[None]) -> Work[None]:
        """Return work to do after commits, which runs `keep` if events were appended."""

        def keep_if_appended(connection: sqlite3.Connection) -> None:
            if self._events_appended:
                self._events_appended = False
                keep(connection)

        return keep_if_appended

    def apply(
        self, fence: Fence | None, writes: Sequence[Write], connection: sqlite3.Connection
    ) -> None:
        """Apply all writes in order; raises at the first that is refused."""
        self._run, self._token = ("", 0) if fence is None else (fence.task_id, fence.token)
        is_done = False
        for write, then in zip_longest(writes, writes[1:]):
            if is_done:
                is_done = False
            elif self._merged(connection, write, then):
                is_done = True  # the next write, too
            else:
                self._apply[type(write)](connection, write)

    def _merged(self, connection: sqlite3.Connection, write: Write, then: Write | None) -> bool:
        """Write both as one row if a step begins or ends with its first attempt; whether it did."""
        if isinstance(write, journal.OpenStep):
            if not isinstance(then, journal.OpenTurn) or then[:3] != (*write.step[:2], 1):
                return False
            row = (*write.step, *then[3:], self._next_opened(connection, then.task_id))
            _insert(
                connection, "open_step_with_turn", row, f"step {then.step!r} is already recorded"
            )
            return True
        if not isinstance(write, journal.CloseTurn) or not isinstance(then, journal.CloseStep):
            return False
        if write[:3] != (*then[:2], 1):
            return False
        name, ended = "close_turn_with_step", write[3:]
        if write.outcome == "completed" and write.detail is None:
            name, ended = "complete_turn_with_step", (*write[3:5], *write[6:])
        row = (then.result, *ended, *then[:2])
        return execute(connection, SQL[name], row).rowcount == 1

    def _append_event(self, connection: sqlite3.Connection, write: journal.AppendEvent) -> None:
        self._events_appended = True
        _append_event(connection, write)
        if isinstance(write.event, TaskCreated) and write.event.task_id == self._run:
            self._opened[self._run] = (self._token, 0)
        if write.incident is not None:
            queued = (write.incident, write.event.task_id, write.event.at)
            connection.execute(SQL["queue_notification"], queued)

    def _open_step(self, connection: sqlite3.Connection, write: journal.OpenStep) -> None:
        row = (*write.step, self._next_opened(connection, write.step.task_id))
        _insert(connection, "open_step", row, f"step {write.step.name!r} is already recorded")

    def _open_turn(self, connection: sqlite3.Connection, write: journal.OpenTurn) -> None:
        row = (*write, self._next_opened(connection, write.task_id), *write[:3])
        what = f"attempt {write.attempt} of {write.step!r}"
        _insert(connection, "open_turn", row, f"{what} is already recorded")

    def _next_opened(self, connection: sqlite3.Connection, task_id: str) -> int:
        task_id = self._run or task_id  # the turns of a session share one order
        token, last = self._opened.get(task_id, (0, 0))
        if token == 0 or token != self._token:
            last = select(connection, "last_opened", *[task_id] * 4)[0][0]
        self._opened[task_id] = (self._token, last + 1)
        return last + 1


def _insert(connection: sqlite3.Connection, name: str, row: Sequence[Value], problem: str) -> None:
    try:
        done = execute(connection, SQL[name], row).rowcount == 1
    except sqlite3.IntegrityError:
        done = False
    if not done:
        raise IllegalWrite(f"{row[0]}: {problem}")


def _update_turn(connection: sqlite3.Connection, write: Any) -> None:
    statement, fields, _ = _FIRST_TURN[type(write)]
    if write.attempt != 1 or execute(connection, statement, fields(write)).rowcount != 1:
        _update(connection, write)


def _update(connection: sqlite3.Connection, write: Write) -> None:
    statement, fields, problem = _UPDATES[type(write)]
    if execute(connection, statement, fields(write)).rowcount != 1:
        raise IllegalWrite(problem_of(problem, write))


def _append_message(connection: sqlite3.Connection, write: journal.AppendMessage) -> None:
    message = write.message
    name = "insert_message" if message.text else "insert_silent_message"
    row = (message.task_id, message.seq, *codec.MESSAGE.row(message))
    _insert(connection, name, row, f"message {message.seq} does not follow the last one")


def _append_audit(connection: sqlite3.Connection, write: journal.AppendAudit) -> None:
    rows = select(connection, "last_audit")
    last, previous = rows[0] if rows else (0, b"")
    # Repair before hashing: the hash must cover the stored text.
    row = codec.repair_row((last + 1, *codec.AUDIT.row(write.entry)))
    connection.execute(SQL["insert_audit"], (*row, codec.chained(previous, row)))


def _run_plain(connection: sqlite3.Connection, write: Write) -> None:
    for name, *row in PLAIN[type(write)](write):
        execute(connection, SQL[name], row)


def _put_ticket(connection: sqlite3.Connection, write: journal.PutTicket) -> None:
    name, row, problem = put_ticket(write)
    if execute(connection, SQL[name], row).rowcount != 1:
        raise IllegalWrite(problem)
    last = select(connection, "last_moment", write.session_id, write.ticket.id)[0][0]
    for line in moments(write, last):
        execute(connection, SQL["insert_moment"], line)


# -- events: numbered, chained, and folded into tasks and questions at once ---------------------


def _append_event(connection: sqlite3.Connection, write: journal.AppendEvent) -> None:
    """Append an event and update the projections; raises IllegalEvent if it cannot follow."""
    event = write.event
    before = _before(connection, event.task_id)
    status, _ = task.transition(before, event)
    rows: list[tuple[int, bytes]] = select(connection, "last_event")
    last, previous = rows[0] if rows else (0, b"")
    sequence = last + 1
    row = (sequence, event.task_id, event.type, event.at, codec.event_text(event))
    connection.execute(SQL["insert_event"], (*row, codec.chained(previous, row)))
    if isinstance(event, TaskCreated):
        execute(connection, SQL["insert_task"], (*codec.task_row(event), sequence))
        return
    if isinstance(event, task.UserInteractionRequested):
        question_id = event.interaction.interaction_id
        row = (question_id, event.task_id, write.step or "", sequence, write.once)
        if execute(connection, SQL["insert_question"], row).rowcount != 1:
            raise IllegalWrite(f"{event.task_id}: question {question_id} has already been asked")
    elif isinstance(event, task.UserInteractionResponded):
        row = (codec.question_state(event), sequence, event.response.interaction_id)
        connection.execute(SQL["respond_question"], row)
    elif status in task.ENDED and before is not None and before[1]:
        connection.execute(SQL["close_questions"], (event.task_id,))
    reason: str = getattr(event, "reason", "")
    connection.execute(SQL["update_task"], (status, reason, event.at, event.task_id))


def _before(
    connection: sqlite3.Connection, task_id: str
) -> tuple[task.Status, frozenset[str]] | None:
    """Return a task's status and open questions; None if there is no such task."""
    rows: list[tuple[task.Status]] = select(connection, "task_status", task_id)
    if not rows:
        return None
    return rows[0][0], frozenset(row[0] for row in select(connection, "open_questions", task_id))
