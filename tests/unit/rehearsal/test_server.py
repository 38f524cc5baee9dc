"""The server over a real socket, byte by byte."""

from __future__ import annotations

import dataclasses
import gzip
import json
import pickle
import sys
import zlib
from collections.abc import AsyncIterator

import anyio
import pytest

from coterie.rehearsal import server as server_module
from coterie.rehearsal.connection import MAX_BODY
from coterie.rehearsal.dialogue import Answer, Asked, Refusal, Reply, Silence, reply
from coterie.rehearsal.received import Token
from coterie.rehearsal.server import RehearsalServer
from tests.unit.rehearsal.talking import request, talking

MESSAGES = "/v1/messages"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = {**HELLO, "stream": True}
ZSTD = "28b52ffd04581100007b7dd194f27a"
"""What an empty object becomes."""
CHUNKED = b"POST /v1/messages HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n"


class Given:
    """A brain that answers what it was given, one after another."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []

    async def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answers.pop(0) if self.answers else reply("fine")


@pytest.fixture
async def server() -> AsyncIterator[RehearsalServer]:
    with anyio.fail_after(20):
        async with RehearsalServer(Given()) as running:
            yield running


# -- HTTP --------------------------------------------------------------------------------------


async def test_many_requests_on_one_connection(server: RehearsalServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    async with talking(server.url) as talk:
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
    async with talking(server.url) as talk:
        await talk.send(CHUNKED + b"\r\n" + halves + b"0\r\ntrailer: x\r\n\r\n")
        assert (await talk.answer()).status == 200
        assert (await talk.ask(MESSAGES, HELLO)).status == 200
    assert server.requests[0].body == HELLO


async def test_a_client_that_waits_to_be_told(server: RehearsalServer) -> None:
    data = json.dumps(HELLO).encode()
    whole = request("POST", MESSAGES, data, {"expect": "100-continue"})
    async with talking(server.url) as talk:
        await talk.send(whole.removesuffix(data))
        assert (await talk.head())[0] == 100
        await talk.send(data)
        assert (await talk.answer()).status == 200


@pytest.mark.parametrize(
    ("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
async def test_packed_bodies(server: RehearsalServer, packing: str, pack: type[bytes]) -> None:
    data = pack(json.dumps(HELLO).encode())
    async with talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, data, {"content-encoding": packing}))
        assert (await talk.answer()).status == 200
    assert server.requests[0].body == HELLO


async def test_zstd_is_read_where_python_can(server: RehearsalServer) -> None:
    frame = bytes.fromhex(ZSTD)
    async with talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, frame, {"content-encoding": "zstd"}))
        assert (await talk.answer()).status == (200 if sys.version_info >= (3, 14) else 415)


@pytest.mark.parametrize("packing", ["br", "gzip"])
async def test_a_body_that_cannot_be_unpacked(server: RehearsalServer, packing: str) -> None:
    async with talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, b"\x28\xb5\x2f", {"content-encoding": packing}))
        refused = await talk.answer()
        assert (await talk.ask(MESSAGES, HELLO)).status == 200
    assert refused.status == 415
    assert "gzip" in refused.headers["accept-encoding"]


async def test_a_small_body_that_would_be_huge(server: RehearsalServer) -> None:
    bomb = gzip.compress(b" " * (MAX_BODY + 10))
    async with talking(server.url) as talk:
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
    async with talking(server.url) as talk:
        await talk.send(sent)
        answered = await talk.answer()
        assert answered.status == status
        assert answered.headers["connection"] == "close"
    async with talking(server.url) as talk:
        assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_a_client_that_leaves_harms_nothing(server: RehearsalServer) -> None:
    for sent in (b"", b"POST /v1/mess", CHUNKED + b"\r\n5\r\nab"):
        async with talking(server.url) as talk:
            await talk.send(sent)
    async with talking(server.url) as talk:
        assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_it_closes_when_asked_to(server: RehearsalServer) -> None:
    async with talking(server.url) as talk:
        answered = await talk.ask(MESSAGES, HELLO, connection="close")
        assert answered.headers["connection"] == "close"
        with pytest.raises((anyio.EndOfStream, anyio.IncompleteRead)):
            await talk.stream.receive()


# -- paths -------------------------------------------------------------------------------------


async def test_what_is_looked_up(server: RehearsalServer) -> None:
    async with talking(server.url) as talk:
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
    async with talking(server.url) as talk:
        answered = await talk.ask(path, HELLO)
    assert (answered.status, b"fine" in answered.body) == (200, True)
    assert len(server.turns) == 1


async def test_websockets_are_refused_so_that_codex_believes_it(server: RehearsalServer) -> None:
    async with talking(server.url) as talk:
        answered = await talk.ask("/v1/responses", connection="Upgrade", upgrade="websocket")
    assert answered.status == 426
    assert server.turns == []


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_object(server: RehearsalServer, data: bytes) -> None:
    async with talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, data, {}))
        answered = await talk.answer()
    assert (answered.status, answered.json["error"]["type"]) == (400, "invalid_request_error")


# -- faults ------------------------------------------------------------------------------------


async def test_refusals_say_when_to_come_back() -> None:
    brain = Given(Refusal(429, "slow", 0.25), Refusal(500, "oh"))
    async with RehearsalServer(brain) as server, talking(server.url) as talk:
        limited = await talk.ask(MESSAGES, STREAMED)
        broken = await talk.ask(MESSAGES, STREAMED)
    assert limited.status == 429
    assert limited.headers["retry-after"] == "1"
    assert limited.headers["retry-after-ms"] == "250"
    assert (broken.status, "retry-after" in broken.headers) == (500, False)


@pytest.mark.parametrize("body", [STREAMED, HELLO])
async def test_a_cut_reply(body: object) -> None:
    cut = Reply(("one ", "two ", "three ", "four"), breaks="cut")
    async with RehearsalServer(Given(cut)) as server, talking(server.url) as talk:
        answered = await talk.ask(MESSAGES, body)
    assert (answered.status, answered.whole) == (200, False)
    assert b"one" in answered.body
    assert b"message_stop" not in answered.body


async def test_a_stalled_reply_stays_open() -> None:
    stalled = Reply(("one ", "two"), breaks="stall")
    async with RehearsalServer(Given(stalled)) as server, talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(STREAMED).encode(), {}))
        assert (await talk.head())[0] == 200
        while b"one" not in await talk.chunk():
            pass
        with anyio.move_on_after(0.2) as silence:
            while True:
                await talk.chunk()
        assert silence.cancelled_caught


async def test_silence_sends_nothing_and_ends_with_the_server() -> None:
    async with RehearsalServer(Given(Silence())) as server, talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(STREAMED).encode(), {}))
        await server.turn(1)
        with anyio.move_on_after(0.2) as silence:
            await talk.stream.receive()
        assert silence.cancelled_caught


async def test_a_client_may_give_up_on_silence() -> None:
    async with RehearsalServer(Given(Silence())) as server:
        async with talking(server.url) as talk:
            await talk.send(request("POST", MESSAGES, json.dumps(HELLO).encode(), {}) + b"more")
            await server.turn(1)
        async with talking(server.url) as talk:
            assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_slow_streaming_waits_between_pieces() -> None:
    slow = Reply(("one ", "two ", "three"), pause=0.05)
    async with RehearsalServer(Given(slow)) as server, talking(server.url) as talk:
        began = anyio.current_time()
        answered = await talk.ask(MESSAGES, STREAMED)
    assert answered.whole
    assert anyio.current_time() - began >= 0.1


# -- what is kept ------------------------------------------------------------------------------


async def test_a_turn_can_be_waited_for_and_held_back() -> None:
    class Held:
        def __init__(self) -> None:
            self.go = anyio.Event()

        async def answer(self, asked: Asked) -> Answer:
            await self.go.wait()
            return reply(f"You said {asked.newest}.")

    brain = Held()
    async with RehearsalServer(brain) as server, talking(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(HELLO).encode(), {}))
        turn = await server.turn(1)
        assert turn.asked is not None
        assert turn.asked.newest == "hello"
        assert server.answers == {}
        brain.go.set()
        assert b"You said hello." in (await talk.answer()).body
    assert server.answers == {1: reply("You said hello.")}


SECRET = "sk-very-secret"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (MESSAGES, {"x-api-key": SECRET}),
        (MESSAGES, {"Authorization": f"Bearer {SECRET}"}),
        ("/v1beta/models/g:generateContent", {"x-goog-api-key": SECRET}),
        (f"/v1beta/models/g:generateContent?alt=sse&key={SECRET}", {}),
    ],
)
async def test_credentials_are_known_and_never_shown(
    server: RehearsalServer, path: str, headers: dict[str, str]
) -> None:
    async with talking(server.url) as talk:
        assert (await talk.ask(path, HELLO, **headers)).status == 200
    [turn] = server.turns
    assert turn.token.matches(SECRET)
    assert turn.token.reveal() == SECRET
    shown = [repr(turn), f"{turn.token}", json.dumps(server.report())]
    assert [text for text in shown if SECRET in text] == []
    assert server.report()[0]["token"] == Token(SECRET).digest
    for copied in (pickle.dumps, dataclasses.asdict):
        with pytest.raises(TypeError, match="stays in memory"):
            copied(turn)


async def test_requests_without_a_credential(server: RehearsalServer) -> None:
    async with talking(server.url) as talk:
        await talk.ask(MESSAGES, HELLO)
    assert not server.turns[0].token
    assert repr(server.turns[0].token) == "<no token>"
    report = server.report()[0]
    assert 0 <= float(str(report.pop("at"))) < 20
    assert report == {
        "number": 1,
        "method": "POST",
        "path": "/v1/messages",
        "client": "other",
        "model": "m",
        "aside": None,
        "token": None,
    }


async def test_only_so_many_are_kept_whole(
    server: RehearsalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "KEPT", 2)
    async with talking(server.url) as talk:
        for _ in range(4):
            await talk.ask(MESSAGES, HELLO)
    assert [bool(each.body) for each in server.requests] == [False, False, True, True]
    assert [each.asked is not None and each.asked.newest for each in server.turns] == [
        "",
        "",
        "hello",
        "hello",
    ]


async def test_requests_are_answered_side_by_side() -> None:
    class Together:
        def __init__(self) -> None:
            self.here = 0
            self.all = anyio.Event()

        async def answer(self, asked: Asked) -> Answer:
            self.here += 1
            if self.here == 3:
                self.all.set()
            await self.all.wait()
            return reply("together")

    async def one(url: str) -> None:
        async with talking(url) as talk:
            assert (await talk.ask(MESSAGES, HELLO)).status == 200

    with anyio.fail_after(10):
        async with RehearsalServer(Together()) as server, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one, server.url)


async def test_a_brain_that_fails_is_heard_of() -> None:
    class Broken:
        async def answer(self, asked: Asked) -> Answer:
            raise RuntimeError("a bug in a test's brain")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with RehearsalServer(Broken()) as server, talking(server.url) as talk:
            await talk.ask(MESSAGES, HELLO)


async def test_nothing_is_left_when_it_ends() -> None:
    async with RehearsalServer(Given()) as server:
        url = server.url
        async with talking(url) as talk:
            await talk.ask(MESSAGES, HELLO)
    with pytest.raises(OSError, match=r"refused|All connection attempts failed"):
        async with talking(url):
            pass
