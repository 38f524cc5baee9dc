"""Leases and the children recorded under them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from coterie.errors import LeaseLost
from coterie.model.journal import Fence, IllegalWrite, Lease
from coterie.ports import Storage
from coterie.testing.contracts.samples import TASK, child, created
from coterie.testing.contracts.storage_opening import OpenedStorage


class LeasesContract(OpenedStorage):
    """Who may run a task."""

    async def test_a_lease_goes_from_hand_to_hand(self, storage: Storage, fence: Fence) -> None:
        leases = storage.leases
        await leases.park(fence)
        assert await leases.get(TASK) == Lease(TASK, "me", 1, "parked")
        assert await leases.claim(TASK, "other", 7) is None
        assert await leases.claim(TASK, "other", 0) is None
        assert await leases.claim(TASK, "other", 1) == 2
        assert await leases.claim(TASK, "third", 1) is None
        assert await leases.get(TASK) == Lease(TASK, "other", 2, "reclaiming")
        assert not await leases.confirm(fence)
        assert await leases.confirm(Fence(TASK, 2))
        assert not await leases.confirm(Fence(TASK, 2))
        await leases.park(fence)  # no longer ours: nothing happens
        assert await leases.all() == [Lease(TASK, "other", 2, "running")]

    async def test_a_lease_that_never_was(self, storage: Storage) -> None:
        assert await storage.leases.get("none") is None
        assert await storage.leases.claim("none", "me", 1) is None
        assert await storage.leases.claim("none", "me", 0) == 1
        assert await storage.leases.get("none") == Lease("none", "me", 1, "reclaiming")

    async def test_claims_race_and_one_wins(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        tokens: list[int | None] = []

        async def claim(by: Storage, owner: str) -> None:
            tokens.append(await by.leases.claim(TASK, owner, 1))

        async with self.opened(tmp_path) as other, anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(claim, (storage, other)[number % 2], f"owner {number}")
        assert [token for token in tokens if token is not None] == [2]

    async def test_children_are_known_from_before_their_start(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        await storage.create(created("b"), "me", None)
        await storage.leases.record_child(fence, child("m2"))
        await storage.leases.record_child(fence, child("m1"))
        await storage.leases.record_child(Fence("b", 1), child("m3", "b"))
        storage.leases.set_child_pid("m1", 4242)
        storage.leases.set_child_pid("gone", 4243)
        assert await storage.leases.children(TASK) == [replace(child("m1"), pid=4242), child("m2")]
        assert len(await storage.leases.children()) == 3
        storage.leases.drop_child("m1")
        storage.leases.drop_child("m1")
        assert await storage.leases.children(TASK) == [child("m2")]
        with pytest.raises(IllegalWrite):
            await storage.leases.record_child(fence, child("m2"))
        async with self.opened(tmp_path) as other:
            assert await other.leases.children(TASK) == [child("m2")]

    async def test_no_child_under_an_old_token(self, storage: Storage, fence: Fence) -> None:
        await storage.leases.claim(TASK, "other", 1)
        with pytest.raises(LeaseLost):
            await storage.leases.record_child(fence, child("m1"))
        assert await storage.leases.children() == []
