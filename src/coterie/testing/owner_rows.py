"""The owners of several machines in a SQLite file, reached over a connection that can be cut."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from coterie.model.machine import OwnerRow

T = TypeVar("T")

_TABLE = (
    "CREATE TABLE IF NOT EXISTS owners (id TEXT PRIMARY KEY, machine TEXT NOT NULL, "
    "beat INTEGER NOT NULL, dead INTEGER NOT NULL, started_at TEXT NOT NULL, version TEXT NOT NULL)"
)


@dataclass(frozen=True)
class SqliteOwnerRows:
    """`ports.OwnerRows` that the processes of one machine share as several machines would.

    While the file `unreachable` exists no request arrives; while the file `drop_replies` exists
    every request arrives but no answer comes back.
    """

    file: Path
    unreachable: Path | None = None
    drop_replies: Path | None = None

    async def add(self, row: OwnerRow) -> None:
        await self._changed("INSERT INTO owners VALUES (?, ?, ?, ?, ?, ?)", *astuple(row))

    async def renew(self, owner: str) -> int | None:
        renewal = "UPDATE owners SET beat = beat + 1 WHERE id = ? AND NOT dead RETURNING beat"
        row = await self._call(lambda db: db.execute(renewal, [owner]).fetchone())
        return row[0] if row else None

    async def get(self, owner: str) -> OwnerRow | None:
        rows = await self._read("SELECT * FROM owners WHERE id = ?", owner)
        return rows[0] if rows else None

    async def living(self) -> list[OwnerRow]:
        return await self._read("SELECT * FROM owners WHERE NOT dead ORDER BY id")

    async def declare_dead(self, owner: str, beat: int | None) -> bool:
        death = "UPDATE owners SET dead = 1 WHERE id = ? AND NOT dead AND beat = ifnull(?, beat)"
        return await self._changed(death, owner, beat) == 1

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    async def _changed(self, statement: str, *values: object) -> int:
        return await self._call(lambda db: db.execute(statement, values).rowcount)

    async def _read(self, query: str, *values: str) -> list[OwnerRow]:
        rows = await self._call(lambda db: db.execute(query, values).fetchall())
        return [replace(row, dead=bool(row.dead)) for row in (OwnerRow(*one) for one in rows)]

    async def _call(self, call: Callable[[sqlite3.Connection], T]) -> T:
        await self._while(self.unreachable)
        answer = await anyio.to_thread.run_sync(self._done, call)
        await self._while(self.drop_replies)
        return answer

    def _done(self, call: Callable[[sqlite3.Connection], T]) -> T:
        with closing(sqlite3.connect(self.file, timeout=30)) as database, database:
            database.execute("PRAGMA synchronous = OFF")  # nothing here has to survive a crash
            database.execute(_TABLE)
            return call(database)

    async def _while(self, file: Path | None) -> None:
        exists = file.exists if file is not None else bool
        while await anyio.to_thread.run_sync(exists):  # noqa: ASYNC110  a file tells nobody
            await anyio.sleep(0.01)
