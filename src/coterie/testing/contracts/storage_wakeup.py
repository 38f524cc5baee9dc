"""Waiting for what others write."""

from __future__ import annotations

from pathlib import Path

import anyio

from coterie.model.journal import AppendMessage, Fence
from coterie.ports import Storage
from coterie.testing.contracts.samples import TASK, answered, asked, message
from coterie.testing.contracts.storage_opening import OpenedStorage


class WakeupContract(OpenedStorage):
    """`changed`."""

    async def test_the_first_look_is_at_once(self, storage: Storage) -> None:
        with anyio.fail_after(1):
            assert await storage.changed(0) > 0

    async def test_our_own_answers_and_requests_wake(self, storage: Storage, fence: Fence) -> None:
        await storage.commit(fence, asked("q1"))
        seen = await storage.changed(0)
        async with anyio.create_task_group() as group:
            group.start_soon(storage.inbox.respond, answered("q1"))
            with anyio.fail_after(1):
                seen = await storage.changed(seen)
        async with anyio.create_task_group() as group:
            group.start_soon(storage.inbox.request, TASK, "stop", "max", "")
            with anyio.fail_after(1):
                await storage.changed(seen)

    async def test_our_own_other_writes_do_not_wake(self, storage: Storage, fence: Fence) -> None:
        seen = await storage.changed(0)
        await storage.commit(fence, AppendMessage(message(1)))
        storage.post(fence, AppendMessage(message(2)))
        with anyio.move_on_after(0.2) as waited:
            await storage.changed(seen)
        assert waited.cancelled_caught

    async def test_another_process_wakes_all_who_wait(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        seen = await storage.changed(0)
        woken: list[int] = []

        async def wait() -> None:
            woken.append(await storage.changed(seen))

        async with self.opened(tmp_path) as other:
            with anyio.fail_after(2):
                async with anyio.create_task_group() as group:
                    group.start_soon(wait)
                    group.start_soon(wait)
                    await anyio.sleep(0.1)
                    assert woken == []
                    await other.inbox.request(TASK, "say", "max", "hello")
        assert len(woken) == 2

    async def test_what_came_between_two_waits_is_not_missed(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        seen = await storage.changed(0)
        with anyio.move_on_after(0.01):
            await storage.changed(seen)
        async with self.opened(tmp_path) as other:
            await other.inbox.request(TASK, "say", "max", "hello")
            await storage.commit(fence, AppendMessage(message(1)))  # hides nothing
            with anyio.fail_after(2):
                await storage.changed(seen)
