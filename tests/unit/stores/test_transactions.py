"""Batches: how one job affects the others in its batch and later batches."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.errors import LeaseLost, StorageDamaged, StorageFull, StorageLocked, StorageReadOnly
from coterie.model.journal import Fence, IllegalWrite
from coterie.stores.sqlite.database import open_database
from coterie.stores.sqlite.transactions import Job, Transactions, Work

OURS, STALE = Fence("a", 2), Fence("a", 1)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "coterie.db", 0.05)
    connection.execute("INSERT INTO leases VALUES ('a', 'me', 2, 'running')")
    yield connection
    connection.close()


@pytest.fixture
def transactions(connection: sqlite3.Connection, tmp_path: Path) -> Transactions:
    return Transactions(connection, tmp_path / "coterie.db", lambda _: None)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def count(name: str) -> Work[str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO counters VALUES (?, 1)", (name,))
        return name

    return work


def raising(error: Exception) -> Work[None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO counters VALUES ('half', 1)")
        raise error

    return work


def counted(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM counters")} - {
        "question",
        "reservation",
    }


def trouble(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("trouble")
    error.sqlite_errorcode = code
    return error


def test_a_batch_is_one_transaction(
    transactions: Transactions, connection: sqlite3.Connection
) -> None:
    said: list[str] = []
    connection.set_trace_callback(said.append)
    assert transactions.serve([Job(count("x"), OURS), Job(count("y"), OURS), Job(count("z"))])
    connection.set_trace_callback(None)
    assert [each.partition(" ")[0] for each in said] == [
        "BEGIN", "SELECT", "INSERT", "INSERT", "INSERT", "COMMIT",
    ]  # fmt: skip


def test_only_reads_are_no_transaction(
    transactions: Transactions, connection: sqlite3.Connection
) -> None:
    job = Job(counted, reads=True)
    assert not transactions.serve([job])
    assert job.result == set()


def test_one_failure_undoes_nothing_else(
    transactions: Transactions, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop
) -> None:
    wrong = Job(raising(IllegalWrite("no")), OURS, loop.create_future())
    before, later, after = Job(count("x"), OURS), Job(count("y"), OURS), Job(counted, reads=True)
    transactions.serve([before, wrong, later, after])
    assert [job.error for job in (before, later, after)] == [None, None, None]
    assert isinstance(wrong.error, IllegalWrite)
    assert after.result == {"x", "y"}
    assert transactions.failure is None


def test_after_a_posted_failure_the_rest_is_refused(
    transactions: Transactions, connection: sqlite3.Connection
) -> None:
    before, wrong, later = Job(count("x")), Job(raising(IllegalWrite("no"))), Job(count("y"))
    transactions.serve([before, wrong, later])
    assert (before.error, later.error) == (None, wrong.error)
    assert transactions.failure is wrong.error
    much_later, read = Job(count("z")), Job(counted, reads=True)
    transactions.serve([much_later, read])
    assert much_later.error is wrong.error
    assert read.result == {"x"}


def test_a_stale_fence_ends_it_but_not_its_neighbours_before(
    transactions: Transactions, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop
) -> None:
    before, stale = Job(count("x"), OURS), Job(count("y"), STALE, loop.create_future())
    later = Job(count("z"), OURS, loop.create_future())
    transactions.serve([before, stale, later])
    assert isinstance(stale.error, LeaseLost)
    assert later.error is stale.error
    assert counted(connection) == {"x"}


def test_a_claim_inside_the_batch_counts(
    transactions: Transactions, connection: sqlite3.Connection, loop: asyncio.AbstractEventLoop
) -> None:
    def claim(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE leases SET token = 3")

    stale = Job(count("y"), OURS, loop.create_future())
    transactions.serve([Job(count("x"), OURS), Job(claim), stale])
    assert isinstance(stale.error, LeaseLost)
    assert counted(connection) == {"x"}


def test_a_full_disk_fails_the_whole_batch_and_all_that_follows(
    transactions: Transactions,
    connection: sqlite3.Connection,
    loop: asyncio.AbstractEventLoop,
) -> None:
    def much(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO counters VALUES (?, 1)", ("x" * 100_000,))

    [(pages,)] = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count={pages}")
    jobs = [Job(count("x")), Job(much, None, loop.create_future()), Job(count("y"))]
    assert not transactions.serve_at_once(jobs)
    assert {job.error for job in jobs} == {None}
    transactions.serve(jobs)
    assert {type(job.error) for job in jobs} == {StorageFull}
    assert not connection.in_transaction
    connection.execute("PRAGMA max_page_count=1000000")
    refused = Job(count("z"), None, loop.create_future())
    transactions.serve([refused])
    assert isinstance(refused.error, StorageFull)
    assert counted(connection) == set()


@pytest.mark.parametrize(
    ("code", "kind", "ends"),
    [
        (sqlite3.SQLITE_IOERR, Exception, True),
        (sqlite3.SQLITE_CORRUPT, StorageDamaged, True),
        (sqlite3.SQLITE_READONLY, StorageReadOnly, True),
        (sqlite3.SQLITE_BUSY, StorageLocked, False),
    ],
)
def test_what_an_awaited_failure_means_for_what_follows(
    transactions: Transactions,
    connection: sqlite3.Connection,
    loop: asyncio.AbstractEventLoop,
    code: int,
    kind: type[Exception],
    ends: bool,
) -> None:
    failed = Job(raising(trouble(code)), None, loop.create_future())
    transactions.serve([failed])
    assert isinstance(failed.error, kind)
    assert (transactions.failure is not None) == ends
    assert counted(connection) == set()


def test_a_head_that_cannot_be_written_spares_what_is_committed(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise OSError(28, "no room")

    transactions = Transactions(connection, tmp_path / "coterie.db", fail)
    job = Job(count("x"))
    transactions.serve([job])
    assert job.error is None
    assert counted(connection) == {"x"}
    assert isinstance(transactions.failure, StorageFull)
