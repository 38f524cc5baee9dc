"""`ports.Blobs` in PostgreSQL: stored in parts, by the digest of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from coterie.errors import LeaseLost, StorageFull
from coterie.model.journal import Fence
from coterie.model.machine import SentRef
from coterie.stores.postgres.failures import explained
from coterie.stores.postgres.store_url import StoreUrl

LARGEST = 64 << 20
"""The maximum size of one blob, in bytes."""
LARGEST_SESSION = 1 << 30
"""The maximum total size of a session's blobs, in bytes."""
_PART = 1 << 20

_SIZE = "SELECT coalesce(sum(length(data)), 0) FROM blobs WHERE session_id = %s"
_KNOWN = "SELECT EXISTS (SELECT FROM blobs WHERE digest = %s)"
_PUT = """
INSERT INTO blobs (digest, place, session_id, data) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_GET = "SELECT data FROM blobs WHERE digest = %s ORDER BY place"
_PUT_KEY = "INSERT INTO session_keys (session_id, key) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SET_REF = """
INSERT INTO sent_refs (session_id, name, commit, digest, remote_ref) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (session_id, name) DO UPDATE
SET commit = EXCLUDED.commit, digest = EXCLUDED.digest, remote_ref = EXCLUDED.remote_ref
"""
_REFS = "SELECT name, commit, digest, remote_ref FROM sent_refs WHERE session_id = %s ORDER BY name"
_SET_FILE = """
INSERT INTO sent_files (session_id, path, digest) VALUES (%s, %s, %s)
ON CONFLICT (session_id, path) DO UPDATE SET digest = EXCLUDED.digest
"""
_FILES = "SELECT path, digest FROM sent_files WHERE session_id = %s"
LOST = "CT001"
"""The error code with which the store refuses an old token."""
_GET_KEY = "SELECT key FROM session_keys WHERE session_id = %s"


@dataclass(frozen=True)
class PostgresBlobs:
    """The blobs in a store."""

    store: StoreUrl

    async def put(self, session: str, data: bytes) -> str:
        """In one transaction, so that the blob is stored completely or not at all."""
        if len(data) > LARGEST:
            raise self._too_large(f"{_megabytes(len(data))}; the limit is {_megabytes(LARGEST)}")
        digest = hashlib.sha256(data).hexdigest()
        async with self._transaction() as connection:
            known = await (await connection.execute(_KNOWN, [digest])).fetchone()
            if known and known[0]:
                return digest
            size = await (await connection.execute(_SIZE, [session])).fetchone()
            total = (size[0] if size else 0) + len(data)
            if total > LARGEST_SESSION:
                raise self._too_large(
                    f"{session} would have sent {_megabytes(total)}; "
                    f"the limit is {_megabytes(LARGEST_SESSION)}"
                )
            for offset in range(0, max(len(data), 1), _PART):
                part = (digest, offset, session, data[offset : offset + _PART])
                await connection.execute(_PUT, part)
        return digest

    async def get(self, digest: str) -> bytes | None:
        """Verified: data that does not match its digest counts as missing."""
        async with self._transaction() as connection:
            parts = await (await connection.execute(_GET, [digest])).fetchall()
        data = b"".join(bytes(part) for (part,) in parts)
        return data if parts and hashlib.sha256(data).hexdigest() == digest else None

    async def session_key(self, session: str, proposed: bytes) -> bytes:
        """If several processes propose a key, the first one is kept."""
        async with self._transaction() as connection:
            await connection.execute(_PUT_KEY, [session, proposed])
            row = await (await connection.execute(_GET_KEY, [session])).fetchone()
        assert row is not None
        return bytes(row[0])

    async def set_ref(self, fence: Fence, session: str, ref: SentRef) -> None:
        """In one transaction with the check of the lease."""
        async with self._transaction(fence) as connection:
            await connection.execute("SELECT hold(%s, %s)", [fence.task_id, fence.token])
            row = (session, ref.name, ref.commit, ref.digest, ref.remote_ref)
            await connection.execute(_SET_REF, row)

    async def refs(self, session: str) -> list[SentRef]:
        """Ordered by name."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_REFS, [session])).fetchall()
        return [SentRef(*row) for row in rows]

    async def set_file(self, fence: Fence, session: str, path: str, digest: str) -> None:
        """In one transaction with the check of the lease."""
        async with self._transaction(fence) as connection:
            await connection.execute("SELECT hold(%s, %s)", [fence.task_id, fence.token])
            await connection.execute(_SET_FILE, [session, path, digest])

    async def files(self, session: str) -> Mapping[str, str]:
        """Keyed by path."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_FILES, [session])).fetchall()
        return dict(rows)

    def _too_large(self, why: str) -> StorageFull:
        return StorageFull(self.store.shown, f"Too large to send through the store: {why}")

    @asynccontextmanager
    async def _transaction(
        self, fence: Fence | None = None
    ) -> AsyncGenerator[psycopg.AsyncConnection]:
        try:
            async with await psycopg.AsyncConnection.connect(self.store.conninfo) as connection:
                yield connection
        except psycopg.Error as error:
            if fence is not None and error.sqlstate == LOST:
                raise LeaseLost(fence.task_id, fence.token) from None
            raise explained(self.store, error) from None


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:.0f} MB"
