"""Every storage keeps the same promises."""

from __future__ import annotations

from pathlib import Path

from coterie.ports import Storage
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.storage import StorageContract


class TestSqliteStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.open(place / "coterie.db")


class TestMemoryStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.in_memory(str(place))
