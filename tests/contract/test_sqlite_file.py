"""Opening a database: created atomically, refused if damaged, never created a second time."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import StorageDamaged, StorageError
from coterie.model.journal import AppendAudit, Fence
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import TASK, closing, created, opening, started
from coterie.testing.contracts.storage_records import ENTRIES

PAGE = 4096


async def write_turns(database: Path, turns: int = 100) -> None:
    """A task with some turns, closed cleanly."""
    storage = await SqliteStorage.open(database)
    fence = await storage.create(created(), "me", None)
    await storage.commit(fence, started())
    for seq in range(1, turns + 1):
        await storage.commit(fence, *opening(f"round/{seq}/turn/ann"))
        storage.post(fence, *closing(f"round/{seq}/turn/ann", seq))
    await storage.close()


async def refusal(database: Path) -> StorageError:
    """Return the error on opening, and check that the refusal changed nothing."""
    before = {file: file.read_bytes() for file in database.parent.glob("coterie.db*")}
    with pytest.raises(StorageError) as caught:
        await SqliteStorage.open(database)
    after = {file: file.read_bytes() for file in database.parent.glob("coterie.db*")}
    assert {file.name: after.get(file) == content for file, content in before.items()} == {
        file.name: True for file in before
    }
    assert str(database) in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "coterie.db"


async def test_a_new_database_leaves_nothing_beside_it(database: Path) -> None:
    storage = await SqliteStorage.open(database)
    await storage.close()
    assert sorted(file.name for file in database.parent.iterdir()) == ["coterie.db", "logs"]
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


async def test_a_folder_whose_name_is_not_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9 %41?#")
    folder.mkdir()
    await write_turns(folder / "coterie.db", 1)
    assert sorted(file.name for file in folder.iterdir()) == ["coterie.db", "logs"]


async def test_a_clean_close_leaves_one_file(database: Path) -> None:
    await write_turns(database)
    assert [file.name for file in database.parent.glob("coterie.db*")] == ["coterie.db"]
    storage = await SqliteStorage.open(database)
    assert await storage.problems() == []
    assert len(await storage.conversation.messages(TASK)) == 100
    assert (await storage.leases.get(TASK)) is not None
    await storage.close()


async def test_what_a_crash_left_of_a_new_database_is_no_hindrance(database: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        database.with_name(f"coterie.db.new{ending}").write_bytes(b"half a database")
    storage = await SqliteStorage.open(database)
    await storage.close()
    assert [file.name for file in database.parent.glob("coterie.db*")] == ["coterie.db"]


async def test_an_empty_file_is_lost_history_not_a_fresh_start(database: Path) -> None:
    database.touch()
    error = await refusal(database)
    assert isinstance(error, StorageDamaged)
    assert "empty" in str(error)
    assert "mv " in str(error.hint)


async def test_a_database_without_tables_is_not_ours(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("VACUUM")
    connection.close()
    assert isinstance(await refusal(database), StorageDamaged)


async def test_no_folder(tmp_path: Path) -> None:
    error = await refusal(tmp_path / "none" / "coterie.db")
    assert error.hint == "coterie init"
    assert list(tmp_path.iterdir()) == []


async def test_a_newer_database_is_refused(database: Path) -> None:
    await write_turns(database, 1)
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    error = await refusal(database)
    assert type(error) is StorageError
    assert "newer" in str(error)
    assert "99" in str(error)


@pytest.mark.parametrize("content", ["zeros", "noise", "text"])
@pytest.mark.parametrize("shift", [0, 1000])
async def test_4_kib_overwritten_in_the_middle(database: Path, content: str, shift: int) -> None:
    await write_turns(database)
    size = database.stat().st_size
    noise = random.Random(shift).randbytes(PAGE)
    put = {"zeros": bytes(PAGE), "noise": noise, "text": b"lorem ip" * (PAGE // 8)}[content]
    with database.open("r+b") as file:
        file.seek(size // 2 // PAGE * PAGE + shift)
        file.write(put)
    error = await refusal(database)
    assert isinstance(error, StorageDamaged)
    assert "mv " in str(error.hint)


@pytest.mark.parametrize("content", [b"not a database at all, only words\n" * 200, bytes(8192)])
async def test_not_a_database(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    assert isinstance(await refusal(database), StorageDamaged)


async def test_cut_short(database: Path) -> None:
    await write_turns(database)
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)
    assert isinstance(await refusal(database), StorageDamaged)


# -- history -----------------------------------------------------------------------------------


async def test_a_lost_log_is_lost_history(database: Path, child: Callable[..., Any]) -> None:
    await _killed(database, child)
    log = database.with_name("coterie.db-wal")
    assert log.stat().st_size > 0
    log.unlink()
    database.with_name("coterie.db-shm").unlink()
    error = await refusal(database)
    assert isinstance(error, StorageDamaged)
    assert "History is lost" in str(error)
    assert "head.json" in str(error.hint)


async def test_a_log_without_its_database(database: Path, child: Callable[..., Any]) -> None:
    await _killed(database, child)
    database.unlink()
    assert "History is lost" in str(await refusal(database))
    (database.parent / "logs" / "head.json").unlink()
    assert "-wal" in str(await refusal(database))


async def _killed(database: Path, child: Callable[..., Any]) -> None:
    process = child("stay", database, TASK)
    process.read()
    process.kill()


async def test_a_database_that_went_away_is_not_created_again(database: Path) -> None:
    await write_turns(database, 1)
    database.unlink()
    assert "History is lost" in str(await refusal(database))
    assert not database.exists()


async def test_an_older_copy_is_lost_history_until_the_user_says_otherwise(database: Path) -> None:
    await write_turns(database, 1)
    older = database.read_bytes()
    storage = await SqliteStorage.open(database)
    await storage.create(created("later"), "me", None)
    await storage.close()
    database.write_bytes(older)
    error = await refusal(database)
    assert "ends at event 2, but event 3 was written" in str(error)
    head = database.parent / "logs" / "head.json"
    head.rename(head.with_suffix(".lost"))
    storage = await SqliteStorage.open(database)
    assert [row.id for row in await storage.events.tasks()] == [TASK]
    await storage.close()


async def test_another_history_of_the_same_length(tmp_path: Path) -> None:
    for name, goal in (("a", "one"), ("b", "two")):
        (tmp_path / name).mkdir()
        storage = await SqliteStorage.open(tmp_path / name / "coterie.db")
        await storage.create(created(goal=goal), "me", None)
        await storage.close()
    (tmp_path / "a" / "coterie.db").write_bytes((tmp_path / "b" / "coterie.db").read_bytes())
    assert "differs from what was written" in str(await refusal(tmp_path / "a" / "coterie.db"))


async def test_the_head_file_follows_and_a_spoiled_one_is_ignored(database: Path) -> None:
    head = database.parent / "logs" / "head.json"
    await write_turns(database, 1)
    storage = await SqliteStorage.open(database)
    sequence, digest = await storage.events.head()
    await storage.close()
    no_calls = {"audit": 0, "audit_hash": ""}
    assert json.loads(head.read_text()) == {"sequence": sequence, "hash": digest, **no_calls}
    head.write_text("")
    storage = await SqliteStorage.open(database)
    await storage.create(created("b"), "me", None)
    await storage.close()
    assert json.loads(head.read_text())["sequence"] == sequence + 1


async def test_a_head_file_with_a_second_name_stops_writing_and_repeats_nothing(
    database: Path,
) -> None:
    storage = await SqliteStorage.open(database)
    fence = await storage.create(created(), "me", None)
    head = database.parent / "logs" / "head.json"
    os.link(head, database.parent / "copy")  # as `cp -al` makes a backup
    storage.post(fence, AppendAudit(ENTRIES[0]))
    await storage.commit(fence, started())
    with pytest.raises(StorageError, match="hard link") as caught:
        await storage.commit(fence, AppendAudit(ENTRIES[1]))
    assert "Move it away" in str(caught.value.hint)
    await storage.close()
    head.unlink()
    storage = await SqliteStorage.open(database)
    assert await storage.audit.of_task(TASK) == [ENTRIES[0]]
    assert [row.status for row in await storage.events.tasks()] == ["running"]
    await storage.close()


async def test_rows_of_events_and_audit_cannot_be_changed(database: Path) -> None:
    await write_turns(database, 1)
    connection = sqlite3.connect(database)
    for statement in (
        "UPDATE events SET data = '{}'",
        "DELETE FROM events",
        "INSERT INTO audit VALUES (1, 't', 'k', 'c', 'n', 'a', 'w', NULL, NULL, NULL, NULL, x'00')",
        "UPDATE audit SET tool_name = 'other'",
        "DELETE FROM audit",
    ):
        if statement.startswith("INSERT"):
            connection.execute(statement)
            continue
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.rollback()
    connection.close()


async def test_a_changed_row_is_found_by_a_thorough_look(database: Path) -> None:
    await write_turns(database, 1)
    connection = sqlite3.connect(database)
    connection.execute("DROP TRIGGER events_are_not_changed")
    connection.execute("UPDATE events SET data = replace(data, 'cart.py', 'tart.py')")
    connection.commit()
    connection.close()
    storage = await SqliteStorage.open(database)
    assert await storage.problems() == ["events: row 1 differs from what was written"]
    await storage.commit(Fence(TASK, 1))
    await storage.close()


async def test_rows_cut_off_the_end_of_the_audit_are_missed(database: Path) -> None:
    storage = await SqliteStorage.open(database)
    fence = await storage.create(created(), "me", None)
    await storage.commit(fence, *(AppendAudit(entry) for entry in ENTRIES), started())
    assert await storage.problems() == []
    await storage.close()
    connection = sqlite3.connect(database)
    connection.execute("DROP TRIGGER audit_is_not_deleted")
    connection.execute("DELETE FROM audit WHERE sequence > 1")
    connection.commit()
    connection.close()
    storage = await SqliteStorage.open(database)
    written = len(ENTRIES)
    assert await storage.problems() == [f"audit: {written} rows were written, but only 1 found"]
    await storage.close()
