"""Notices that others have written: every commit notifies, and says by whom it was."""

from __future__ import annotations

import asyncio

PAUSE = 0.05
"""What nobody waits for, such as a message, is told no more often than this, in seconds."""


class Listener:
    """Who waits for a change, and what wakes them.  A change only means: look again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, own: str) -> None:
        self._loop = loop
        self._own = own
        # Not 0: the first `changed(0)` says "look", so that nothing from before is missed.
        self.version: int = 1
        self._changed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def changed(self, seen: int) -> int:
        """Wait until the version is another one than `seen`; returns it."""
        while self.version <= seen:
            if self._changed is None:
                self._changed = self._loop.create_future()
            await asyncio.shield(self._changed)
        return self.version

    def heard(self, note: str) -> None:
        """A commit, by the id of its writer; `!` behind it: an answer or a request."""
        writer, urgent, _ = note.partition("!")
        if writer == self._own:
            return
        if urgent:
            self.bump()
        elif self._timer is None:
            self._timer = self._loop.call_later(PAUSE, self.bump)

    def bump(self) -> None:
        """Somebody may have written: wake all who wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.version += 1
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None
