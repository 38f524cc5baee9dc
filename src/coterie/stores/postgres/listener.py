"""Notices when others have written: every commit sends a notification that names its writer."""

from __future__ import annotations

import asyncio

PAUSE = 0.05
"""The minimum interval between wake-ups for non-urgent changes, such as messages, in seconds."""


class Listener:
    """Wakes tasks that wait for a change.  A change only means: look again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, own: str) -> None:
        self._loop = loop
        self._own = own
        # Not 0: the first `changed(0)` returns at once, so that no earlier change is missed.
        self.version: int = 1
        self._changed: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def changed(self, seen: int) -> int:
        """Wait until the version is higher than `seen`; returns it."""
        while self.version <= seen:
            if self._changed is None:
                self._changed = self._loop.create_future()
            await asyncio.shield(self._changed)
        return self.version

    def on_notify(self, note: str) -> None:
        """Handle a commit's notification: its writer's id, with a `!` for an answer or request."""
        writer, urgent, _ = note.partition("!")
        if writer == self._own:
            return
        if urgent:
            self.bump()
        elif self._timer is None:
            self._timer = self._loop.call_later(PAUSE, self.bump)

    def bump(self) -> None:
        """Wake all waiting tasks: somebody may have written."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.version += 1
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None
