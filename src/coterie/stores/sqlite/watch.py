"""Noticing that others have written: a version that grows, and the look that makes it grow.

The look is `PRAGMA data_version` on the writer's own connection between transactions: it changes
with every commit of another connection and never with ours, whose own answers and requests are
announced by `bump`.  A change only means: look again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable

from coterie.stores.sqlite.queries import SQL

LOOK = 0.05
"""How often others' commits are looked for, in seconds, while somebody waits for them."""


class Watch:
    """Who waits for a change, on the loop, and the look for one, on the writer's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake_thread: Callable[[], None]) -> None:
        self._loop = loop
        self._wake_thread = wake_thread
        # Not 0: the first `changed(0)` says "look", so that nothing from before is missed.
        self._version = 1
        self._waiters: set[asyncio.Future[None]] = set()
        self._wanted = False
        self._looking = False
        self._seen: object = None
        self._looked_at = 0.0

    # -- on the loop ---------------------------------------------------------------------------

    async def changed(self, seen: int) -> int:
        """Wait until the version is another one than `seen`; returns it."""
        while self._version <= seen:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.add(waiter)
            self._wanted = True
            if not self._looking:
                self._wake_thread()
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
                self._wanted = bool(self._waiters)
        return self._version

    def bump(self) -> None:
        """Somebody may have written: wake all who wait."""
        self._version += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- on the thread -------------------------------------------------------------------------

    def begin(self, connection: sqlite3.Connection) -> None:
        """Remember how things stand before anybody has looked."""
        self._seen = self._data_version(connection)

    def wanted(self) -> bool:
        """Whether to look from time to time.

        The order matters: the loop first says that it wants, then asks whether we look; we
        first say that we do not, then ask again whether it wants.
        """
        self._looking = self._wanted
        if not self._looking:
            self._looking = self._wanted
        return self._looking

    def look(self, connection: sqlite3.Connection) -> None:
        """Look for a change, unless we did a moment ago."""
        now = time.monotonic()
        if now - self._looked_at < LOOK * 0.9:
            return
        self._looked_at = now
        version = self._data_version(connection)
        if version != self._seen:
            self._seen = version
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self.bump)

    def _data_version(self, connection: sqlite3.Connection) -> object:
        try:
            return connection.execute(SQL["data_version"]).fetchall()[0][0]
        except sqlite3.Error:
            return object()  # unlike any other: who looks again will be told what is wrong
