"""One HTTP/1.1 connection: reads requests of bounded size, writes whole and chunked responses."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib import import_module
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
"""A request with a few images takes several megabytes; more than this is a mistake."""
_MAX_LINE = 4096
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""zlib's window bits for gzip and for zlib's own container, which is what "deflate" means."""

_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError)
GONE: tuple[type[Exception], ...] = (*_CLOSED, anyio.EndOfStream, anyio.IncompleteRead)
"""What reading and writing raise when the peer has disconnected."""


class MalformedRequest(Exception):
    """A request that cannot be read.  The connection is unusable afterwards, unless only the body's
    Content-Encoding could not be decoded."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class HttpRequest:
    """A request as received."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    body: bytes

    @property
    def wants_upgrade(self) -> bool:
        """Whether the client asks to switch to another protocol, such as WebSocket."""
        return "upgrade" in self.headers.get("connection", "").lower()

    def unpacked(self) -> bytes:
        """Decode the body's Content-Encoding; a small body cannot expand into a huge one."""
        packing = self.headers.get("content-encoding", "").strip().lower()
        if packing in ("identity", ""):
            return self.body
        data = None
        with suppress(ImportError, KeyError):
            unpacker, error = _unpacker(packing)
            with suppress(error):
                data: bytes | None = unpacker.decompress(self.body, MAX_BODY + 1)
        if data is None or len(data) > MAX_BODY:
            problem = f"The body cannot be decoded as {packing!r}."
            raise MalformedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
        return data


class Connection:
    """The server's end of one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._incoming = BufferedByteReceiveStream(stream)
        self._bodiless = False
        self.keep_alive = True
        """Whether another request may follow."""

    async def next_request(self) -> HttpRequest | None:
        """The next request, or None when the client is done."""
        try:
            head = await self._incoming.receive_until(b"\r\n\r\n", MAX_HEAD)
        except anyio.DelimiterNotFound:
            raise MalformedRequest(431, "The head of the request is too long.") from None
        except GONE:
            return None
        method, target, headers = _parsed_head(head)
        self.keep_alive: bool = headers.get("connection", "").lower() != "close"
        self._bodiless = method == "HEAD"
        if headers.get("expect", "").lower() == "100-continue":
            await self._stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return HttpRequest(method, target, headers, await self._body(headers))

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._chunks()
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise MalformedRequest(400, "Content-Length is not a number.")
        return await self._exactly(int(length))

    async def _exactly(self, size: int) -> bytes:
        if size > MAX_BODY:
            raise MalformedRequest(413, f"The body is larger than {MAX_BODY} bytes.")
        return await self._incoming.receive_exactly(size) if size else b""

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := _chunk_size(await self._line()):
            body += await self._exactly(size)
            await self._line()
            if len(body) > MAX_BODY:
                raise MalformedRequest(413, f"The body is larger than {MAX_BODY} bytes.")
        while await self._line():  # trailers
            pass
        return bytes(body)

    async def _line(self) -> bytes:
        try:
            return await self._incoming.receive_until(b"\r\n", _MAX_LINE)
        except anyio.DelimiterNotFound:
            raise MalformedRequest(400, "A line of a chunked body is too long.") from None

    async def wait_closed(self) -> None:
        """Wait until the client has closed its end."""
        try:
            while await self._incoming.receive():
                pass
        except GONE:
            return

    async def respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        head = _head(
            status, {**headers, "content-length": str(len(body)), **self._connection_header()}
        )
        await self._stream.send(head if self._bodiless else head + body)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of a response whose body follows in chunks."""
        chunked = {"transfer-encoding": "chunked"}
        await self._stream.send(_head(status, {**headers, **chunked, **self._connection_header()}))

    async def chunk(self, data: bytes) -> None:
        await self._stream.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self._stream.send(b"0\r\n\r\n")

    def _connection_header(self) -> Mapping[str, str]:
        return {} if self.keep_alive else {"connection": "close"}


def _unpacker(packing: str) -> tuple[Any, type[Exception]]:
    """Return the decompressor for an encoding, and what it raises for broken data."""
    if packing == "zstd":
        zstd = import_module("compression.zstd")  # in the standard library since Python 3.14
        return zstd.ZstdDecompressor(), zstd.ZstdError
    return zlib.decompressobj(_WINDOW_BITS[packing]), zlib.error


def _parsed_head(head: bytes) -> tuple[str, str, Mapping[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise MalformedRequest(400, "This is not an HTTP/1.1 request.")
    pairs = (line.partition(":") for line in lines)
    return words[0], words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    known = {each.value: each.phrase for each in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9A-Fa-f]+", digits):
        raise MalformedRequest(400, "A chunk does not begin with its size.")
    return int(digits, 16)
