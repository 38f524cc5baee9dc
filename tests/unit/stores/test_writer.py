"""Passing work to the writer's thread and results back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from coterie.errors import StorageDamaged
from coterie.model.conversation import Message
from coterie.model.interaction import Display
from coterie.model.journal import AppendAudit, AppendEvent, AppendMessage, Fence
from coterie.model.task import UserInteractionRequested
from coterie.model.tool_call import AuditEntry
from coterie.stores.sqlite import SqliteStorage, database, writer
from coterie.stores.sqlite.database import open_database
from coterie.testing.contracts.samples import (
    TASK,
    at,
    closing,
    created,
    interaction,
    message,
    opening,
    started,
)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that reaches the database."""
    said: list[str] = []

    def traced(path: Path, timeout: float) -> sqlite3.Connection:
        connection = open_database(path, timeout)
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(database, "open_database", traced)
    return said


@pytest.fixture
async def storage(statements: list[str], tmp_path: Path) -> AsyncGenerator[SqliteStorage]:
    storage = await SqliteStorage.open(tmp_path / "coterie.db")
    yield storage
    await storage.close()


@pytest.fixture
async def fence(storage: SqliteStorage) -> Fence:
    fence = await storage.create(created(), "me", None)
    assert fence is not None
    await storage.commit(fence, started())
    return fence


async def test_a_turns_close_and_the_next_open_are_one_commit(
    storage: SqliteStorage, fence: Fence, statements: list[str]
) -> None:
    statements.clear()
    for seq in range(1, 11):
        await storage.commit(fence, *opening(f"round/{seq}/turn/ann"))
        storage.post(fence, *closing(f"round/{seq}/turn/ann", seq))
    assert statements.count("COMMIT") == 10


async def test_the_log_is_cut_when_nothing_happens(
    storage: SqliteStorage, fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "IDLE", 1000.0)
    log = anyio.Path(tmp_path / "coterie.db-wal")
    await storage.commit(fence, AppendMessage(message(1)))
    assert (await log.stat()).st_size > 0
    monkeypatch.setattr(writer, "IDLE", 0.05)
    await storage.conversation.messages(TASK)  # from here on the thread uses the new timeout
    with anyio.fail_after(30):
        while (await log.stat()).st_size > 0:  # noqa: ASYNC110 - a file tells nobody
            await anyio.sleep(0.02)
    await storage.commit(fence, AppendMessage(message(2)))


async def test_others_are_looked_for_only_while_somebody_waits(
    storage: SqliteStorage, fence: Fence, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, begun = await storage.changed(0), time.monotonic()
    with anyio.fail_after(30):
        while statements.count("PRAGMA data_version") < 3:
            with anyio.move_on_after(writer.POLL):
                await storage.changed(seen)
    looks = statements.count("PRAGMA data_version")
    assert looks <= 2 + (time.monotonic() - begun) / (writer.POLL * 0.9)
    await anyio.sleep(2 * writer.POLL)
    looks = statements.count("PRAGMA data_version")
    await anyio.sleep(4 * writer.POLL)
    assert statements.count("PRAGMA data_version") <= looks + 1


async def test_a_cancelled_commit_is_kept_and_hurts_nobody(
    storage: SqliteStorage, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOP_SLICE", -1.0)  # every commit yields to the loop
    with anyio.CancelScope() as scope:
        scope.cancel()
        await storage.commit(fence, AppendMessage(message(1)))
    assert scope.cancelled_caught
    await storage.commit(fence, AppendMessage(message(2)))
    assert len(await storage.conversation.messages(TASK)) == 2


async def test_who_waits_for_a_change_has_its_turn_with_the_commit_that_makes_it(
    storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the loop may wait before it yields to others."""
    monkeypatch.setattr(writer, "LOOP_SLICE", 600.0)
    seen, woken = await storage.changed(0), anyio.Event()

    async def wait() -> None:
        await storage.changed(seen)
        woken.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.lowlevel.checkpoint()
        await storage.inbox.request(TASK, "say", "you", "hello")
        assert woken.is_set()


async def test_a_cancelled_close_closes(tmp_path: Path) -> None:
    storage = await SqliteStorage.open(tmp_path / "coterie.db")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await storage.close()
    assert [file.name for file in tmp_path.glob("coterie.db*")] == ["coterie.db"]


async def test_a_cancelled_opening_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.enumerate()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await SqliteStorage.open(tmp_path / "coterie.db")
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(60)
            assert not thread.is_alive()


async def test_a_callback_that_raises_is_reported_and_hurts_nobody(
    storage: SqliteStorage, fence: Fence
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    told: list[str] = []

    def wrong() -> None:
        raise ZeroDivisionError

    storage.post(fence, AppendMessage(message(1)), after=wrong)
    await storage.commit(fence, AppendMessage(message(2)), after=lambda: told.append("second"))
    assert told == ["second"]
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError]


async def test_halves_of_characters_are_kept_mended(storage: SqliteStorage, fence: Fence) -> None:
    half = "half \ud83d"
    await storage.commit(fence, AppendMessage(Message(TASK, 1, "ann", half, at(1))))
    entry = AuditEntry("ToolCallRequested", "c", half, "ann", TASK, at(1), input={half: [half]})
    await storage.commit(fence, AppendAudit(entry))
    asked = interaction("q1").model_copy(update={"display": Display(title=half)})
    request = UserInteractionRequested(task_id=TASK, at=at(2), interaction=asked)
    await storage.commit(fence, AppendEvent(request))
    await storage.inbox.request(TASK, "say", half, half)
    [found] = await storage.conversation.messages(TASK)
    assert found.text == "half \ufffd"
    [audited] = await storage.audit.of_task(TASK)
    assert audited.input == {"half \ufffd": ["half \ufffd"]}
    [question] = await storage.inbox.questions()
    assert question.interaction.display.title == "half \ufffd"
    [word] = await storage.inbox.requests(TASK)
    assert word.text == "half \ufffd"
    assert await storage.problems() == []


async def _batches_that_the_thread_takes_at_once(storage: SqliteStorage, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(storage.inbox.request(TASK, "say", "you", "wait"))
    await anyio.lowlevel.checkpoint()
    reads = [asyncio.ensure_future(storage.conversation.messages(TASK)) for _ in range(3)]
    await anyio.lowlevel.checkpoint()
    other.execute("COMMIT")
    other.close()
    await asyncio.gather(waiting, *reads)


@pytest.mark.parametrize(("quick", "thread"), [(60.0, "MainThread"), (-1.0, "coterie-database")])
async def test_the_loop_commits_by_itself_where_the_disk_is_quick(
    quick: float, thread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed_by: list[str] = []

    def traced(path: Path, timeout: float) -> sqlite3.Connection:
        def trace(statement: str) -> None:
            if statement == "COMMIT":
                committed_by.append(threading.current_thread().name)

        connection = open_database(path, timeout)
        connection.set_trace_callback(trace)
        return connection

    monkeypatch.setattr(database, "open_database", traced)
    monkeypatch.setattr(writer, "QUICK", quick)
    storage = await SqliteStorage.open(tmp_path / "coterie.db")
    try:
        await storage.create(created(), "me", None)  # the disk's speed is still unknown
        await _batches_that_the_thread_takes_at_once(storage, tmp_path / "coterie.db")
        committed_by.clear()
        for seq in range(1, 4):
            await storage.commit(None, AppendMessage(message(seq)))
    finally:
        await storage.close()
    assert committed_by == [thread] * 3


async def test_the_loop_goes_on_while_somebody_else_holds_the_database(
    storage: SqliteStorage, fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK", 60.0)
    await storage.commit(fence, AppendMessage(message(1)))
    other = sqlite3.connect(tmp_path / "coterie.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    storage.post(fence, AppendMessage(message(2)))
    commit = asyncio.ensure_future(storage.commit(fence, AppendMessage(message(3))))
    for _ in range(20):
        await anyio.lowlevel.checkpoint()
    assert not commit.done()
    other.execute("COMMIT")
    other.close()
    await commit
    assert [m.seq for m in await storage.conversation.messages(TASK)] == [1, 2, 3]


async def test_closing_ends_the_thread_and_its_pipe(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    await (await SqliteStorage.open(tmp_path / "coterie.db")).close()
    (tmp_path / "empty.db").touch()
    before = descriptors()
    for _ in range(5):
        await (await SqliteStorage.open(tmp_path / "coterie.db")).close()
        with pytest.raises(StorageDamaged):
            await SqliteStorage.open(tmp_path / "empty.db")
    assert descriptors() == before
