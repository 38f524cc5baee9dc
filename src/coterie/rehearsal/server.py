"""A stand-in for every model service: an HTTP server on loopback that asks a responder.

It runs inside `async with` and leaves nothing behind.  Every request is kept in `requests` for
tests and reports, its credential in memory only.  Only the end of a path is matched, so that a
base URL may have a prefix (`/member/alice/v1`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import anyio
from anyio.abc import ByteStream, SocketAttribute

from coterie.rehearsal import anthropic, gemini, openai
from coterie.rehearsal import model_api as api
from coterie.rehearsal.connection import GONE, Connection, HttpRequest, MalformedRequest
from coterie.rehearsal.lenient_json import Json, compact
from coterie.rehearsal.model_api import Answer, CompletionRequest, ErrorReply, ModelReply
from coterie.rehearsal.simulation import side_call
from coterie.rehearsal.wire import Credential, ParsedRequest, SseEvent, WireFormat

HOST = "127.0.0.1"
KEPT = 1000
"""How many requests are kept in full; older ones lose their texts."""

_LARGE = 512 * 1024
"""Larger bodies are decoded and parsed in a thread, so that no other connection has to wait."""

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream", "cache-control": "no-cache"}
_UPGRADE = 426
"""Makes Codex give up WebSocket at once; after any other refusal it tries seven times."""
MODEL = "rehearsal"
"""The only model that is listed; requests for any other name are answered too."""

_WIRES: Mapping[str, WireFormat] = {
    "/messages": anthropic.WIRE,
    "/responses": openai.RESPONSES,
    "/chat/completions": openai.CHAT,
    ":generateContent": gemini.WIRE,
    ":streamGenerateContent": gemini.WIRE,
}
_MODELS = re.compile(r"/models(?:/[^/:]+)?$")


@dataclass(frozen=True)
class RecordedRequest:
    """One request that the server received, with every credential replaced by its digest."""

    number: int
    """Counted from 1, over all requests."""
    method: str
    path: str
    """Including the query."""
    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    token: Credential
    body: Json
    asked: CompletionRequest | None = None
    """The request to the model, if it was one."""
    side_call: str | None = None
    """The kind of a CLI's own request (a title, a router's choice); the responder is not asked."""

    @property
    def is_turn(self) -> bool:
        """Whether the responder was asked."""
        return self.asked is not None and self.side_call is None

    def without_texts(self) -> RecordedRequest:
        """Return a copy without body, system texts and conversation, which take up the memory."""
        asked = replace(self.asked, system=(), conversation=()) if self.asked else None
        return replace(self, body={}, asked=asked)


class RehearsalServer:
    """`async with RehearsalServer(responder) as server:` gives a server at `server.url`."""

    def __init__(self, responder: api.Responder) -> None:
        self._responder = responder
        self._port = 0
        self._open = AsyncExitStack()
        self._arrived = anyio.Event()
        self.requests: list[RecordedRequest] = []
        """Every request, in the order of arrival."""
        self.answers: dict[int, Answer] = {}
        """The answers, by the number of the request."""

    @property
    def url(self) -> str:
        """The address it listens on, without a path."""
        return f"http://{HOST}:{self._port}"

    @property
    def turns(self) -> list[RecordedRequest]:
        """The requests that went to the responder."""
        return [request for request in self.requests if request.is_turn]

    async def turn(self, number: int) -> RecordedRequest:
        """Return the turn with this number, counted from 1; waits until it has arrived."""
        while len(turns := self.turns) < number:
            await self._arrived.wait()
        return turns[number - 1]

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            listener = await anyio.create_tcp_listener(local_host=HOST)
            await opening.enter_async_context(listener)
            group = await opening.enter_async_context(anyio.create_task_group())
            opening.callback(group.cancel_scope.cancel)
            self._port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio, not Django
            group.start_soon(listener.serve, self._serve)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *ended: Any) -> bool | None:
        return await self._open.__aexit__(*ended)

    async def _serve(self, stream: ByteStream) -> None:
        connection = Connection(stream)
        async with stream:
            try:
                while connection.keep_alive and (request := await connection.next_request()):
                    await self._handle(connection, request)
            except MalformedRequest as error:
                connection.keep_alive = False
                with suppress(*GONE):
                    await _respond(connection, error.status, _problem(str(error)))
            except GONE:
                pass

    async def _handle(self, connection: Connection, http: HttpRequest) -> None:
        try:
            request = await _parsed(http)
        except MalformedRequest as error:
            self._record(ParsedRequest.of(http, b""))
            accepted = {"accept-encoding": "gzip, deflate, identity"}
            await _respond(connection, error.status, _problem(str(error)), accepted)
            return
        wire = wire_format_for(request)
        if wire is not None and not (http.wants_upgrade or request.problem):
            await self._turn(connection, wire, request)
            return
        self._record(request)
        if http.wants_upgrade:
            await _respond(connection, _UPGRADE, _problem("WebSocket is not supported."))
        elif wire is None:
            await _respond(connection, *lookup(request))
        else:
            await _refuse(connection, wire, ErrorReply(400, request.problem or ""))

    async def _turn(self, connection: Connection, wire: WireFormat, request: ParsedRequest) -> None:
        asked = wire.read(request)
        side = side_call(asked)
        number = self._record(request, asked, side[0] if side else None)
        answer = side[1] if side else await self._responder.answer(asked)
        self.answers[number] = answer
        match answer:
            case api.NoReply():
                await connection.wait_closed()
                connection.keep_alive = False
            case ErrorReply():
                await _refuse(connection, wire, answer)
            case ModelReply() if asked.stream:
                await _stream(connection, list(wire.events(asked, answer)), answer)
            case ModelReply() if answer.breaks:
                data = compact(wire.whole(asked, answer)).encode(errors="replace")
                await connection.begin(200, _JSON)
                await _break(connection, [data[: len(data) // 2]], answer)
            case ModelReply():
                await _respond(connection, 200, wire.whole(asked, answer))

    def _record(
        self,
        request: ParsedRequest,
        asked: CompletionRequest | None = None,
        side: str | None = None,
    ) -> int:
        number = len(self.requests) + 1
        method, path = request.http.method, request.redacted_target
        headers, token = request.redacted_headers, request.credential
        self.requests.append(
            RecordedRequest(number, method, path, headers, token, request.body, asked, side)
        )
        if number > KEPT:
            self.requests[number - KEPT - 1] = self.requests[number - KEPT - 1].without_texts()
            self.answers.pop(number - KEPT, None)
        arrived, self._arrived = self._arrived, anyio.Event()
        arrived.set()
        return number


async def _parsed(http: HttpRequest) -> ParsedRequest:
    def parse() -> ParsedRequest:
        return ParsedRequest.of(http, http.unpacked())

    return parse() if len(http.body) < _LARGE else await anyio.to_thread.run_sync(parse)


def wire_format_for(request: ParsedRequest) -> WireFormat | None:
    """Return the wire format of a request to the model; None if it is for something else."""
    if request.http.method != "POST":
        return None
    return next((wire for end, wire in _WIRES.items() if request.path.endswith(end)), None)


def lookup(request: ParsedRequest) -> tuple[int, Json]:
    """Answer a request that is not for the model."""
    path = request.path
    if path.endswith("/count_tokens"):
        return 200, {"input_tokens": api.tokens(request.size)}
    if path.endswith(":countTokens"):
        return 200, {"totalTokens": api.tokens(request.size)}
    if path in ("/", "/api/hello"):
        return 200, {"message": "hello"}
    if request.http.method == "GET" and _MODELS.search(path):
        model: Json = {"id": MODEL, "object": "model", "owned_by": "coterie"}
        return 200, {"object": "list", "data": [model]}
    problem = f"{request.http.method} {path} is not available in a rehearsal."
    return 404, {"error": {"message": problem}}


def _problem(message: str) -> Json:
    return {"error": {"type": "invalid_request_error", "message": message}}


async def _respond(
    connection: Connection, status: int, body: Json, headers: dict[str, str] | None = None
) -> None:
    data = compact(body).encode(errors="replace")
    await connection.respond(status, data, {**_JSON, **(headers or {})})


async def _refuse(connection: Connection, wire: WireFormat, refusal: ErrorReply) -> None:
    status, body = wire.error(refusal)
    headers: dict[str, str] = {}
    if (seconds := refusal.seconds) is not None:
        # In whole seconds, as HTTP requires (Codex reads nothing else), and exactly, for the SDKs.
        headers = {"retry-after": str(ceil(seconds)), "retry-after-ms": f"{seconds * 1000:.0f}"}
    if refusal.resets_in is not None:
        headers.update(wire.limit_headers(refusal.resets_in))
    await _respond(connection, status, body, headers)


async def _stream(connection: Connection, events: list[SseEvent], reply: ModelReply) -> None:
    await connection.begin(200, _EVENTS)
    if reply.breaks:
        half = events[: (len(events) + 1) // 2]
        await _break(connection, [event.encoded() for event in half], reply)
        return
    begun = False
    for event in events:
        if event.piece and begun and reply.pause:
            await anyio.sleep(reply.pause)
        begun = begun or event.piece
        await connection.chunk(event.encoded())
    await connection.end()


async def _break(connection: Connection, chunks: list[bytes], reply: ModelReply) -> None:
    for chunk in chunks:
        await connection.chunk(chunk)
    if reply.breaks == "stall":
        await connection.wait_closed()
    connection.keep_alive = False  # so it is closed, in the middle of the body
