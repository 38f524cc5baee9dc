"""A database of every past version can be opened and used."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from coterie.errors import StorageError
from coterie.model.journal import AppendMessage, Fence
from coterie.model.timeline import SentMessage
from coterie.stores.sqlite import SqliteStorage, database
from coterie.stores.sqlite import schema as migrating
from coterie.testing.contracts import samples
from coterie.testing.contracts.samples import TASK, answered, created, message

FIXTURES = Path(__file__).with_name("fixtures")
VERSIONS = [int(file.stem.removeprefix("version_")) for file in FIXTURES.glob("version_*.sql")]
LATEST = migrating.migrations()[-1][0]


def restored(folder: Path, version: int) -> Path:
    database = folder / "coterie.db"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript((FIXTURES / f"version_{version}.sql").read_text())
    connection.close()
    return database


def schema(database: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(database)
    found = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    connection.close()
    return found


def version_of(database: Path) -> int:
    connection = sqlite3.connect(database)
    [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    connection.close()
    return version


def test_every_version_has_a_fixture() -> None:
    assert sorted(VERSIONS) == [number for number, _ in migrating.migrations()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_old_database_becomes_a_new_one_and_goes_on(tmp_path: Path, version: int) -> None:
    database = restored(tmp_path, version)
    storage = await SqliteStorage.open(database)
    assert [(row.id, row.status, row.reason) for row in await storage.events.tasks()] == snapshot(
        [("k3f9", "waiting", ""), ("done", "completed", "max_turns")]
    )
    assert [event.type for event in await storage.events.of_task(TASK)] == snapshot(
        [
            "TaskCreated",
            "TaskStarted",
            "UserInteractionRequested",
            "UserInteractionRequested",
            "UserInteractionResponded",
        ]
    )
    assert (await storage.events.of_task(TASK))[0] == created()
    questions = await storage.inbox.questions(only_open=False)
    assert [(q.interaction.interaction_id, q.state) for q in questions] == snapshot(
        [("q1", "answered"), ("q2", "open")]
    )
    assert [word.text for word in await storage.inbox.requests(TASK)] == ["be quick"]
    assert await storage.conversation.messages(TASK) == [message(1)]
    assert [(s.name, s.result) for s in await storage.journal.steps(TASK)] == snapshot(
        [("round/1/turn/ann", '{"message":1}'), ("round/1/turn/bob", None)]
    )
    assert [t.outcome for t in await storage.journal.turns(TASK)] == ["completed", None]
    assert [entry.kind for entry in await storage.audit.of_task(TASK)] == snapshot(
        ["ToolCallRequested", "ToolCallCompleted"]
    )
    assert await storage.leases.children() == [samples.child("mark-1")]
    assert [(row.member, row.state) for row in await storage.member_states(TASK)] == [
        ("bob", "quiet")
    ]
    assert await storage.problems() == []
    told = await storage.timeline.after(0, TASK)
    assert len(told) == await storage.timeline.head() - 5, "the other task's are not told with it"
    assert sum(isinstance(row.source, SentMessage) for row in told) == 1

    assert await storage.leases.claim(TASK, "new owner", 1) == 2
    assert await storage.inbox.allocate() == "q3"
    assert await storage.inbox.respond(answered("q2"))
    await storage.commit(Fence(TASK, 2), AppendMessage(message(2)))
    await storage.close()


@pytest.mark.parametrize("version", VERSIONS)
async def test_migrated_and_new_have_one_schema(tmp_path: Path, version: int) -> None:
    migrated = restored(tmp_path, version)
    await (await SqliteStorage.open(migrated)).close()
    (tmp_path / "new").mkdir()
    await (await SqliteStorage.open(tmp_path / "new" / "coterie.db")).close()
    assert schema(migrated) == schema(tmp_path / "new" / "coterie.db")
    assert version_of(migrated) == LATEST


@pytest.mark.parametrize("version", [one for one in VERSIONS if one in (8, 9, 10, 11)])
async def test_numbers_of_the_timeline_stay_what_they_were(tmp_path: Path, version: int) -> None:
    """A follower of an old database continues after the last number it was given."""
    database = restored(tmp_path, version)
    silent = f"INSERT INTO messages SELECT '{TASK}', seq + 1, member, '', at, turn, next, done, cut"
    query = "SELECT sequence, task_id, source, number, run FROM timeline ORDER BY sequence"
    with sqlite3.connect(database) as connection:
        connection.execute(f"{silent} FROM messages WHERE task_id = '{TASK}'")
        told = connection.execute(query).fetchall()
    connection.close()
    storage = await SqliteStorage.open(database)
    assert [row.sequence for row in await storage.timeline.after(0)] == [row[0] for row in told]
    assert [one.text for one in await storage.conversation.messages(TASK)] == [message(1).text, ""]
    fence = await storage.leases.claim(TASK, "me", 1)
    await storage.commit(Fence(TASK, fence or 0), AppendMessage(message(3)))
    assert await storage.timeline.head() == told[-1][0] + 1
    await storage.close()
    connection = sqlite3.connect(database)
    assert connection.execute(query).fetchall()[:-1] == told
    connection.close()


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Add a migration that does not exist yet."""
    script = tmp_path / f"{LATEST + 1:04}_tickets.sql"
    scripts = [*migrating.migrations(), (LATEST + 1, script)]
    monkeypatch.setattr(migrating, "migrations", lambda: scripts)
    monkeypatch.setattr(database, "LATEST", LATEST + 1)
    return script


async def test_a_migration_is_applied_once(tmp_path: Path, next_version: Path) -> None:
    next_version.write_text("CREATE TABLE kettles (id TEXT PRIMARY KEY) STRICT;\n")
    database = restored(tmp_path, LATEST)
    for _ in range(2):
        await (await SqliteStorage.open(database)).close()
    assert version_of(database) == LATEST + 1
    assert "kettles" in dict(schema(database))


async def test_a_migration_that_fails_leaves_the_old_database(
    tmp_path: Path, next_version: Path
) -> None:
    next_version.write_text(
        "CREATE TABLE kettles (id TEXT PRIMARY KEY) STRICT;\nINSERT INTO nowhere VALUES (1);\n"
    )
    database = restored(tmp_path, LATEST)
    before = schema(database)
    with pytest.raises(StorageError, match="nowhere"):
        await SqliteStorage.open(database)
    assert (schema(database), version_of(database)) == (before, LATEST)


async def test_a_new_database_whose_making_fails_is_not_there(
    tmp_path: Path, next_version: Path
) -> None:
    next_version.write_text("INSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(StorageError, match="nowhere"):
        await SqliteStorage.open(tmp_path / "coterie.db")
    assert list(tmp_path.glob("coterie.db*")) == []
