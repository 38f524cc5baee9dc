"""`ports.Blobs` in PostgreSQL: in parts, by the digest of the whole."""

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
from coterie.stores.postgres.place import Place

LARGEST = 64 << 20
"""No more than this is kept as one."""
LARGEST_SESSION = 1 << 30
"""No more than this is kept for one session."""
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
"""The code with which the store refuses an old token."""
_GET_KEY = "SELECT key FROM session_keys WHERE session_id = %s"


@dataclass(frozen=True)
class PostgresBlobs:
    """The blobs in the store at a place."""

    place: Place

    async def put(self, session: str, data: bytes) -> str:
        """In one transaction: it is there as a whole or not at all."""
        if len(data) > LARGEST:
            raise self._too_large(f"{_megabytes(len(data))}, and {_megabytes(LARGEST)} is the most")
        digest = hashlib.sha256(data).hexdigest()
        async with self._transaction() as connection:
            known = await (await connection.execute(_KNOWN, [digest])).fetchone()
            if known and known[0]:
                return digest
            size = await (await connection.execute(_SIZE, [session])).fetchone()
            total = (size[0] if size else 0) + len(data)
            if total > LARGEST_SESSION:
                raise self._too_large(
                    f"what {session} sent is {_megabytes(total)} by now, and "
                    f"{_megabytes(LARGEST_SESSION)} is the most"
                )
            for place in range(0, max(len(data), 1), _PART):
                part = (digest, place, session, data[place : place + _PART])
                await connection.execute(_PUT, part)
        return digest

    async def get(self, digest: str) -> bytes | None:
        """Checked: what does not have its digest is as good as none."""
        async with self._transaction() as connection:
            parts = await (await connection.execute(_GET, [digest])).fetchall()
        data = b"".join(bytes(part) for (part,) in parts)
        return data if parts and hashlib.sha256(data).hexdigest() == digest else None

    async def session_key(self, session: str, made: bytes) -> bytes:
        """Of several that propose one, one is kept."""
        async with self._transaction() as connection:
            await connection.execute(_PUT_KEY, [session, made])
            found = await (await connection.execute(_GET_KEY, [session])).fetchone()
        assert found is not None
        return bytes(found[0])

    async def set_ref(self, fence: Fence, session: str, ref: SentRef) -> None:
        """In one transaction with the look at the lease."""
        async with self._transaction(fence) as connection:
            await connection.execute("SELECT hold(%s, %s)", [fence.task_id, fence.token])
            row = (session, ref.name, ref.commit, ref.digest, ref.remote_ref)
            await connection.execute(_SET_REF, row)

    async def refs(self, session: str) -> list[SentRef]:
        """By name."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_REFS, [session])).fetchall()
        return [SentRef(*row) for row in rows]

    async def set_file(self, fence: Fence, session: str, path: str, digest: str) -> None:
        """In one transaction with the look at the lease."""
        async with self._transaction(fence) as connection:
            await connection.execute("SELECT hold(%s, %s)", [fence.task_id, fence.token])
            await connection.execute(_SET_FILE, [session, path, digest])

    async def files(self, session: str) -> Mapping[str, str]:
        """By path."""
        async with self._transaction() as connection:
            rows = await (await connection.execute(_FILES, [session])).fetchall()
        return dict(rows)

    def _too_large(self, why: str) -> StorageFull:
        return StorageFull(self.place.shown, f"Too large to be sent by the store: {why}")

    @asynccontextmanager
    async def _transaction(
        self, fence: Fence | None = None
    ) -> AsyncGenerator[psycopg.AsyncConnection]:
        try:
            async with await psycopg.AsyncConnection.connect(self.place.conninfo) as connection:
                yield connection
        except psycopg.Error as error:
            if fence is not None and error.sqlstate == LOST:
                raise LeaseLost(fence.task_id, fence.token) from None
            raise explained(self.place, error) from None


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:.0f} MB"
