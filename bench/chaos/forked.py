"""Owners of tasks, forked from a process that has already imported what they need.

Importing costs more than everything such an owner does between two kills.
"""

from __future__ import annotations

import gc
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
    "anyio._backends._asyncio",
    "coterie.app.elsewhere",
    "coterie.app.store",
    "coterie.app.takeover",
    "coterie.app.travel",
    "coterie.engine.leased",
    "coterie.stores.postgres.blobs",
    "coterie.stores.postgres.dispatch",
    "coterie.stores.postgres.owners",
    "coterie.stores.postgres.storage",
)
"""Modules that are imported only when a store is used."""


class Parent:
    """The forking process, as seen by the one that kills."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def fork(self, root: Path) -> int:
        """Start a process that owns the task of this folder; return its pid."""
        await self._input.send(f"{root}\n".encode())
        return int(await self._output.receive_until(b"\n", 100))

    async def ended(self) -> int:
        """Wait for the process; return its exit code, or the signal as a negative number."""
        return int(await self._output.receive_until(b"\n", 100))


def kill(process: int) -> None:
    """Send SIGKILL; the process may have ended without our knowing yet."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


class NullObserver:
    """An observer for runs that nobody watches."""

    def saw(self, record: Record) -> None:
        """Ignore the record."""


def serve(own: Callable[[Path], Awaitable[int]], *late: str) -> None:
    """Fork an owner for each folder on stdin; print its pid, and then its exit code.

    `late` are modules that would otherwise be imported only when used.
    """
    for module in (*_LATE, *late):
        import_module(module)
    gc.freeze()  # a collection in an owner would write to, and so copy, all that is shared
    nothing = os.open(os.devnull, os.O_RDONLY)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            os.dup2(nothing, 0)
            os._exit(anyio.run(own, Path(line.rstrip("\n"))))
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
