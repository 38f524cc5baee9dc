"""Who may run a task, and which processes run for it.  Each call is one transaction."""

from __future__ import annotations

import sqlite3

from coterie.model.journal import ChildLease, Fence, Lease
from coterie.stores.sqlite.queries import SQL
from coterie.stores.sqlite.rows import Row, select
from coterie.stores.sqlite.writer import Writer


class SqliteLeases:
    """The leases of one project."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def get(self, task_id: str) -> Lease | None:
        found = await self._writer.read(lambda c: select(c, "lease", task_id))
        return Lease(*found[0]) if found else None

    async def all(self) -> list[Lease]:
        found = await self._writer.read(lambda c: select(c, "leases"))
        return [Lease(*row) for row in found]

    async def claim(self, task_id: str, owner: str, seen: int) -> int | None:
        def take(connection: sqlite3.Connection) -> int | None:
            if seen == 0:
                found = select(connection, "insert_lease", task_id, owner, "reclaiming")
            else:
                found = select(connection, "claim_lease", owner, task_id, seen)
            return found[0][0] if found else None

        return await self._writer.submit(take)

    async def confirm(self, fence: Fence) -> bool:
        def run(connection: sqlite3.Connection) -> bool:
            return bool(select(connection, "confirm_lease", fence.task_id, fence.token))

        return await self._writer.submit(run)

    async def park(self, fence: Fence) -> None:
        def give_up(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["park_lease"], (fence.task_id, fence.token))

        await self._writer.submit(give_up)

    async def record_child(self, fence: Fence, child: ChildLease) -> None:
        row = (
            child.task_id,
            child.member,
            child.agent,
            child.mark,
            child.boot_id,
            child.pid_namespace,
            child.host,
            child.started_at,
            child.pid,
        )

        def record(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["insert_child"], row)

        await self._writer.submit(record, fence)

    def set_child_pid(self, mark: str, pid: int) -> None:
        def update(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["set_child_pid"], (pid, mark))

        self._writer.post(update)

    def drop_child(self, mark: str) -> None:
        def drop(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["drop_child"], (mark,))

        self._writer.post(drop)

    async def children(self, task_id: str | None = None) -> list[ChildLease]:
        def find(connection: sqlite3.Connection) -> list[Row]:
            if task_id is None:
                return select(connection, "children")
            return select(connection, "children_of_task", task_id)

        found = await self._writer.read(find)
        return [ChildLease(*row) for row in found]
