"""Owners of tasks that are forked from a process which has imported what they need.

Importing costs more than what such an owner does between two kills.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from coterie.model.record import Record

ROOT = Path(__file__).parents[2]
_LATE = (
    "coterie.app.store",
    "coterie.engine.leased",
    "coterie.stores.postgres.blobs",
    "coterie.stores.postgres.dispatch",
    "coterie.stores.postgres.owners",
    "coterie.stores.postgres.storage",
)
"""What is imported where a store is used."""


class Parent:
    """The process that forks, as the one that kills sees it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def fork(self, root: Path) -> int:
        """Start a process that owns the task of this folder; returns its pid."""
        await self._input.send(f"{root}\n".encode())
        return int(await self._output.receive_until(b"\n", 100))

    async def ended(self) -> int:
        """Wait for it; returns its exit code, or the signal as a negative number."""
        return int(await self._output.receive_until(b"\n", 100))


def kill(process: int) -> None:
    """kill -9, unless it has ended, of which we have yet to hear."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


class Silent:
    """An observer for runs that nobody watches."""

    def saw(self, record: Record) -> None:
        """Nobody looks."""


def serve(own: Callable[[Path], Awaitable[int]], *late: str) -> None:
    """Fork an owner for each folder on stdin; print its pid, and then how it ended.

    `late` are modules that are imported where they are used.
    """
    for module in (*_LATE, *late):
        import_module(module)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            os.dup2(nothing, 0)
            os._exit(anyio.run(own, Path(line.rstrip("\n"))))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
