"""How the suites of a storage come to one: the part that an implementation fills in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from coterie.model.journal import Fence
from coterie.ports import Storage
from coterie.testing.contracts import samples


class OpenedStorage:
    """Opens storages for tests; all of one test stand on the same data."""

    async def open(self, place: Path) -> Storage:
        """A storage on the data at `place`, made if there is none.

        Two that are open at once stand for two processes.
        """
        raise NotImplementedError

    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncGenerator[Storage]:
        async with self.opened(tmp_path) as storage:
            yield storage

    @pytest.fixture
    async def fence(self, storage: Storage) -> Fence:
        """Of a task that runs."""
        fence = await storage.create(samples.created(), "me", None)
        assert fence is not None
        await storage.commit(fence, samples.started())
        return fence

    @contextlib.asynccontextmanager
    async def opened(self, place: Path) -> AsyncGenerator[Storage]:
        """A storage that is let go in the end, whatever became of it."""
        storage = await self.open(place)
        try:
            yield storage
        finally:
            await storage.close()
