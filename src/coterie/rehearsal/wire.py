"""What all wire formats share: the parsed request, its credential, and the functions of a format.

A credential is kept in memory only, and never shown or written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import cast
from urllib.parse import parse_qs

from coterie.model import instant
from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.lenient_json import Json, compact
from coterie.rehearsal.model_api import Client, CompletionRequest, Dialect, ErrorReply, ModelReply

_CARRIERS = ("x-api-key", "x-goog-api-key", "authorization", "proxy-authorization", "cookie")
_KEY = re.compile(r"(?<=[?&]key=)[^&]*")


class Credential:
    """A credential, in memory only: its text is asked for by name and shown by nothing."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The credential itself."""
        return self._value

    def matches(self, value: str) -> bool:
        """Whether it is this one."""
        return self._value == value

    @property
    def digest(self) -> str:
        """Enough of its SHA-256 to tell one from another."""
        return hashlib.sha256(self._value.encode()).hexdigest()[:12] if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"<token sha256:{self.digest}>" if self else "<no token>"

    def __reduce__(self) -> str:
        raise TypeError("A token stays in memory.")


@dataclass(frozen=True)
class RecordedRequest:
    """One request that the server got."""

    number: int
    """From 1, over all requests."""
    at: float
    """Seconds since the server began to listen."""
    method: str
    path: str
    """With its query; a key in it is hidden."""
    headers: Mapping[str, str]
    """By lower-case name; credentials are replaced by their digest."""
    token: Credential
    body: Json
    asked: CompletionRequest | None = None
    """What the model was asked, where it was."""
    side_call: str | None = None
    """The CLI's own request (a title, a router's choice), answered without the responder."""

    @property
    def is_turn(self) -> bool:
        """Whether the responder was asked."""
        return self.asked is not None and self.side_call is None

    def report(self) -> Json:
        """What may be shown or written."""
        return {
            "number": self.number,
            "at": round(self.at, 3),
            "method": self.method,
            "path": self.path,
            "client": self.asked.client if self.asked else None,
            "model": self.asked.model if self.asked else None,
            "side_call": self.side_call,
            "token": self.token.digest or None,
        }


@dataclass(frozen=True)
class ParsedRequest:
    """A request taken apart, before anyone looked at what it asks."""

    method: str
    target: str
    headers: Mapping[str, str]
    token: Credential
    body: Json
    size: int
    problem: str | None = None

    @property
    def path(self) -> str:
        """Without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What stands after the question mark."""
        return self.target.partition("?")[2]

    @property
    def shown_target(self) -> str:
        """The target with any key in it hidden."""
        return _KEY.sub("hidden", self.target)

    @property
    def shown_headers(self) -> Mapping[str, str]:
        """The headers with any credential in them hidden."""
        carried = {name: self.headers[name] for name in _CARRIERS if name in self.headers}
        hidden = {
            name: repr(Credential(value.rpartition(" ")[2])) for name, value in carried.items()
        }
        return {**self.headers, **hidden}


def parse_request(request: HttpRequest, data: bytes) -> ParsedRequest:
    """Take a request apart; a body that is no JSON object is a problem, and empty."""
    body, problem = _object(data)
    return ParsedRequest(
        method=request.method,
        target=request.target,
        headers=request.headers,
        token=_token(request),
        body=body,
        size=len(data),
        problem=problem,
    )


def _object(data: bytes) -> tuple[Json, str | None]:
    if not data:
        return {}, None
    try:
        body: object = json.loads(data)
    except (ValueError, RecursionError):
        return {}, "The body is not JSON."
    if not isinstance(body, dict):
        return {}, "The body is not a JSON object."
    return cast("Json", body), None


def _token(request: HttpRequest) -> Credential:
    headers = request.headers
    bearer = headers.get("authorization", "").partition(" ")[2]
    query = parse_qs(request.target.partition("?")[2]).get("key", [""])[0]
    found = (headers.get("x-api-key"), headers.get("x-goog-api-key"), bearer, query)
    return Credential(next((value for value in found if value), ""))


_CLIENTS: Mapping[str, Client] = {
    "claude-cli": "claude",
    "codex": "codex",
    "coterie-builtin": "builtin",
    "coterie": "codex",  # which goes by the name of whoever drives its app-server
    "geminicli": "gemini",
    "qwencode": "qwen",
    "opencode": "opencode",
}


def unix_time(later: float = 0.0) -> int:
    """Seconds since 1970, now or so much later, as the vendors tell the time."""
    return int(datetime.fromisoformat(instant.now()).timestamp()) + ceil(later)


def client_of(user_agent: str) -> Client:
    """The program behind a User-Agent."""
    for start, client in _CLIENTS.items():
        if user_agent.lower().startswith(start):
            return client
    return "other"


@dataclass(frozen=True)
class Posted:
    """A request as the wire formats see it."""

    path: str
    query: str
    client: Client
    body: Json
    size: int


@dataclass(frozen=True)
class SseEvent:
    """One server-sent event."""

    data: Json | str
    name: str | None = None
    piece: bool = False
    """Whether it carries a piece of text, so that slow streaming waits before it."""

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        data = self.data if isinstance(self.data, str) else compact(self.data)
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {data}\n\n".encode(errors="replace")


@dataclass(frozen=True)
class WireFormat:
    """One vendor's format, as functions."""

    dialect: Dialect
    asked: Callable[[Posted], CompletionRequest]
    whole: Callable[[CompletionRequest, ModelReply], Json]
    """The reply in one body."""
    events: Callable[[CompletionRequest, ModelReply], Iterable[SseEvent]]
    """The reply as a stream."""
    refused: Callable[[ErrorReply], tuple[int, Json]]
    """The status this vendor would send, and the body."""
    limited: Callable[[float], Mapping[str, str]] = lambda seconds: {}
    """The headers that tell of a limit that ends in so many seconds."""
