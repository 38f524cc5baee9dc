"""A bare HTTP client that shows exactly what came back, and a canned responder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.streams.buffered import BufferedByteStream

from coterie.rehearsal.model_api import Answer, CompletionRequest, reply


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True
    """Whether the body arrived completely."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = self.body.decode().splitlines()
        said = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(each) for each in said if each != "[DONE]"]


class HttpConnection:
    """One connection."""

    def __init__(self, stream: BufferedByteStream) -> None:
        self.stream = stream

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def ask(self, path: str, body: object = None, **headers: str) -> HttpResponse:
        data = b"" if body is None else json.dumps(body).encode()
        await self.send(request("GET" if body is None else "POST", path, data, headers))
        return await self.answer()

    async def head(self) -> tuple[int, Mapping[str, str]]:
        text = (await self.stream.receive_until(b"\r\n\r\n", 1 << 16)).decode()
        first, *lines = text.split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return int(first.split()[1]), {name: value for name, _, value in pairs}

    async def answer(self, *, bodiless: bool = False) -> HttpResponse:
        status, headers = await self.head()
        if bodiless:
            return HttpResponse(status, headers, b"")
        if "content-length" in headers:
            body = await self.stream.receive_exactly(int(headers["content-length"]))
            return HttpResponse(status, headers, body)
        body = b""
        try:
            while chunk := await self.chunk():
                body += chunk
        except (anyio.IncompleteRead, anyio.EndOfStream):
            return HttpResponse(status, headers, body, whole=False)
        return HttpResponse(status, headers, body)

    async def chunk(self) -> bytes:
        size = int(await self.stream.receive_until(b"\r\n", 64), 16)
        return (await self.stream.receive_exactly(size + 2))[:-2]


def request(method: str, path: str, data: bytes, headers: Mapping[str, str]) -> bytes:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", "host: here", f"content-length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in spelled.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[HttpConnection]:
    place = urlsplit(url)
    assert place.hostname
    assert place.port
    async with await anyio.connect_tcp(place.hostname, place.port) as stream:
        yield HttpConnection(BufferedByteStream(stream))


class QueuedResponder:
    """A responder that returns the given answers in order."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[CompletionRequest] = []

    async def answer(self, request: CompletionRequest) -> Answer:
        self.asked.append(request)
        return self.answers.pop(0) if self.answers else reply("fine")
