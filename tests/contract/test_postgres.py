"""What is specific to PostgreSQL: its schema, lost connections, notifications, and refusals."""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from coterie.errors import LeaseLost, StorageDamaged, StorageError, StorageReadOnly, UsageError
from coterie.model import journal
from coterie.model.journal import Fence, Turn
from coterie.model.lease_clock import LeaseTimes
from coterie.stores.codec import Head
from coterie.stores.postgres import PostgresStorage, schema, sql_text, writer
from coterie.stores.postgres.known_head import KnownHead
from coterie.stores.postgres.schema import StoreProject
from coterie.stores.postgres.store_url import StoreUrl
from coterie.stores.sqlite import SqliteStorage
from coterie.stores.sqlite import schema as sqlite_schema
from coterie.testing.contracts.samples import TASK, answered, asked, created, message, started
from coterie.testing.postgres import Databases

sys.path.insert(0, str(Path(__file__).parent))
import anyio.lowlevel
from cutting_proxy import Cut, CuttingProxy

TIMEOUT = 20.0
PACKAGE = Path(schema.__file__).parent
SOURCE = "\n".join(
    file.read_text() for folder in (PACKAGE, PACKAGE.parent) for file in folder.glob("*.py")
)


@pytest.fixture
def url(postgres: Databases) -> Iterator[str]:
    """A database with the schema."""
    name = f"test_{secrets.token_hex(8)}"
    yield postgres.create(name, postgres.prepare("stores", schema.init))
    postgres.drop(name)


@pytest.fixture
async def storage(url: str) -> AsyncGenerator[PostgresStorage]:
    storage = await PostgresStorage.open(url, connect_timeout=30)
    yield storage
    await storage.close()


@pytest.fixture
async def fence(storage: PostgresStorage) -> Fence:
    return await _begun(storage)


async def _begun(storage: PostgresStorage) -> Fence:
    fence = await storage.create(created(), "me", None)
    assert fence is not None
    await storage.commit(fence, started())
    return fence


@pytest.fixture
def proxy(url: str, tmp_path: Path) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(url, tmp_path)
    with proxy.running():
        yield proxy


def execute(url: str, *statements: str) -> None:
    """Execute statements as another client with the necessary rights."""
    with StoreUrl.of(url).connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())


# -- the schema ----------------------------------------------------------------------------------


ONLY_SQLITE = {
    "messages": {"sequence", "run"},
    "steps": {field.name for field in fields(Turn)} - {"task_id", "step", "attempt"},
    "attempts": None,
    "told": None,
    "timeline_end": None,
}
"""What SQLite's views `turns` and `timeline` are made of; in PostgreSQL they are tables."""


async def test_both_databases_have_the_same_columns(url: str, tmp_path: Path) -> None:
    theirs: dict[str, set[str]] = {}
    with StoreUrl.of(url).connect() as connection:
        query = "SELECT table_name, column_name FROM information_schema.columns"
        for table, column in connection.execute(f"{query} WHERE table_schema = 'coterie'"):
            theirs.setdefault(table, set()).add(column)
    await (await SqliteStorage.open(tmp_path / "coterie.db")).close()
    file = sqlite3.connect(tmp_path / "coterie.db")
    kinds = (
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 's%\\_'"
    )
    for (table,) in file.execute(kinds).fetchall():
        if not table.startswith("sqlite_"):
            rows = file.execute(f"PRAGMA table_xinfo({table})").fetchall()
            own = ONLY_SQLITE.get(table, set[str]())
            if own is not None:
                assert {row[1] for row in rows} == theirs[table] | own, table
    file.close()


def test_both_databases_have_migrations_of_the_same_numbers() -> None:
    ours = [number for number, _ in sqlite_schema.migrations()]
    assert [number for number, _ in schema.migrations()] == ours[9:], "the first ten are one here"


def test_every_statement_is_sound_and_used(url: str) -> None:
    with StoreUrl.of(url).connect() as connection:
        for name, text in sql_text.SQL.items():
            assert name.startswith("all_") or f'"{name}"' in SOURCE, name
            if name != "answer":
                nothing = re.sub(r"\?|(?<!:):\w+", "NULL", text)
                connection.execute(f"EXPLAIN {nothing}".encode())


REFUSED = [
    ("DROP SCHEMA coterie CASCADE", "has no Coterie store", "coterie store init"),
    ("DROP TABLE schema_version", "is not Coterie's", "Use another database"),
    (
        "DELETE FROM schema_version WHERE number > 10",
        "by an older Coterie (10",
        "coterie store upgrade",
    ),
    (
        "INSERT INTO schema_version (number) VALUES (99)",
        "a newer Coterie (99",
        "pip install --upgrade",
    ),
]


@pytest.mark.parametrize(("change", "problem", "advice"), REFUSED)
async def test_a_schema_that_is_not_ours_is_refused_with_what_to_type(
    url: str, change: str, problem: str, advice: str
) -> None:
    execute(url, change)
    with pytest.raises(StorageError) as told:
        await PostgresStorage.open(url)
    assert problem in str(told.value)
    assert (told.value.advice or "").startswith(advice)


def test_the_schema_is_made_once_and_upgraded_by_command_alone(database: str) -> None:
    with pytest.raises(StorageError, match="has no Coterie store"):
        schema.upgrade(database)
    assert [schema.init(database), schema.init(database)] == [True, False]
    latest = schema.latest()
    assert schema.check(database) == LeaseTimes.ttl
    assert schema.upgrade(database) == (latest, latest)


def test_nobody_who_has_no_such_store_imports_its_packages() -> None:
    program = "import sys, coterie.app.project, coterie.cli.main; print('psycopg' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ran.stdout == b"False\n"


# -- URLs ----------------------------------------------------------------------------------------

URLS = [
    ("postgresql://ann:secret@db.example/x?sslmode=prefer", "without encryption"),
    ("mysql://ann:secret@db/x", "is not the URL of a PostgreSQL database"),
    ("postgresql://ann:secret@db/x?nonsense=1", "is not a valid database URL"),
]


@pytest.mark.parametrize(("url", "problem"), URLS)
def test_a_url_that_will_not_do_is_refused_and_no_password_is_shown(url: str, problem: str) -> None:
    with pytest.raises(UsageError) as told:
        StoreUrl.of(url)
    assert problem in str(told.value)
    assert "secret" not in f"{told.value} {told.value.advice}"


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://ann@db.example/x", "require"),
        ("postgresql://ann@db.example/x?sslmode=disable", "disable"),
        ("postgresql://ann@db.example/x?sslmode=verify-full", "verify-full"),
        ("postgresql://ann@localhost/x", None),
        ("postgresql:///x?host=/run/postgresql", None),
    ],
)
def test_to_another_host_it_is_encrypted_unless_the_url_says_otherwise(
    url: str, mode: str | None
) -> None:
    given = conninfo_to_dict(StoreUrl.of(url).conninfo)
    assert given.get("sslmode") == mode


async def test_a_missing_database_is_reported_in_one_sentence(postgres: Databases) -> None:
    with pytest.raises(StorageError, match="There is no database nowhere") as told:
        await PostgresStorage.open(postgres.url("nowhere"))
    assert "\n" not in str(told.value)


async def test_a_pooler_between_is_refused(proxy: CuttingProxy) -> None:
    proxy.shift = 1
    with pytest.raises(StorageError, match="PgBouncer"):
        await PostgresStorage.open(proxy.url)


def test_a_database_that_cannot_hold_every_text_is_refused(database: str) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(database.replace(name, "postgres"), autocommit=True) as server:
        server.execute(f"DROP DATABASE {name}".encode())
        made = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'"
        server.execute(made.encode())
    with pytest.raises(StorageError, match="encoded as LATIN1"):
        schema.init(database)


def test_a_commit_is_on_disk_whatever_the_servers_default_is(url: str) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    execute(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    with schema.opened(StoreUrl.of(url), "writer", is_new=True).connection as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


# -- texts and chains ------------------------------------------------------------------------------


async def test_hostile_texts_come_back_as_they_were(storage: PostgresStorage, fence: Fence) -> None:
    some = random.Random(7)
    odd = [
        "\0",
        "\ue000",
        "\ue0000",
        "\\",
        "'",
        '"',
        "?",
        ":a",
        "%s",
        "$1",
        "$$",
        ";",
        "--",
        "\U0001f600",
    ]
    texts = ["".join(some.choices(odd, k=some.randrange(1, 12))) for _ in range(500)]
    said = [message(place)._replace(text=text) for place, text in enumerate(texts, 1)]
    await storage.commit(fence, *map(journal.AppendMessage, said))
    assert await storage.conversation.messages(TASK) == said


async def test_a_chain_that_was_tampered_with_is_reported(
    url: str, storage: PostgresStorage, fence: Fence
) -> None:
    with pytest.raises(psycopg.Error, match="never changed"):
        execute(url, "DELETE FROM events")
    assert await storage.problems() == []
    change = "UPDATE events SET at = '2020' WHERE sequence = 2"
    execute(url, "ALTER TABLE events DISABLE TRIGGER ALL", change)
    assert await storage.problems() == ["events: row 2 differs from what was written"]


async def test_a_database_that_may_not_be_written_is_reported(
    url: str, storage: PostgresStorage, fence: Fence
) -> None:
    name = url.partition("?")[0].rpartition("/")[2]
    execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StorageReadOnly):
        await PostgresStorage.open(url)


async def test_a_stored_value_that_cannot_be_read_is_reported(
    storage: PostgresStorage, url: str
) -> None:
    execute(url, "INSERT INTO envelopes (session_id, sequence, body) VALUES ('s', 1, '{}')")
    with pytest.raises(StorageDamaged, match="this version of Coterie cannot read"):
        await storage.tickets.envelopes("s")


# -- lost connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_whose_answer_was_lost_is_kept_once(proxy: CuttingProxy, cut: Cut) -> None:
    storage = await PostgresStorage.open(proxy.url, connect_timeout=30)
    fence = await _begun(storage)
    for number in range(1, 6):
        proxy.next_cut = cut
        await storage.commit(fence, journal.AppendMessage(message(number)))
        proxy.next_cut = cut
        assert await storage.inbox.allocate() == f"q{number}", "its answer is known as well"
    assert proxy.cuts == 10
    assert [one.seq for one in await storage.conversation.messages(TASK)] == [1, 2, 3, 4, 5]
    assert await storage.problems() == []
    proxy.next_cut = cut
    await storage.close()


async def test_a_commit_that_is_still_under_way_where_it_was_cut_off_is_kept_once(
    url: str, proxy: CuttingProxy
) -> None:
    storage = await PostgresStorage.open(proxy.url, connect_timeout=30)
    fence = await _begun(storage)
    with StoreUrl.of(url).connect() as holder:
        holder.execute("SELECT FROM head FOR UPDATE")
        async with anyio.create_task_group() as group:
            first = journal.AppendMessage(message(1))
            group.start_soon(partial(storage.commit, fence, first))
            await _until_waiting(url, 1)
            proxy.cut_all()
            group.start_soon(partial(storage.commit, fence, journal.AppendMessage(message(2))))
            await _until_waiting(url, 2)
            holder.rollback()
    assert [one.seq for one in await storage.conversation.messages(TASK)] == [1, 2]
    await storage.close()


async def _until_waiting(url: str, number: int) -> None:
    """Wait until this many server processes are waiting for a lock."""
    query = """SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND datname = current_database()"""

    def look() -> None:
        with StoreUrl.of(url).connect(autocommit=True) as connection:
            for _ in range(1000):
                found = connection.execute(query).fetchone()
                if found is not None and found[0] == number:
                    return
        raise AssertionError("nobody waits")

    await anyio.to_thread.run_sync(look)


async def test_a_connection_that_comes_when_the_storage_is_closed_is_closed_too(
    proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await PostgresStorage.open(proxy.url, connect_timeout=30)
    made, is_made, may_come = (
        list[schema.PreparedConnection](),
        threading.Event(),
        threading.Event(),
    )
    open_session = schema.opened

    def opened(*given: Any, **more: Any) -> schema.PreparedConnection:
        made.append(open_session(*given, **more))
        is_made.set()
        may_come.wait(TIMEOUT)
        return made[0]

    monkeypatch.setattr(schema, "opened", opened)
    proxy.cut_all()
    await anyio.to_thread.run_sync(is_made.wait, TIMEOUT)
    await storage.close()
    may_come.set()
    with anyio.fail_after(TIMEOUT):
        while not made[0].connection.closed:
            await anyio.lowlevel.checkpoint()


async def test_a_connection_whose_opening_is_cancelled_as_it_comes_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = list[schema.PreparedConnection]()
    deliver = writer._unless_done

    def cancelling(opened: Any, call: Any, given: Any) -> None:
        came.append(given)
        deliver(opened, call, given)
        opening.cancel()

    monkeypatch.setattr(writer, "_unless_done", cancelling)
    opening = asyncio.ensure_future(PostgresStorage.open(url))
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert came[0].connection.closed


async def test_who_waits_looks_again_after_a_connection_was_lost(
    proxy: CuttingProxy, url: str
) -> None:
    storage, other = (
        await PostgresStorage.open(proxy.url, connect_timeout=30),
        await PostgresStorage.open(url),
    )
    fence = await _begun(storage)
    await storage.commit(fence, asked("q1"))
    seen = await storage.changed(0)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(storage.changed, seen)
            await anyio.lowlevel.checkpoint()
            proxy.cut_all()
            assert await other.inbox.respond(answered("q1"))
    assert await storage.inbox.questions() == []
    await storage.close()
    await other.close()


async def test_what_was_asked_for_before_the_end_is_answered_and_nothing_waits(url: str) -> None:
    storage = await PostgresStorage.open(url)
    async with anyio.create_task_group() as group:
        for _ in range(3):  # the first is under way as the others are queued
            group.start_soon(storage.inbox.allocate)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    closing = asyncio.create_task(storage.close())
    done, _ = await asyncio.wait([closing], timeout=TIMEOUT)  # which cannot be cancelled
    assert done == {closing}


async def test_a_notification_during_a_commit_is_received(
    url: str, storage: PostgresStorage, fence: Fence
) -> None:
    other = await PostgresStorage.open(url)
    seen = await storage.changed(0)
    with StoreUrl.of(url).connect() as holder:
        holder.execute("SELECT FROM head FOR UPDATE")
        async with anyio.create_task_group() as group:
            first = journal.AppendMessage(message(1))
            group.start_soon(partial(storage.commit, fence, first))
            await _until_waiting(url, 1)
            await other.inbox.request(TASK, "say", "max", "hello")
            holder.rollback()
    with anyio.fail_after(30):
        await storage.changed(seen)
    await other.close()


async def test_a_database_that_stays_away_ends_everything(url: str, tmp_path: Path) -> None:
    proxy = CuttingProxy(url, tmp_path)
    with proxy.running():
        storage = await PostgresStorage.open(proxy.url, connect_timeout=1)
        fence = await _begun(storage)
    for _ in range(2):
        with pytest.raises(StorageError, match="PostgreSQL does not answer"):
            await storage.commit(fence, journal.AppendMessage(message(1)))
    with pytest.raises(StorageError, match="PostgreSQL does not answer"):
        await storage.events.tasks()
    await storage.close()


async def test_a_server_that_forgot_commits_is_not_written_to(
    proxy: CuttingProxy, url: str
) -> None:
    storage = await PostgresStorage.open(proxy.url, connect_timeout=30)
    fence = await _begun(storage)
    execute(url, "UPDATE writers SET batch = batch - 1")
    proxy.cut_all()
    with pytest.raises(StorageDamaged, match="History is lost"):
        await storage.commit(fence, journal.AppendMessage(message(1)))
    await storage.close()


class _Finished(ThreadPoolExecutor):
    """An executor whose calls are finished as soon as they are submitted."""

    calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        done = Future[Any]()
        done.set_result(None)
        return done


@pytest.mark.timeout(30)
async def test_waiting_for_a_head_that_has_just_been_written_ends(url: str, tmp_path: Path) -> None:
    known = KnownHead(tmp_path)
    await anyio.to_thread.run_sync(schema.init, url, StoreProject("shop", ""))
    await anyio.to_thread.run_sync(partial(schema.check, url, known=known))
    executor = _Finished()
    asyncio.get_running_loop().set_default_executor(executor)
    known.note(Head(7, "00"))
    await asyncio.sleep(0)  # the write is done, but its callback has not run yet
    await known.written()
    assert executor.calls == 1


# -- fences --------------------------------------------------------------------------------------


async def test_a_claim_waits_for_a_commit_that_is_under_way(
    url: str, storage: PostgresStorage, fence: Fence
) -> None:
    claiming = await PostgresStorage.open(url)
    with StoreUrl.of(url).connect() as under_way:
        under_way.execute("SELECT hold(%s, %s)", [TASK, 1])
        async with anyio.create_task_group() as group:
            group.start_soon(claiming.leases.claim, TASK, "other", 1)
            await _until_waiting(url, 1)
            under_way.commit()
    assert (await claiming.leases.all())[0].token == 2
    with pytest.raises(LeaseLost):
        await storage.commit(fence, journal.AppendMessage(message(1)))
    await claiming.close()
