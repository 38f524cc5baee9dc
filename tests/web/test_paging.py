"""Long tasks are read page by page, by number: the cost of a page does not grow with the task."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio.to_thread

from coterie.config.project import Project, make_project
from coterie.model.conversation import Message
from coterie.model.journal import AppendMessage, Fence
from coterie.stores.sqlite import SqliteStorage
from coterie.stores.sqlite.transactions import SQL
from coterie.testing.contracts.samples import TASK, at, created, started
from tests.conftest import IsolatedUser
from tests.web.api_client import api_client

MANY = 10_000


async def talk(root: Path) -> Path:
    """A task with many messages."""
    project = Project(root)
    await anyio.to_thread.run_sync(make_project, project)
    storage = await SqliteStorage.open(project.database)
    fence = await storage.create(created(), "gone", None)
    said = (Message(TASK, seq, "ann", f"word {seq}", at(2), seq) for seq in range(1, MANY + 1))
    await storage.commit(fence, started(), *map(AppendMessage, said))
    await storage.leases.park(Fence(TASK, 1))
    await storage.close()
    return project.database


async def test_ten_thousand_messages_are_read_by_number(user: IsolatedUser) -> None:
    database = await talk(user.project)
    async with api_client(user.project) as api:
        page = await api.get(f"~/tasks/{TASK}/messages", limit=3)
        assert [one["record"]["text"] for one in page["entries"]] == [
            f"word {number}" for number in range(MANY - 2, MANY + 1)
        ]
        middle = page["entries"][0]["seq"] - MANY // 2
        before = await api.get(f"~/tasks/{TASK}/timeline", before=middle, limit=500)
        after = await api.get(f"~/tasks/{TASK}/timeline", after=middle - 1, limit=500)
        numbers = [entry["seq"] for entry in (*before["entries"], *after["entries"])]
        assert numbers == list(range(middle - 500, middle + 500)), "no gap, and none twice"
        assert before["more"]
        newest = await api.get(f"~/tasks/{TASK}/timeline", after=page["entries"][-1]["seq"])
        assert newest == {"entries": [], "more": False}
        assert await api.get(f"~/tasks/{TASK}/tool-calls") == {"entries": [], "more": False}

    def plan() -> str:
        with sqlite3.connect(database) as connection:
            steps = connection.execute(
                f"EXPLAIN QUERY PLAN {SQL['timeline_before']}",
                (TASK, TASK, TASK, None, "", None, None, 9, 9),
            ).fetchall()
        connection.close()
        return "; ".join(step[-1] for step in steps)

    found = await anyio.to_thread.run_sync(plan)
    assert "SEARCH messages USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in found
    assert "SCAN" not in found.replace("SCAN CONSTANT ROW", "")
