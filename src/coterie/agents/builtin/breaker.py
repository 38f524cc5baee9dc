"""Breaking off: whatever the agent waits for ends at once when the user says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

_T = TypeVar("_T")


class Interrupted(Exception):
    """The user broke the turn off."""


class Breaker:
    """Stands around everything in a turn that takes time."""

    def __init__(self) -> None:
        self._asked = False
        self._scope: anyio.CancelScope | None = None

    def reset(self) -> None:
        """A new turn begins: what was said to an earlier one is over."""
        self._asked = False

    def interrupt(self) -> None:
        """Break off what runs now, and let nothing new begin."""
        self._asked = True
        if self._scope is not None:
            self._scope.cancel()

    def check(self) -> None:
        """Raise Interrupted where that was asked for."""
        if self._asked:
            raise Interrupted

    async def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """The outcome of the work, or Interrupted as soon as that is asked for."""
        self.check()
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                return await work()
            finally:
                self._scope = None
        raise Interrupted
