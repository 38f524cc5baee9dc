"""Several processes on one store, and how they can affect each other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import StorageLocked
from coterie.model.journal import AppendMessage
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import TASK, created, message

Start = Callable[..., Any]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "coterie.db"


async def test_two_processes_write_at_once(database: Path, child: Start) -> None:
    writers = [child("talk", database, name, 150) for name in ("a", "b")]
    for writer in writers:
        assert writer.ended()[-1] == {"done": 150}
    storage = await SqliteStorage.open(database)
    assert [len(await storage.conversation.messages(name)) for name in ("a", "b")] == [150, 150]
    assert (await storage.events.head())[0] == 4
    assert await storage.problems() == []
    await storage.close()


async def test_many_make_the_database_at_once(tmp_path: Path, child: Start) -> None:
    names = ["a", "b", "c"]
    makers = [child("create", tmp_path, name) for name in names]
    for place in range(4):
        folder = tmp_path / str(place)
        folder.mkdir()
        for maker in makers:
            maker.send(folder.name)
        assert [maker.read() for maker in makers] == [{"done": name} for name in names]
        storage = await SqliteStorage.open(folder / "coterie.db")
        assert sorted(row.id for row in await storage.events.tasks()) == names
        await storage.close()
        assert sorted(file.name for file in folder.iterdir()) == ["coterie.db", "logs"]
    for maker in makers:
        maker.go()
        assert maker.ended() == []


async def test_killed_at_any_moment_what_was_durable_is_there(database: Path, child: Start) -> None:
    for kill in range(5):
        name = f"task-{kill}"
        writer = child("talk", database, name, 100_000)
        while writer.read()["durable"] < 3 + 7 * kill:
            pass
        durable = [3 + 7 * kill, *(line["durable"] for line in writer.kill())][-1]
        storage = await SqliteStorage.open(database)
        kept = len(await storage.conversation.messages(name))
        assert durable <= kept <= durable + 1
        assert len(await storage.journal.steps(name)) - kept in (0, 1)
        await storage.close()


async def test_a_locked_database_is_reported_and_can_be_used_again(
    database: Path, child: Start
) -> None:
    storage = await SqliteStorage.open(database, lock_timeout=0.2)
    fence = await storage.create(created(), "me", None)
    holder = child("hold", database, "writing")
    assert holder.read() == {"holding": True}
    with pytest.raises(StorageLocked) as caught:
        await storage.commit(fence, AppendMessage(message(1)))
    assert str(database) in str(caught.value)
    assert caught.value.hint
    assert await storage.conversation.messages(TASK) == []  # reading still works
    second = await SqliteStorage.open(database, lock_timeout=0.2)  # and so does opening
    await second.close()
    holder.go()
    holder.ended()
    await storage.commit(fence, AppendMessage(message(1)))
    await storage.close()


async def test_a_posted_write_that_finds_no_way_in_ends_it(database: Path, child: Start) -> None:
    storage = await SqliteStorage.open(database, lock_timeout=0.2)
    fence = await storage.create(created(), "me", None)
    holder = child("hold", database, "writing")
    holder.read()
    storage.post(fence, AppendMessage(message(1)))
    with pytest.raises(StorageLocked):
        await storage.commit(fence)
    holder.go()
    holder.ended()
    with pytest.raises(StorageLocked):
        await storage.commit(fence)
    await storage.close()


async def test_opening_what_another_process_keeps_for_itself(database: Path, child: Start) -> None:
    await (await SqliteStorage.open(database)).close()
    holder = child("hold", database, "exclusive")
    holder.read()
    with pytest.raises(StorageLocked):
        await SqliteStorage.open(database, lock_timeout=0.2)
    holder.go()
    holder.ended()
    await (await SqliteStorage.open(database)).close()


# -- no space, no permission -------------------------------------------------------------------


def assert_stopped_cleanly(told: dict[str, Any]) -> None:
    assert told["durable"] > 10
    assert told["kept"] == told["durable"]
    assert told["errors"][1:] == ["refused"]
    assert told["problems"] == []


@pytest.mark.parametrize("limit", [300_000, 400_000, 2_000_000])
def test_a_file_size_limit(database: Path, child: Start, limit: int) -> None:
    [told] = child("fill", database, limit).ended()
    assert_stopped_cleanly(told)
    assert "limit" in told["errors"][0]


def test_a_full_disk(tmp_path: Path, child: Start) -> None:
    """On a small disk where mounting is allowed; elsewhere a file size limit substitutes for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = f'mount -t tmpfs -o size=1m none "{folder}" && exec "$@"'
    apart = ("unshare", "--mount", "sh", "-c", script, "sh")
    can_mount = shutil.which("unshare") and not subprocess.call([*apart, "true"])
    if can_mount:
        [told] = child("fill", folder / "coterie.db", 0, before=apart).ended()
        assert "full" in told["errors"][0]
    else:
        [told] = child("fill", folder / "coterie.db", 1_000_000).ended()
    assert_stopped_cleanly(told)


@pytest.mark.parametrize("there", [False, True])
async def test_a_folder_that_cannot_be_written(database: Path, child: Start, there: bool) -> None:
    if there:
        await (await SqliteStorage.open(database)).close()
    database.parent.chmod(0o500)
    try:
        [told] = child("refused", database).ended()
    finally:
        database.parent.chmod(0o700)
    assert told["code"] == "storage_read_only"
    assert str(database.parent) in told["text"]
    assert told["hint"]
    assert there or list(database.parent.iterdir()) == []


async def test_a_file_that_cannot_be_written(database: Path, child: Start) -> None:
    await (await SqliteStorage.open(database)).close()
    database.chmod(0o400)
    [told] = child("refused", database).ended()
    assert told["code"] == "storage_read_only"
