"""The server over a real socket, byte by byte."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import AsyncIterator

import anyio
import pytest

from coterie.rehearsal.connection import MAX_BODY
from coterie.rehearsal.server import RehearsalServer
from tests.unit.rehearsal.http_client import QueuedResponder, connect, request

MESSAGES = "/v1/messages"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = {**HELLO, "stream": True}
ZSTD = "28b52ffd04581100007b7dd194f27a"
"""An empty JSON object, compressed."""
CHUNKED = b"POST /v1/messages HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"


@pytest.fixture
async def server() -> AsyncIterator[RehearsalServer]:
    with anyio.fail_after(20):
        async with RehearsalServer(QueuedResponder()) as running:
            yield running


# -- HTTP --------------------------------------------------------------------------------------


async def test_many_requests_on_one_connection(server: RehearsalServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    async with connect(server.url) as talk:
        first = await talk.ask(MESSAGES, HELLO)
        second = await talk.ask(MESSAGES, STREAMED)
        third = await talk.ask("/v1/models")
    assert first.json["content"] == [{"type": "text", "text": "fine"}]
    assert second.headers["content-type"] == "text/event-stream"
    assert second.events[-1] == {"type": "message_stop"}
    assert third.json["data"][0]["id"] == "rehearsal"
    assert [each.number for each in server.requests] == [1, 2, 3]
    assert [each.number for each in server.turns] == [1, 2]


async def test_a_body_in_chunks(server: RehearsalServer) -> None:
    data = json.dumps(HELLO).encode()
    halves = b"%x;note=x\r\n%b\r\n%x\r\n%b\r\n" % (5, data[:5], len(data) - 5, data[5:])
    async with connect(server.url) as talk:
        await talk.send(CHUNKED + b"\r\n" + halves + b"0\r\ntrailer: x\r\n\r\n")
        assert (await talk.answer()).status == 200
        assert (await talk.ask(MESSAGES, HELLO)).status == 200
    assert server.requests[0].body == HELLO


async def test_a_large_body(server: RehearsalServer) -> None:
    long = {**HELLO, "system": "x" * 2_000_000}
    async with connect(server.url) as talk:
        assert (await talk.ask(MESSAGES, long)).status == 200
    assert server.requests[0].body == long


async def test_a_client_that_waits_for_100_continue(server: RehearsalServer) -> None:
    data = json.dumps(HELLO).encode()
    whole = request("POST", MESSAGES, data, {"expect": "100-continue"})
    async with connect(server.url) as talk:
        await talk.send(whole.removesuffix(data))
        assert (await talk.head())[0] == 100
        await talk.send(data)
        assert (await talk.answer()).status == 200


@pytest.mark.parametrize(
    ("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
async def test_packed_bodies(server: RehearsalServer, packing: str, pack: type[bytes]) -> None:
    data = pack(json.dumps(HELLO).encode())
    async with connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, data, {"content-encoding": packing}))
        assert (await talk.answer()).status == 200
    assert server.requests[0].body == HELLO


async def test_zstd_is_read_where_python_can(server: RehearsalServer) -> None:
    frame = bytes.fromhex(ZSTD)
    async with connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, frame, {"content-encoding": "zstd"}))
        assert (await talk.answer()).status == (200 if sys.version_info >= (3, 14) else 415)


@pytest.mark.parametrize("packing", ["br", "gzip", "zstd"])
async def test_a_body_that_cannot_be_unpacked(server: RehearsalServer, packing: str) -> None:
    async with connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, b"\x28\xb5\x2f!", {"content-encoding": packing}))
        refused = await talk.answer()
        assert (await talk.ask(MESSAGES, HELLO)).status == 200
    assert refused.status == 415
    assert "gzip" in refused.headers["accept-encoding"]


async def test_a_small_body_that_would_be_huge(server: RehearsalServer) -> None:
    bomb = gzip.compress(b" " * (MAX_BODY + 10))
    async with connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, bomb, {"content-encoding": "gzip"}))
        assert (await talk.answer()).status == 415


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (CHUNKED + b"\r\n%x\r\n" % (MAX_BODY + 1), 413),
        (CHUNKED + b"\r\nxyz\r\n", 400),
        (CHUNKED + b"\r\n" + b"%x\r\n%b\r\n" % (MAX_BODY, b" " * MAX_BODY) * 2, 413),
        (CHUNKED + b"\r\n-1\r\n", 400),
        (CHUNKED + b"\r\n" + b"1" * 9000, 400),
        (b"GET / HTTP/1.1\r\nlong: " + b"x" * (1 << 17), 431),
    ],
)
async def test_what_is_no_request(server: RehearsalServer, sent: bytes, status: int) -> None:
    async with connect(server.url) as talk:
        await talk.send(sent)
        answered = await talk.answer()
        assert answered.status == status
        assert answered.headers["connection"] == "close"
    async with connect(server.url) as talk:
        assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_a_client_that_leaves_harms_nothing(server: RehearsalServer) -> None:
    for sent in (b"", b"POST /v1/mess", CHUNKED + b"\r\n5\r\nab"):
        async with connect(server.url) as talk:
            await talk.send(sent)
    async with connect(server.url) as talk:
        assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_it_closes_when_asked_to(server: RehearsalServer) -> None:
    async with connect(server.url) as talk:
        answered = await talk.ask(MESSAGES, HELLO, connection="close")
        assert answered.headers["connection"] == "close"
        with pytest.raises((anyio.EndOfStream, anyio.IncompleteRead)):
            await talk.stream.receive()


# -- paths -------------------------------------------------------------------------------------


async def test_what_is_looked_up(server: RehearsalServer) -> None:
    async with connect(server.url) as talk:
        await talk.send(request("HEAD", "/api/hello", b"", {}))
        assert (await talk.answer(bodiless=True)).status == 200
        counted = await talk.ask(f"{MESSAGES}/count_tokens?beta=true", HELLO)
        assert counted.json == {"input_tokens": len(json.dumps(HELLO)) // 4}
        counted = await talk.ask("/v1beta/models/g:countTokens", HELLO)
        assert counted.json == {"totalTokens": len(json.dumps(HELLO)) // 4}
        assert (await talk.ask("/v1/nothing", HELLO)).status == 404
    assert server.turns == []
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages?beta=true",
        "/v1/responses",
        "/member/alice/v1/chat/completions",
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    ],
)
async def test_every_format(server: RehearsalServer, path: str) -> None:
    async with connect(server.url) as talk:
        answered = await talk.ask(path, HELLO)
    assert (answered.status, b"fine" in answered.body) == (200, True)
    assert len(server.turns) == 1


async def test_websockets_are_refused_so_that_codex_believes_it(server: RehearsalServer) -> None:
    async with connect(server.url) as talk:
        answered = await talk.ask("/v1/responses", connection="Upgrade", upgrade="websocket")
    assert answered.status == 426
    assert server.turns == []


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_object(server: RehearsalServer, data: bytes) -> None:
    async with connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, data, {}))
        answered = await talk.answer()
    assert (answered.status, answered.json["error"]["type"]) == (400, "invalid_request_error")
