"""Our ends of a child's pipes or pseudo-terminal: output and its lines, input, stderr.

The streams are driven by callbacks of the event loop and need no task, so a child may be opened by
one task and closed by another.
"""

from __future__ import annotations

import asyncio
import json
import os
import termios
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import anyio

HIGH_WATER = 4 * 1024 * 1024
"""With more unread bytes than this the child has to wait, which bounds memory under a flood."""
TAIL = 64 * 1024
LONGEST_LINE = 64 * 1024 * 1024


async def read_from(fd: int, protocol: asyncio.Protocol) -> None:
    """Connect the protocol to read from `fd`, which is closed with its transport."""
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb", buffering=0))


async def write_to(fd: int, protocol: asyncio.BaseProtocol) -> None:
    """Connect the protocol to write to `fd`, which is closed with its transport."""
    loop = asyncio.get_running_loop()
    await loop.connect_write_pipe(lambda: protocol, os.fdopen(fd, "wb", buffering=0))


class OutputReader(asyncio.Protocol):
    """A child's output, buffered until received, with backpressure.

    `also` is called with everything as it arrives.  A pseudo-terminal ends with EIO, a pipe with an
    empty read; both are treated as a normal end.
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
        if self._size > HIGH_WATER:
            self.pause()
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()
        self._news.set()
        if self._sink is not None:
            self._sink(b"")

    async def receive(self) -> bytes:
        """The next chunk; empty at the end of the output.  For one reader at a time."""
        while not self._chunks:
            if self.ended.is_set():
                return b""
            self._news = anyio.Event()
            await self._news.wait()
        return self._pop()

    def pending(self) -> list[bytes]:
        """All output that has arrived but was not received."""
        return [self._pop() for _ in range(len(self._chunks))]

    def divert(self, sink: Callable[[bytes], None] | None) -> None:
        """Pass buffered and all further output to `sink`; None: buffer it again.

        The end is passed as an empty chunk.
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
        if self._size <= HIGH_WATER // 2:
            self.resume()
        return chunk

    def pause(self) -> None:
        """Read nothing more for now, so that the child has to wait."""
        if self._transport is not None and not self._paused:
            self._transport.pause_reading()
            self._paused = True

    def resume(self) -> None:
        """Read on, if reading was paused."""
        if self._paused and self._transport is not None:
            self._transport.resume_reading()
            self._paused = False

    def end_when_quiet(self, seconds: float, looks: int = 10) -> None:
        """Close it, even if another process keeps the pipe open, after this long without output.

        With continuing output it is closed after `looks` such intervals; output that waits because
        we are slow to receive it is never cut off.
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
        """Stop reading; output that has arrived can still be received."""
        if self._transport is not None:
            self._transport.close()


class Tail:
    """The last bytes written to it."""

    def __init__(self, size: int = TAIL) -> None:
        self._size = size
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        """Append a chunk; at least the last `size` bytes are kept."""
        self._kept += chunk[-self._size :]
        if len(self._kept) > 2 * self._size:  # not every time: trimming moves the data
            del self._kept[: -self._size]

    @property
    def text(self) -> str:
        """The last bytes, as text."""
        return bytes(self._kept[-self._size :]).decode("utf-8", "replace")


class InputWriter(asyncio.BaseProtocol):
    """A child's input.  A child that stops reading is not an error: its exit tells the outcome."""

    def __init__(self) -> None:
        self._broken = False
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = True

    def post(self, data: bytes) -> None:
        """Queue data, which is written as fast as the child reads."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Write everything queued, then close the pipe."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the pipe at once."""
        pipe = self._transport
        # A closing pipe with nothing left to write already has its connection_lost scheduled:
        # aborting it would make asyncio call that twice and fail the second time.
        if pipe is None or self._broken or (pipe.is_closing() and not pipe.get_write_buffer_size()):
            return
        pipe.abort()


@dataclass(frozen=True)
class Stdio:
    """Both ends of a child's standard streams; on a terminal they are a single stream."""

    theirs: tuple[int, int, int]
    ours: tuple[int, int, int | None]
    """The descriptors for writing its input, reading its output and reading its stderr."""

    @classmethod
    def pipes(cls) -> Stdio:
        (child_in, to_child), (output, child_out) = os.pipe(), os.pipe()
        errors, child_errors = os.pipe()
        return cls((child_in, child_out, child_errors), (to_child, output, errors))

    @classmethod
    def terminal(cls) -> Stdio:
        ours, theirs = open_terminal()
        return cls((theirs, theirs, theirs), (ours, os.dup(ours), None))

    @contextmanager
    def handed_over(self) -> Generator[None]:
        """Start the child in this block: its ends are closed after it, and ours too on failure."""
        try:
            yield
        except BaseException:
            self.close()
            raise
        finally:
            for fd in set(self.theirs):
                os.close(fd)

    def close(self) -> None:
        """Close our ends."""
        for fd in self.ours:
            if fd is not None:
                os.close(fd)


ROWS, COLUMNS = 50, 200
END_OF_FILE = b"\x04"
LONGEST_PIECE = 1024
"""Safely below 4,095 bytes, after which a terminal's line buffer silently drops the rest."""


def open_terminal() -> tuple[int, int]:
    """Our end and the child's end of a new pseudo-terminal.

    The kernel still assembles lines (ICANON), because only then can the end of input be signalled;
    everything that would alter input or output is turned off.
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
    """The bytes to write so that a program that reads lines receives exactly `data`.

    A ^D in the middle of a line passes on the part so far without ending the line, which allows
    lines longer than the kernel's buffer; a ^D in the data itself is therefore left out.
    """
    lines = data.replace(END_OF_FILE, b"").split(b"\n")
    pieces = (
        [line[at : at + LONGEST_PIECE] for at in range(0, len(line), LONGEST_PIECE)]
        for line in lines
    )
    return b"\n".join(END_OF_FILE.join(line) for line in pieces)


class LineSplitter:
    """Splits chunks into complete lines, each cut to a maximum length.

    The pieces of an unfinished line are kept in a list and joined once, at its end, so that the
    cost of a line of many megabytes is linear in its length.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines = [line for piece in ended if (line := self._end(piece)) is not None]
        self._add(rest)
        return lines

    def finish(self) -> bytes | None:
        """The unfinished line that is left at the end of the output."""
        if not (self._pieces or self._skipping):
            return None
        return self._end(b"")

    def discard_partial(self) -> None:
        """Drop the unfinished line, up to and including its newline in a later chunk."""
        self._skipping = self._skipping or bool(self._pieces)
        self._forget()

    def _add(self, piece: bytes) -> None:
        piece = piece[: self._longest - self._size]
        if piece and not self._skipping:
            self._pieces.append(piece)
            self._size += len(piece)

    def _end(self, piece: bytes) -> bytes | None:
        self._add(piece)
        line = b"".join(self._pieces).removesuffix(b"\r")
        skipped, self._skipping = self._skipping, False
        self._forget()
        return None if skipped else line

    def _forget(self) -> None:
        self._pieces, self._size = [], 0


def parse_object(line: str | bytes) -> Mapping[str, object] | None:
    """The JSON object in a line; None if there is none, even for maliciously crafted lines.

    Invalid UTF-8 becomes U+FFFD.
    """
    line = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if not line.lstrip().startswith("{"):
        return None
    try:
        # Not strict: a raw control character in a string should not lose the reply.
        value: object = json.loads(line, strict=False)
    except (ValueError, RecursionError):  # ValueError: also for numbers with too many digits
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def text_of(value: object) -> str | None:
    """The text in a field: a string, or a list of `{"type": "text", "text": …}` blocks."""
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, list):
        return None
    texts: list[str] = []
    for item in cast("list[object]", value):
        block = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            texts.append(text)
    return clean("".join(texts)) if texts else None


def clean(text: str) -> str:
    """Text that any store and program can handle: without lone surrogates and NULs."""
    return replace_surrogates(text).replace("\0", "\ufffd")


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, for programs that cannot handle them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
