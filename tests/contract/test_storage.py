"""Every storage fulfills the same contract."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from coterie.model.journal import Write
from coterie.ports import Storage
from coterie.stores.postgres import PostgresStorage, schema
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.storage import StorageContract
from coterie.testing.postgres import Databases


class TestSqliteStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.open(place / "coterie.db")


class TestMemoryStorage(StorageContract):
    async def open(self, place: Path) -> Storage:
        return await SqliteStorage.in_memory(str(place))


class TestPostgresStorage(StorageContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres: Databases) -> Iterator[None]:
        template = postgres.prepare("contract", schema.init)
        name = f"test_{secrets.token_hex(8)}"
        self.url = postgres.create(name, template)
        yield
        postgres.drop(name)

    async def open(self, place: Path) -> Storage:
        return await PostgresStorage.open(self.url)


def test_every_write_there_is_is_in_the_suite() -> None:
    suites = {inspect.getmodule(suite) for suite in StorageContract.__mro__[:-1]}
    text = "".join(inspect.getsource(module) for module in suites if module)
    assert [kind.__name__ for kind in get_args(Write) if f"{kind.__name__}(" not in text] == []
