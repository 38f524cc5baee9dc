"""From the writer's thread back to the loop: what is done, and a byte in a pipe that says so.

`loop.call_soon_threadsafe` does the same over a socket that it reads twice; once a turn that is
a tenth of what the whole commit costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Bell(Generic[T]):
    """A queue from one thread to the loop, which calls `answer` with every thing in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[T], None]) -> None:
        self._loop = loop
        self._answer = answer
        self._things: deque[T] = deque()
        self._ear, self._rope = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._rope, False)
        loop.add_reader(self._ear, self._hear)

    def ring(self, thing: T) -> None:
        """On the thread: hand it over."""
        self._things.append(thing)
        with contextlib.suppress(BlockingIOError):  # full: then the loop is awake already
            os.write(self._rope, b"!")

    def take_down(self) -> None:
        """On the loop, when the thread has ended; what was rung before is still answered."""
        self._loop.remove_reader(self._ear)
        os.close(self._ear)
        os.close(self._rope)
        self._answer_all()

    def _hear(self) -> None:
        # Read first: what is rung after this leaves a byte for the next time.
        with contextlib.suppress(BlockingIOError):
            os.read(self._ear, 4096)
        self._answer_all()

    def _answer_all(self) -> None:
        while self._things:
            self._answer(self._things.popleft())
