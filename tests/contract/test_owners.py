"""Owners by lock and owners by lease fulfill the same contract."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coterie.engine.lease import FlockOwners
from coterie.engine.leased import LeasedOwners
from coterie.errors import StorageError
from coterie.model.lease_clock import LeaseTimes
from coterie.model.machine import OwnerRow
from coterie.ports import Owners, Storage
from coterie.testing.contracts.owners import HERE, OwnersContract, RecordingReaper
from coterie.testing.owner_rows import SqliteOwnerRows
from coterie.testing.postgres import Databases

TIMES = LeaseTimes(ttl=4.0, beat=1.0, soft=0.5, margin=0.3, look=0.1)


def lose_lock(owners: FlockOwners | LeasedOwners) -> None:
    """Lose the lock, as a killed process does."""
    owner = owners._owner
    assert owner is not None
    os.close(owner._fd)
    owners._owner = None


class TestFlockOwners(OwnersContract):
    async def open(self, place: Path, storage: Storage, name: str) -> Owners:
        return FlockOwners(place / "owners", "here", storage.leases)

    async def die(self, owners: Owners) -> None:
        assert isinstance(owners, FlockOwners)
        lose_lock(owners)


class LeasedSuite(OwnersContract):
    async def open(self, place: Path, storage: Storage, name: str) -> LeasedOwners:
        rows, folder = SqliteOwnerRows(place / "owners.db"), place / self.machine(name)
        made = LeasedOwners(rows, storage.leases, RecordingReaper(), HERE, folder, folder.name)
        made.times = TIMES
        made.__post_init__()
        return made

    def machine(self, name: str) -> str:
        raise NotImplementedError

    @pytest.fixture
    async def one(self, tmp_path: Path, storage: Storage) -> AsyncGenerator[Owners]:
        owners = await self.open(tmp_path, storage, "one")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(owners.kept())
            await owners.begin()
            yield owners
        await owners.end()

    @pytest.fixture
    async def two(self, tmp_path: Path, storage: Storage) -> AsyncGenerator[Owners]:
        owners = await self.open(tmp_path, storage, "two")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(owners.kept())
            await owners.begin()
            yield owners
        await owners.end()


class TestLeasedOwnersOfOneMachine(LeasedSuite):
    def machine(self, name: str) -> str:
        return "here"

    async def die(self, owners: Owners) -> None:
        assert isinstance(owners, LeasedOwners)
        lose_lock(owners)


class TestLeasedOwnersOfSeveral(LeasedSuite):
    def machine(self, name: str) -> str:
        return name

    async def die(self, owners: Owners) -> None:
        """Stop renewing; nobody else can see the lock."""


class TestLeasedOwnersInPostgres(LeasedSuite):
    @pytest.fixture(autouse=True)
    def url(self, postgres: Databases) -> Iterator[None]:
        from coterie.stores.postgres import schema
        from coterie.stores.postgres.owners import PostgresOwnerRows

        name = f"test_{secrets.token_hex(8)}"
        url = postgres.create(name, postgres.prepare("stores", schema.init))
        self.rows = PostgresOwnerRows.at(url)
        yield
        postgres.drop(name)

    async def open(self, place: Path, storage: Storage, name: str) -> LeasedOwners:
        made = await super().open(place, storage, name)
        made.rows = self.rows
        return made

    def machine(self, name: str) -> str:
        return name

    async def die(self, owners: Owners) -> None:
        """Stop renewing."""

    @pytest.fixture(autouse=True)
    async def closed(self, url: None) -> AsyncGenerator[None]:
        yield
        self.rows.close()

    async def test_the_rows_are_compared_and_set(self) -> None:
        row = OwnerRow("it's me", "gpu\0one", 0, False, "2026-01-01T00:00:00Z", "1.0")
        await self.rows.add(row)
        assert await self.rows.get(row.id) == row
        assert [await self.rows.renew(one) for one in (row.id, row.id, "nobody")] == [1, 2, None]
        assert [await self.rows.declare_dead(row.id, beat) for beat in (1, 2, 2)] == [
            *(False, True, False)
        ]
        assert (await self.rows.renew(row.id), await self.rows.living()) == (None, [])
        assert await self.rows.get(row.id) == replace(row, beat=2, dead=True)
        with pytest.raises(StorageError):
            await self.rows.add(row)

    async def test_a_call_that_is_cancelled_or_cut_leaves_no_connection_behind(self) -> None:
        with anyio.move_on_after(0):
            await self.rows.living()
        assert await self.rows.living() == []
        assert await self.rows.renew("nobody") is None
