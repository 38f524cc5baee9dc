"""The contract of every `ports.Storage`.

Subclass `StorageContract`, implement `open`, and pytest runs the whole suite.  It needs anyio's
plugin in auto mode and a fixture `anyio_backend` that returns "asyncio".
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import pytest

from coterie.errors import LeaseLost
from coterie.model import journal
from coterie.model.journal import Fence, IllegalWrite
from coterie.model.task import IllegalEvent, TaskCompleted, TaskStarted
from coterie.ports import Storage
from coterie.testing.contracts.samples import (
    TASK,
    OpenedStorage,
    at,
    closing,
    created,
    message,
    open_turn,
    opening,
    started,
    step,
)
from coterie.testing.contracts.storage_processes import ProcessesContract
from coterie.testing.contracts.storage_records import RecordsContract
from coterie.testing.contracts.storage_turns import TurnsContract
from coterie.testing.contracts.storage_values import ValuesContract

REFUSED: list[tuple[str, journal.Write]] = [
    ("a step twice", journal.OpenStep(step())),
    ("an attempt twice", open_turn()),
    ("closing what is not there", journal.CloseStep(TASK, "round/9/turn/ann", "{}")),
    ("a gap in the messages", journal.AppendMessage(message(3))),
    ("an old number", journal.AppendMessage(message(1))),
]


class WritesContract(OpenedStorage):
    """Writing: order, atomicity, fences, and what happens after a write that was refused."""

    async def test_a_task_comes_with_its_lease_and_first_message(self, storage: Storage) -> None:
        fence = await storage.create(created(), "me", message(1))
        assert fence == Fence(TASK, 1)
        assert await storage.events.of_task(TASK) == [created()]
        assert await storage.conversation.messages(TASK) == [message(1)]
        assert await storage.leases.get(TASK) == journal.Lease(TASK, "me", 1, "running")
        assert await storage.problems() == []

    async def test_a_taken_id_changes_nothing(self, storage: Storage, fence: Fence) -> None:
        before = await storage.events.head()
        assert await storage.create(created(goal="another"), "you", message(1)) is None
        assert await storage.events.head() == before
        assert await storage.conversation.messages(TASK) == []

    async def test_posted_writes_come_before_what_follows(
        self, storage: Storage, fence: Fence
    ) -> None:
        await storage.commit(fence, *opening())
        storage.post(fence, *closing())
        await storage.commit(fence, *opening("round/1/turn/bob"))
        steps = await storage.journal.steps(TASK)
        assert [each.result for each in steps] == ['{"message":1}', None]

    async def test_a_read_sees_what_was_posted(self, storage: Storage, fence: Fence) -> None:
        storage.post(fence, journal.AppendMessage(message(1)))
        assert await storage.conversation.messages(TASK) == [message(1)]

    async def test_posted_writes_are_written_even_if_nothing_follows(
        self, storage: Storage, fence: Fence
    ) -> None:
        written = anyio.Event()
        storage.post(fence, journal.AppendMessage(message(1)), after=written.set)
        assert not written.is_set()
        with anyio.fail_after(5):
            await written.wait()

    async def test_closing_writes_what_is_queued(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as keeper:  # keeps data in memory alive
            storage = await self.open(tmp_path)
            fence = await storage.create(created(), "me", None)
            storage.post(fence, journal.AppendMessage(message(1)))
            await storage.close()
            assert await keeper.conversation.messages(TASK) == [message(1)]

    async def test_after_comes_after_in_order(self, storage: Storage, fence: Fence) -> None:
        seen: list[str] = []
        storage.post(fence, *opening(), after=lambda: seen.append("first"))
        storage.post(fence, *closing(), after=lambda: seen.append("second"))
        assert seen == []
        third = opening("round/1/turn/bob")
        await storage.commit(fence, *third, after=lambda: seen.append("third"))
        assert seen == ["first", "second", "third"]

    async def test_many_at_once_are_all_kept(self, storage: Storage, fence: Fence) -> None:
        names = [f"ticket/T{number}/work" for number in range(50)]
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(partial(storage.commit, fence, *opening(name)))
        assert [each.name for each in await storage.journal.steps(TASK)] == names

    async def test_a_submission_is_kept_whole_or_not_at_all(
        self, storage: Storage, fence: Fence
    ) -> None:
        before = await storage.events.head()
        done = TaskCompleted(task_id=TASK, at=at(9), reason="done")
        good = (*opening(), journal.AppendEvent(done), journal.AppendMessage(message(1)))
        with pytest.raises(IllegalWrite):
            await storage.commit(fence, *good, journal.CloseStep(TASK, "no", ""))
        assert await storage.events.head() == before
        assert await storage.journal.steps(TASK) == []
        assert await storage.journal.turns(TASK) == []
        assert await storage.conversation.messages(TASK) == []
        assert [row.status for row in await storage.events.tasks()] == ["running"]

    @pytest.mark.parametrize("write", [write for _, write in REFUSED], ids=[n for n, _ in REFUSED])
    async def test_an_invalid_write_is_refused_and_affects_nothing_else(
        self, storage: Storage, fence: Fence, write: journal.Write
    ) -> None:
        await storage.commit(fence, *opening(), journal.AppendMessage(message(1)))
        seen: list[str] = []
        async with anyio.create_task_group() as group:  # one batch, if the store batches writes
            group.start_soon(storage.commit, fence, journal.AppendMessage(message(2)))
            with pytest.raises(IllegalWrite):
                await storage.commit(fence, write, after=lambda: seen.append("refused"))
        third = journal.AppendMessage(message(3))
        await storage.commit(fence, third, after=lambda: seen.append("kept"))
        assert seen == ["kept"]
        assert [each.seq for each in await storage.conversation.messages(TASK)] == [1, 2, 3]

    async def test_an_event_that_cannot_follow_is_refused(
        self, storage: Storage, fence: Fence
    ) -> None:
        with pytest.raises(IllegalEvent):
            await storage.commit(fence, started())
        with pytest.raises(IllegalEvent):
            await storage.commit(None, journal.AppendEvent(TaskStarted(task_id="none", at=at(1))))
        assert (await storage.events.head())[0] == 2

    async def test_after_a_posted_write_was_refused_nothing_more_is_written(
        self, storage: Storage, fence: Fence
    ) -> None:
        storage.post(fence, journal.AppendMessage(message(1)))
        storage.post(fence, journal.AppendMessage(message(7)))
        storage.post(fence, journal.AppendMessage(message(2)))
        with pytest.raises(IllegalWrite):
            await storage.commit(fence, *opening())
        with pytest.raises(IllegalWrite):
            storage.post(fence, *opening())
        with pytest.raises(IllegalWrite):
            await storage.inbox.allocate()
        assert await storage.conversation.messages(TASK) == [message(1)]
        assert await storage.journal.steps(TASK) == []

    async def test_closing_raises_an_unreported_failure(self, tmp_path: Path) -> None:
        storage = await self.open(tmp_path)
        fence = await storage.create(created(), "me", None)
        storage.post(fence, journal.AppendMessage(message(7)))
        with pytest.raises(IllegalWrite):
            await storage.close()

    async def test_closing_twice_is_no_error(self, tmp_path: Path) -> None:
        storage = await self.open(tmp_path)
        await storage.close()
        await storage.close()
        with pytest.raises(RuntimeError):
            await storage.events.tasks()

    async def test_an_old_token_writes_nothing_and_ends_it(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        async with self.opened(tmp_path) as other:
            assert await other.leases.claim(TASK, "other", 1) == 2
            with pytest.raises(LeaseLost):
                await storage.commit(fence, journal.AppendMessage(message(1)))
            with pytest.raises(LeaseLost):
                await storage.inbox.allocate()
            assert await storage.conversation.messages(TASK) == []
            await other.commit(Fence(TASK, 2), journal.AppendMessage(message(1)))

    async def test_an_old_token_in_a_posted_write(
        self, tmp_path: Path, storage: Storage, fence: Fence
    ) -> None:
        async with self.opened(tmp_path) as other:
            await other.leases.claim(TASK, "other", 1)
            storage.post(fence, journal.AppendMessage(message(1)))
            with pytest.raises(LeaseLost):
                await storage.commit(None)
            assert await other.conversation.messages(TASK) == []

    async def test_a_claim_of_our_own_counts_at_once(self, storage: Storage, fence: Fence) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(storage.commit, fence, *opening()))
            group.start_soon(storage.leases.claim, TASK, "me", 1)
        with pytest.raises(LeaseLost):
            await storage.commit(fence, journal.AppendMessage(message(1)))


class StorageContract(
    WritesContract, TurnsContract, RecordsContract, ValuesContract, ProcessesContract
):
    """The whole suite."""
