"""Offers in PostgreSQL and in memory follow the same rules; and what is stored beside rows."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator

import anyio
import psycopg
import pytest

from coterie.errors import StorageFull
from coterie.model import instant
from coterie.model.journal import AppendEvent, Fence
from coterie.model.machine import Offer, OwnerRow, queues_of
from coterie.model.task import TaskCompleted
from coterie.ports import Blobs, Dispatch
from coterie.stores.postgres import PostgresStorage, blobs, schema
from coterie.stores.postgres.blobs import PostgresBlobs
from coterie.stores.postgres.dispatch import PostgresDispatch
from coterie.stores.postgres.owners import PostgresOwnerRows
from coterie.stores.postgres.store_url import StoreUrl
from coterie.testing.contracts.blobs import SESSION, BlobsContract
from coterie.testing.contracts.dispatch import DispatchContract
from coterie.testing.contracts.samples import answered, asked, at, created, started
from coterie.testing.dispatch import MemoryDispatch, MemoryOffers
from coterie.testing.postgres import Databases


@pytest.fixture
def url(postgres: Databases) -> Iterator[str]:
    """A store of its own for each test."""
    name = f"test_{secrets.token_hex(8)}"
    yield postgres.create(name, postgres.prepare("contract", schema.init))
    postgres.drop(name)


class TestMemoryDispatch(DispatchContract):
    async def open(self) -> Dispatch:
        self.passed = 0.0
        self.offers = MemoryOffers(self.now)
        return MemoryDispatch(self.offers)

    def now(self) -> float:
        return self.passed - instant.seconds_until("1970-01-01T00:00:00Z")

    async def create(self, task_id: str, parent: str | None = None) -> None:
        """Tasks that are not on offer are unknown here."""

    async def answer(self, task_id: str) -> None:
        self.offers.wake(task_id)

    async def send_message(self, task_id: str) -> None:
        self.offers.wake(task_id)

    async def end(self, task_id: str) -> None:
        self.offers.drop(task_id, is_child="/" in task_id)

    async def register_owner(self, owner: str, machine: str) -> None:
        self.offers.owners[owner] = machine

    async def die(self, owner: str) -> None:
        self.offers.declare_dead(owner)

    async def lose_jobs(self) -> None:
        for job in list(self.offers._jobs):
            self.offers.finish(job)
        self.offers._queues.clear()

    async def later(self, seconds: float) -> None:
        self.passed += seconds


class TestPostgresDispatch(DispatchContract):
    @pytest.fixture(autouse=True)
    async def store(self, url: str) -> AsyncGenerator[None]:
        self.url, self.fences = url, dict[str, Fence]()
        self.storage, self.rows = await PostgresStorage.open(url), PostgresOwnerRows.at(url)
        yield
        self.rows.close()
        await self.storage.close()

    async def open(self) -> Dispatch:
        return PostgresDispatch(StoreUrl.of(self.url), search=0.0)

    async def create(self, task_id: str, parent: str | None = None) -> None:
        of = {"parent_id": parent, "session_id": parent or task_id}
        fence = await self.storage.create(created(task_id).model_copy(update=of), "one", None)
        assert fence is not None
        self.fences[task_id] = fence
        await self.storage.commit(fence, started(task_id))

    async def answer(self, task_id: str) -> None:
        name = f"q{secrets.token_hex(4)}"
        await self.storage.commit(self.fences[task_id], asked(name, task_id))
        assert await self.storage.inbox.respond(answered(name, task_id))

    async def send_message(self, task_id: str) -> None:
        await self.storage.inbox.request(task_id, "say", "you", "go on")

    async def end(self, task_id: str) -> None:
        done = TaskCompleted(task_id=task_id, at=at(9), reason="done")
        await self.storage.commit(self.fences[task_id], AppendEvent(done))

    async def register_owner(self, owner: str, machine: str) -> None:
        await self.rows.add(OwnerRow(owner, machine, 0, False, at(0), "1.0"))

    async def die(self, owner: str) -> None:
        assert await self.rows.declare_dead(owner, None)

    async def lose_jobs(self) -> None:
        await self.run("DELETE FROM procrastinate_jobs")

    async def later(self, seconds: float) -> None:
        """Make everything due earlier by that much, which has the same effect."""
        await self.run(f"UPDATE offers SET due = due - interval '{seconds} seconds'")

    async def test_a_job_is_lost_with_its_queue_worker_and_not_by_its_age(
        self, dispatch: Dispatch
    ) -> None:
        begun = anyio.Event()

        async def run(task_id: str) -> None:
            begun.set()
            await anyio.sleep_forever()

        await dispatch.offer(Offer("long"))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(dispatch.serve, "seat", queues_of("seat", (), "gpu1"), 1, run)
                await begun.wait()
                await self.run("UPDATE procrastinate_events SET at = at - interval '1 day'")
                await dispatch.sweep()
                assert await self.handed_out(dispatch) == []
                await self.run("UPDATE procrastinate_workers SET last_heartbeat = '2026-01-01'")
                await dispatch.sweep()
                assert await self.handed_out(dispatch) == ["long"]
                group.cancel_scope.cancel()

    async def run(self, statement: str) -> None:
        conninfo = StoreUrl.of(self.url).with_path("dispatch", "coterie")
        async with await psycopg.AsyncConnection.connect(conninfo) as connection:
            await connection.execute(statement.encode())


class TestPostgresBlobs(BlobsContract):
    largest = blobs.LARGEST

    @pytest.fixture(autouse=True)
    def store(self, url: str) -> None:
        self.url = url

    async def open(self) -> Blobs:
        return PostgresBlobs(StoreUrl.of(self.url))

    async def fence(self) -> Fence:
        storage = await PostgresStorage.open(self.url)
        fence = await storage.create(created(SESSION), "one", None)
        await storage.close()
        assert fence is not None
        return fence

    async def test_a_session_cannot_fill_the_database(
        self, blobs: Blobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("coterie.stores.postgres.blobs.LARGEST_SESSION", 10)
        digest = await blobs.put(SESSION, b"123456")
        with pytest.raises(StorageFull, match=f"{SESSION} would have sent"):
            await blobs.put(SESSION, b"abcdef")
        assert await blobs.put(SESSION, b"123456") == digest
        assert await blobs.get(await blobs.put("another", b"abcdef")) == b"abcdef"

    async def test_what_was_damaged_is_as_good_as_none(self, blobs: Blobs) -> None:
        digest = await blobs.put(SESSION, b"whole")
        conninfo = StoreUrl.of(self.url).conninfo
        async with await psycopg.AsyncConnection.connect(conninfo) as connection:
            await connection.execute("UPDATE blobs SET data = 'half'")
        assert await blobs.get(digest) is None
