"""Writes `fixtures/version_N.sql`: a database of the current version with data in every table.

Run once, before a migration is added: `python tests/contract/make_fixture.py`.  Never run it again
for that version: an old fixture is what an old Coterie really wrote.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from pathlib import Path

from coterie.model.journal import (
    AppendAudit,
    AppendEnvelope,
    AppendEvent,
    AppendMessage,
    AppendThread,
    PutTicket,
    SetMemberState,
)
from coterie.model.task import TaskCompleted
from coterie.stores.sqlite import SqliteStorage
from coterie.stores.sqlite.schema import migrations
from coterie.testing.contracts.samples import (
    TASK,
    TICKET,
    answered,
    asked,
    at,
    child,
    closing,
    created,
    envelope,
    message,
    opening,
    started,
)
from coterie.testing.contracts.storage_records import ENTRIES

FIXTURES = Path(__file__).with_name("fixtures")


async def fill(database: Path) -> None:
    storage = await SqliteStorage.open(database)
    fence = await storage.create(created(), "owner-1", None)
    assert fence is not None
    await storage.commit(fence, started(), *opening(), *closing())
    await storage.commit(fence, *(AppendAudit(entry) for entry in ENTRIES))
    await storage.commit(
        fence,
        AppendThread(TASK, "thread-1", 1, '{"kind":"prompt"}'),
        AppendEnvelope(envelope(1)),
        PutTicket(TASK, TICKET, None),
    )
    await storage.commit(fence, *opening("round/1/turn/bob"))
    for _ in range(2):
        await storage.inbox.allocate()
    await storage.commit(fence, asked("q1"), asked("q2"))
    await storage.inbox.respond(answered("q1"))
    await storage.inbox.request(TASK, "say", "max", "be quick")
    await storage.leases.record_child(fence, child("mark-1"))
    storage.post(fence, SetMemberState(TASK, "bob", "quiet", "the model has not answered", at(7)))
    done = await storage.create(created("done", goal="another"), "owner-1", message(1, "done"))
    await storage.commit(done, started("done"), AppendMessage(message(2, "done")))
    ended = TaskCompleted(task_id="done", at=at(9), reason="max_turns", summary="all said")
    await storage.commit(done, AppendEvent(ended, incident="done"))
    await storage.leases.park(fence)
    await storage.close()


def main() -> None:
    version = migrations()[-1][0]
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "coterie.db"
        asyncio.run(fill(database))
        connection = sqlite3.connect(database)
        connection.execute("UPDATE requests SET at = ?", (at(8),))
        dump = "\n".join(connection.iterdump())
        connection.close()
    (FIXTURES / f"version_{version}.sql").write_text(f"{dump}\nPRAGMA user_version={version};\n")


if __name__ == "__main__":
    main()
