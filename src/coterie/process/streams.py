"""Our ends of a child's pipes or pseudo-terminal: its output, its input, the tail of its stderr.

They are driven by the event loop's own callbacks and need no task, so a child may be opened by
one task and closed by another.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections import deque
from collections.abc import Callable
from typing import cast

import anyio

HIGH_WATER = 4 * 1024 * 1024
"""More than this unread and the child has to wait; small enough that a flood is no memory leak."""
TAIL = 64 * 1024


async def read_from(fd: int, protocol: asyncio.Protocol) -> None:
    """Let the protocol have what comes out of `fd`, which is closed with it."""
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb", buffering=0))


async def write_to(fd: int, protocol: asyncio.BaseProtocol) -> None:
    """Let the protocol write to `fd`, which is closed with it."""
    loop = asyncio.get_running_loop()
    await loop.connect_write_pipe(lambda: protocol, os.fdopen(fd, "wb", buffering=0))


class OutputReader(asyncio.Protocol):
    """What a child prints: kept until it is received, with back pressure.

    `also` sees everything as it comes.  The end of a pseudo-terminal comes as EIO, that of a
    pipe as an empty read; to us both are an end and neither is an error.
    """

    def __init__(self, also: Callable[[bytes], None] | None = None) -> None:
        self.ended: anyio.Event = anyio.Event()
        self._also = also
        self._news = anyio.Event()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._seen = 0
        self._sink: Callable[[bytes], None] | None = None
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._seen += 1
        if self._also is not None:
            self._also(data)
        if self._sink is not None:
            self._sink(data)
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER and self._transport is not None and not self._paused:
            self._transport.pause_reading()
            self._paused = True
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._news.set()
        if self._sink is not None:
            self._sink(b"")

    async def receive(self) -> bytes:
        """The next chunk; empty when nothing will come any more.  For one reader at a time."""
        while not self._chunks:
            if self.ended.is_set():
                return b""
            self._news = anyio.Event()
            await self._news.wait()
        return self._pop()

    def pending(self) -> list[bytes]:
        """All that has come and was not received."""
        return [self._pop() for _ in range(len(self._chunks))]

    def divert(self, sink: Callable[[bytes], None] | None) -> None:
        """Give what is kept, and all that comes from now on, to `sink`; None: keep it again.

        The end comes as an empty chunk.
        """
        self._sink = sink
        if sink is not None:
            for chunk in self.pending():
                sink(chunk)
            if self.ended.is_set():
                sink(b"")

    def _pop(self) -> bytes:
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        if self._paused and self._size <= HIGH_WATER // 2 and self._transport is not None:
            self._transport.resume_reading()
            self._paused = False
        return chunk

    def end_when_quiet(self, seconds: float, looks: int = 10) -> None:
        """End it even if someone keeps the pipe open, once it has been quiet for so long.

        Who goes on writing is heard for so many times that long, but not for ever; what we
        ourselves are slow to receive is never cut.
        """
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._end_if_quiet, seconds, looks, self._seen)

    def _end_if_quiet(self, seconds: float, looks: int, seen: int) -> None:
        if self.ended.is_set():
            return
        if self._paused:
            self.end_when_quiet(seconds, looks)
        elif self._seen != seen and looks > 1:
            self.end_when_quiet(seconds, looks - 1)
        else:
            self.close()

    def close(self) -> None:
        """Read no more; what has come can still be received."""
        if self._transport is not None:
            self._transport.close()


class Tail:
    """The last of what was written to it."""

    def __init__(self, size: int = TAIL) -> None:
        self._size = size
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        """Keep the end of what there is now."""
        self._kept += chunk[-self._size :]
        if len(self._kept) > 2 * self._size:  # not every time: that would move it on each chunk
            del self._kept[: -self._size]

    @property
    def text(self) -> str:
        """What is kept, as text."""
        return bytes(self._kept[-self._size :]).decode("utf-8", "replace")


class InputWriter(asyncio.BaseProtocol):
    """A child's input.  That it no longer reads is no error: its exit says what there is to say."""

    def __init__(self) -> None:
        self._broken = False
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = True

    def post(self, data: bytes) -> None:
        """Queue it, to be written as fast as the child reads."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Write what is queued, then close the pipe."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the pipe at once."""
        if self._transport is not None and not self._broken:
            self._transport.abort()


ROWS, COLUMNS = 50, 200
END_OF_FILE = b"\x04"
LONGEST_PIECE = 1024
"""A terminal's line buffer holds 4,095 bytes and silently drops the rest of a longer line."""


def open_terminal() -> tuple[int, int]:
    """Our end and the child's end of a new pseudo-terminal.

    Lines are still put together by the kernel (ICANON), because only then can the end of the
    input be told; all that would change what is sent or printed is off.
    """
    ours, theirs = os.openpty()
    mode = termios.tcgetattr(theirs)
    mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP | termios.IXON)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~(termios.ECHO | termios.ECHONL | termios.ISIG | termios.IEXTEN)
    mode[3] |= termios.ICANON
    nothing = os.fpathconf(theirs, "PC_VDISABLE").to_bytes(1, "little", signed=False)
    for key in (termios.VERASE, termios.VKILL, termios.VEOL, termios.VEOL2):
        mode[6][key] = nothing
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    return ours, theirs


def typed(data: bytes) -> bytes:
    """The bytes to write so that a program that reads lines gets exactly `data`.

    A ^D in the middle of a line hands over what there is of it without ending anything, which
    is how a line gets to be longer than the kernel's buffer; so one in the text is left out.
    """
    lines = data.replace(END_OF_FILE, b"").split(b"\n")
    return b"\n".join(_in_pieces(line) for line in lines)


def _in_pieces(line: bytes) -> bytes:
    starts = range(0, len(line), LONGEST_PIECE)
    return END_OF_FILE.join(line[at : at + LONGEST_PIECE] for at in starts)
