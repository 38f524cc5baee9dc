"""The contract of every `ports.Blobs`.

Subclass `BlobsContract`, set `largest`, implement `open` and `fence`, and pytest runs the whole
suite.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod

import anyio
import pytest

from coterie.errors import LeaseLost, StorageFull
from coterie.model.journal import Fence
from coterie.model.machine import SentRef
from coterie.ports import Blobs

SESSION = "k3f9"


class BlobsContract(ABC):
    """Data by digest, session keys, and the refs and files that were sent."""

    largest: int
    """The maximum size of one blob, in bytes."""

    @abstractmethod
    async def open(self) -> Blobs:
        """Open blobs that are still empty."""
        ...

    @abstractmethod
    async def fence(self) -> Fence:
        """Return the fence of a running task of the session."""
        ...

    @pytest.fixture
    async def blobs(self) -> Blobs:
        """Blobs that are still empty."""
        return await self.open()

    @pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
    async def test_a_blob_is_read_by_its_digest(self, blobs: Blobs, size: int) -> None:
        data = (b"\0\xff'\\" * (size // 4 + 1))[:size]
        digest = await blobs.put(SESSION, data)
        assert digest == hashlib.sha256(data).hexdigest()
        assert await blobs.get(digest) == data
        assert await blobs.get("0" * 64) is None

    async def test_equal_blobs_are_stored_once(self, blobs: Blobs) -> None:
        data, digests = b"the same" * 200_000, list[str]()

        async def put(session: str) -> None:
            digests.append(await blobs.put(session, data))

        async with anyio.create_task_group() as group:
            for session in (SESSION, SESSION, "another"):
                group.start_soon(put, session)
        assert len(set(digests)) == 1
        assert await blobs.get(digests[0]) == data

    async def test_a_blob_that_is_too_large_is_refused(self, blobs: Blobs) -> None:
        data = bytes(self.largest + 1)
        with pytest.raises(StorageFull, match="Too large"):
            await blobs.put(SESSION, data)
        assert await blobs.get(hashlib.sha256(data).hexdigest()) is None

    async def test_the_first_key_of_a_session_stays(self, blobs: Blobs) -> None:
        first = await blobs.session_key(SESSION, b"\0one")
        assert [first, await blobs.session_key(SESSION, b"two")] == [b"\0one"] * 2
        assert await blobs.session_key("another", b"two") == b"two"

    async def test_two_keys_proposed_at_once_yield_one(self, blobs: Blobs) -> None:
        keys: list[bytes] = []

        async def propose(proposed: bytes) -> None:
            keys.append(await blobs.session_key(SESSION, proposed))

        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(propose, b"key %d" % number)
        assert (len(keys), len(set(keys))) == (4, 1)

    async def test_a_ref_is_where_it_was_last_set(self, blobs: Blobs) -> None:
        fence, digest = await self.fence(), await blobs.put(SESSION, b"a bundle")
        for ref in (SentRef("T2", "aaa"), SentRef("T1", "bbb"), SentRef("T2", "ccc", digest)):
            await blobs.set_ref(fence, SESSION, ref)
        await blobs.set_ref(fence, "another", SentRef("T1", "ddd"))
        assert await blobs.refs(SESSION) == [SentRef("T1", "bbb"), SentRef("T2", "ccc", digest)]
        sent = SentRef("T2", "eee", remote_ref="refs/coterie/k3f9/T2/1/eee")
        await blobs.set_ref(fence, SESSION, sent)
        assert await blobs.refs(SESSION) == [SentRef("T1", "bbb"), sent]

    async def test_a_file_is_read_as_it_was_last_set(self, blobs: Blobs) -> None:
        fence = await self.fence()
        for path, digest in (("log", "aa"), ("it's/a", "bb"), ("log", "cc")):
            await blobs.set_file(fence, SESSION, path, digest)
        await blobs.set_file(fence, "another", "log", "dd")
        assert dict(await blobs.files(SESSION)) == {"log": "cc", "it's/a": "bb"}

    async def test_without_the_lease_no_ref_is_set(self, blobs: Blobs) -> None:
        fence = await self.fence()
        for old in (Fence(fence.task_id, fence.token - 1), Fence("nobody's", 1)):
            with pytest.raises(LeaseLost):
                await blobs.set_ref(old, SESSION, SentRef("T1", "aaa"))
            with pytest.raises(LeaseLost):
                await blobs.set_file(old, SESSION, "log", "aa")
        assert (await blobs.refs(SESSION), dict(await blobs.files(SESSION))) == ([], {})
