"""What the server sends for each answer, and what it records of each request."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import AsyncIterator

import anyio
import pytest

from coterie.rehearsal import server as server_module
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ErrorReply,
    ModelReply,
    NoReply,
    reply,
)
from coterie.rehearsal.server import RehearsalServer
from coterie.rehearsal.wire import Credential
from tests.unit.rehearsal.http_client import QueuedResponder, connect, request

MESSAGES = "/v1/messages"
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = {**HELLO, "stream": True}


@pytest.fixture
async def server() -> AsyncIterator[RehearsalServer]:
    with anyio.fail_after(20):
        async with RehearsalServer(QueuedResponder()) as running:
            yield running


# -- faults ------------------------------------------------------------------------------------


async def test_refusals_say_when_to_come_back() -> None:
    responder = QueuedResponder(ErrorReply(429, "slow", 0.25), ErrorReply(500, "oh"))
    async with RehearsalServer(responder) as server, connect(server.url) as talk:
        limited = await talk.ask(MESSAGES, STREAMED)
        broken = await talk.ask(MESSAGES, STREAMED)
    assert limited.status == 429
    assert limited.headers["retry-after"] == "1"
    assert limited.headers["retry-after-ms"] == "250"
    assert (broken.status, "retry-after" in broken.headers) == (500, False)


async def test_a_limit_is_read_from_the_headers_too() -> None:
    responder = QueuedResponder(ErrorReply(429, "no more", resets_in=3600))
    async with RehearsalServer(responder) as server, connect(server.url) as talk:
        limited = await talk.ask(MESSAGES, STREAMED)
    assert limited.headers["anthropic-ratelimit-unified-status"] == "rejected"
    assert limited.headers["retry-after"] == "3600"


@pytest.mark.parametrize("body", [STREAMED, HELLO])
async def test_a_cut_reply(body: object) -> None:
    cut = ModelReply(("one ", "two ", "three ", "four"), breaks="cut")
    async with RehearsalServer(QueuedResponder(cut)) as server, connect(server.url) as talk:
        answered = await talk.ask(MESSAGES, body)
    assert (answered.status, answered.whole) == (200, False)
    assert b"one" in answered.body
    assert b"message_stop" not in answered.body


async def test_a_stalled_reply_stays_open() -> None:
    stalled = ModelReply(("one ", "two"), breaks="stall")
    async with RehearsalServer(QueuedResponder(stalled)) as server, connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(STREAMED).encode(), {}))
        assert (await talk.head())[0] == 200
        while b"one" not in await talk.chunk():
            pass
        with anyio.move_on_after(0.2) as silence:
            while True:
                await talk.chunk()
        assert silence.cancelled_caught


async def test_silence_sends_nothing_and_ends_with_the_server() -> None:
    async with RehearsalServer(QueuedResponder(NoReply())) as server, connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(STREAMED).encode(), {}))
        await server.turn(1)
        with anyio.move_on_after(0.2) as silence:
            await talk.stream.receive()
        assert silence.cancelled_caught


async def test_a_client_may_give_up_on_silence() -> None:
    async with RehearsalServer(QueuedResponder(NoReply())) as server:
        async with connect(server.url) as talk:
            await talk.send(request("POST", MESSAGES, json.dumps(HELLO).encode(), {}) + b"more")
            await server.turn(1)
        async with connect(server.url) as talk:
            assert (await talk.ask(MESSAGES, HELLO)).status == 200


async def test_slow_streaming_waits_between_pieces() -> None:
    slow = ModelReply(("one ", "two ", "three"), pause=0.05)
    async with RehearsalServer(QueuedResponder(slow)) as server, connect(server.url) as talk:
        began = anyio.current_time()
        answered = await talk.ask(MESSAGES, STREAMED)
    assert answered.whole
    assert anyio.current_time() - began >= 0.1


# -- recording ---------------------------------------------------------------------------------


async def test_a_turn_can_be_waited_for_and_held_back() -> None:
    class Held:
        def __init__(self) -> None:
            self.go = anyio.Event()

        async def answer(self, request: CompletionRequest) -> Answer:
            await self.go.wait()
            return reply(f"You said {request.newest}.")

    responder = Held()
    async with RehearsalServer(responder) as server, connect(server.url) as talk:
        await talk.send(request("POST", MESSAGES, json.dumps(HELLO).encode(), {}))
        turn = await server.turn(1)
        assert turn.asked is not None
        assert turn.asked.newest == "hello"
        assert server.answers == {}
        responder.go.set()
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
    async with connect(server.url) as talk:
        assert (await talk.ask(path, HELLO, **headers)).status == 200
    [turn] = server.turns
    assert turn.token.reveal() == SECRET
    shown = [repr(server.requests), f"{turn.token}"]
    assert [text for text in shown if SECRET in text] == []
    assert Credential(SECRET).digest in repr(turn)
    for copied in (pickle.dumps, dataclasses.asdict):
        with pytest.raises(TypeError, match="cannot be pickled"):
            copied(turn)


async def test_requests_without_a_credential(server: RehearsalServer) -> None:
    async with connect(server.url) as talk:
        await talk.ask(MESSAGES, HELLO)
    assert not server.turns[0].token
    assert repr(server.turns[0].token) == "<no token>"
    [request] = server.requests
    assert (request.number, request.method, request.path) == (1, "POST", "/v1/messages")
    assert request.asked is not None
    assert (request.asked.client, request.asked.model) == ("other", "m")
    assert request.side_call is None


async def test_only_so_many_are_kept_whole(
    server: RehearsalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "KEPT", 2)
    async with connect(server.url) as talk:
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

        async def answer(self, request: CompletionRequest) -> Answer:
            self.here += 1
            if self.here == 3:
                self.all.set()
            await self.all.wait()
            return reply("together")

    async def one(url: str) -> None:
        async with connect(url) as talk:
            assert (await talk.ask(MESSAGES, HELLO)).status == 200

    with anyio.fail_after(30):
        async with RehearsalServer(Together()) as server, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one, server.url)


async def test_an_error_of_the_responder_is_raised() -> None:
    class Broken:
        async def answer(self, request: CompletionRequest) -> Answer:
            raise RuntimeError("a bug in a test's responder")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with RehearsalServer(Broken()) as server, connect(server.url) as talk:
            await talk.ask(MESSAGES, HELLO)


async def test_nothing_is_left_when_it_ends() -> None:
    async with RehearsalServer(QueuedResponder()) as server:
        url = server.url
        async with connect(url) as talk:
            await talk.ask(MESSAGES, HELLO)
    with pytest.raises(OSError, match=r"refused|All connection attempts failed"):
        async with connect(url):
            pass
