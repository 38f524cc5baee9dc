"""Every storage keeps the same promises."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

from coterie.model.journal import Write
from coterie.ports import Storage
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.storage import StorageContract


class TestSqliteStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.open(place / "coterie.db")


class TestMemoryStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.in_memory(str(place))


def test_every_write_there_is_is_in_the_suite() -> None:
    suites = {inspect.getmodule(suite) for suite in StorageContract.__mro__[:-1]}
    text = "".join(inspect.getsource(module) for module in suites if module)
    assert [kind.__name__ for kind in get_args(Write) if f"{kind.__name__}(" not in text] == []
