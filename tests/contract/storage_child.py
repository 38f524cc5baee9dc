"""A separate process that uses a store, for tests of several processes or of one that dies.

`python storage_child.py VERB DATABASE [ARGUMENT]`; it reports what it did in JSON lines.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import sqlite3
import sys
from pathlib import Path

from coterie.errors import StorageError, StorageFull
from coterie.model.journal import AppendMessage, Fence
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import closing, created, message, opening, started


def report(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def task_of(storage: SqliteStorage, task_id: str) -> Fence:
    fence = await storage.create(created(task_id), f"process {os.getpid()}", None)
    assert fence is not None
    await storage.commit(fence, started(task_id))
    return fence


async def talk(database: Path, task_id: str, turns: int) -> None:
    """Take turns and report after each commit how many replies are durable."""
    storage = await SqliteStorage.open(database)
    fence = await task_of(storage, task_id)
    for seq in range(1, turns + 1):
        name = f"round/{seq}/turn/ann"
        await storage.commit(fence, *opening(name, task_id))
        report(durable=seq - 1)
        storage.post(fence, *closing(name, seq, task_id))
    await storage.close()
    report(done=turns)


async def stay(database: Path, task_id: str) -> None:
    """Create a task and keep the database open."""
    storage = await SqliteStorage.open(database)
    await task_of(storage, task_id)
    report(durable=0)
    await asyncio.Event().wait()


async def create(folder: Path, task_id: str) -> None:
    """Open a possibly missing database wherever stdin says, at the same moment as the others."""
    for place in sys.stdin:
        storage = await SqliteStorage.open(folder / place.strip() / "coterie.db")
        await task_of(storage, task_id)
        await storage.close()
        report(done=task_id)


async def refused(database: Path) -> None:
    """Report how opening is refused, without root's capabilities."""
    _drop_capabilities()
    try:
        storage = await SqliteStorage.open(database)
    except StorageError as error:
        report(code=error.code, text=str(error), hint=error.hint)
    else:
        await storage.close()
        report(code=None)


async def fill(database: Path, limit: int) -> None:
    """Write until there is no space; free some; reopen and compare."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    else:
        database.with_name("filler").write_bytes(bytes(300_000))
    storage = await SqliteStorage.open(database)
    fence = await task_of(storage, "full")
    durable, errors = 0, list[str]()
    try:
        while durable < 10_000:
            await storage.commit(fence, AppendMessage(message(durable + 1, "full", "x" * 3000)))
            durable += 1
    except StorageFull as error:
        errors.append(str(error))
    try:
        await storage.commit(fence, AppendMessage(message(durable + 1, "full")))
    except StorageFull:
        errors.append("refused")
    await storage.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    database.with_name("filler").unlink(missing_ok=True)
    storage = await SqliteStorage.open(database)
    kept = len(await storage.conversation.messages("full"))
    await storage.commit(fence, AppendMessage(message(durable + 1, "full")))
    problems = await storage.problems()
    await storage.close()
    report(durable=durable, kept=kept, errors=errors, problems=problems)


def hold(database: Path, how: str) -> None:
    """Hold the database until stdin ends."""
    connection = sqlite3.connect(database, isolation_level=None)
    if how == "exclusive":
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        # Any write takes the lock; this one changes nothing.
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        connection.execute(f"PRAGMA user_version={version}")
    connection.execute("BEGIN IMMEDIATE")
    report(holding=True)
    sys.stdin.read()
    connection.execute("ROLLBACK")
    connection.close()


def _drop_capabilities() -> None:
    """Drop root's capabilities: without them it is subject to file modes like any user."""
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        nothing = (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(header, nothing) != 0:
            raise OSError(ctypes.get_errno(), "capset")


def main() -> None:
    verb, database = sys.argv[1], Path(sys.argv[2])
    match verb:
        case "talk":
            asyncio.run(talk(database, sys.argv[3], int(sys.argv[4])))
        case "stay":
            asyncio.run(stay(database, sys.argv[3]))
        case "create":
            asyncio.run(create(database, sys.argv[3]))
        case "refused":
            asyncio.run(refused(database))
        case "fill":
            asyncio.run(fill(database, int(sys.argv[3])))
        case _:
            hold(database, sys.argv[3])


if __name__ == "__main__":
    main()
