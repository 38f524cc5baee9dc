"""What all wire formats share: the parsed request, its credential, and the functions of a format.

A credential is kept in memory only, and never shown or written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import cast
from urllib.parse import parse_qs, quote, unquote

from coterie.model import instant
from coterie.rehearsal import model_api as api
from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.lenient_json import Json, compact, mappings, text, texts
from coterie.rehearsal.model_api import CompletionRequest

_CREDENTIAL_HEADERS = frozenset(
    {"x-api-key", "x-goog-api-key", "authorization", "proxy-authorization", "cookie"}
)
_ASKER = re.compile(r"/rehearsal/(?P<workflow>[^/]+)/(?P<member>[^/]+)/")
_KEY = re.compile(r"(?<=[?&]key=)[^&]*")
_SYSTEM_ROLES = ("system", "developer")
_CLIENTS: Mapping[str, api.Client] = {
    "claude-cli": "claude",
    "codex": "codex",
    "coterie-builtin": "builtin",
    "coterie-stand-in": "stand-in",
    "coterie": "codex",  # its app-server names itself after the program that drives it
    "geminicli": "gemini",
    "qwencode": "qwen",
    "opencode": "opencode",
    "": "other",
}


def address_for(url: str, workflow: str, member: str) -> str:
    """Return the address at which a member's agent reaches the stand-in for its model."""
    return f"{url}/rehearsal/{quote(workflow, safe='')}/{quote(member, safe='')}"


def unix_time(later: float = 0.0) -> int:
    """Return the Unix time in seconds, now or `later` seconds from now, rounded up."""
    return int(datetime.fromisoformat(instant.now()).timestamp()) + ceil(later)


def client_of(user_agent: str) -> api.Client:
    """Identify the program behind a User-Agent."""
    named = user_agent.lower()
    return next(client for start, client in _CLIENTS.items() if named.startswith(start))


class Credential:
    """A credential that no repr, log or pickle can show; only `reveal` returns its text."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    @property
    def digest(self) -> str:
        """Enough of its SHA-256 to tell credentials apart."""
        return hashlib.sha256(self._value.encode()).hexdigest()[:12] if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"<token sha256:{self.digest}>" if self else "<no token>"

    def __reduce__(self) -> str:
        raise TypeError("A credential cannot be pickled.")


@dataclass(frozen=True)
class ParsedRequest:
    """An HTTP request with its JSON body parsed; its wire format is not yet known."""

    http: HttpRequest
    body: Json
    size: int
    problem: str | None = None
    """Why the body could not be parsed and is left empty, if so."""

    @classmethod
    def of(cls, http: HttpRequest, data: bytes) -> ParsedRequest:
        """Parse a body; anything but a JSON object sets `problem` and leaves `body` empty."""
        try:
            body: object = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            return cls(http, {}, len(data), "The body is not JSON.")
        if not isinstance(body, dict):
            return cls(http, {}, len(data), "The body is not a JSON object.")
        return cls(http, cast("Json", body), len(data))

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.http.target.partition("?")[0]

    @property
    def client(self) -> api.Client:
        return client_of(self.http.headers.get("user-agent", ""))

    @property
    def credential(self) -> Credential:
        """The API key or token, from whichever header or parameter has it."""
        headers = self.http.headers
        bearer = headers.get("authorization", "").partition(" ")[2]
        query = parse_qs(self.http.target.partition("?")[2]).get("key", [""])[0]
        values = (headers.get("x-api-key"), headers.get("x-goog-api-key"), bearer, query)
        return Credential(next((value for value in values if value), ""))

    @property
    def _asker(self) -> dict[str, str]:
        match = _ASKER.match(self.path)
        return {name: unquote(part) for name, part in match.groupdict().items()} if match else {}

    @property
    def redacted_target(self) -> str:
        """The target with any key in it hidden."""
        return _KEY.sub("hidden", self.http.target)

    @property
    def redacted_headers(self) -> Mapping[str, str]:
        """The headers with any credential in them replaced by its digest."""
        return {
            name: repr(Credential(value.rpartition(" ")[2]))
            if name in _CREDENTIAL_HEADERS
            else value
            for name, value in self.http.headers.items()
        }

    def asks(
        self,
        dialect: api.Dialect,
        system: Iterable[str],
        conversation: Iterable[api.ConversationItem],
        tools: Iterable[str],
        schema: Json,
    ) -> CompletionRequest:
        """Build the request to the model, with the fields that most formats spell alike."""
        return CompletionRequest(
            dialect=dialect,
            client=self.client,
            model=text(self.body.get("model")),
            system=tuple(system),
            conversation=tuple(conversation),
            tools=tuple(tools),
            stream=self.body.get("stream") is True,
            schema=schema or None,
            size=self.size,
            **self._asker,
        )


def by_role(
    messages: object, items: Callable[[Json], Iterator[api.ConversationItem]]
) -> tuple[list[str], list[api.ConversationItem]]:
    """Split messages into the texts of system messages and the items of all others."""
    system: list[str] = []
    conversation: list[api.ConversationItem] = []
    for message in mappings(messages):
        if message.get("role") in _SYSTEM_ROLES:
            system.extend(texts(message.get("content")))
        else:
            conversation.extend(items(message))
    return system, conversation


@dataclass(frozen=True)
class SseEvent:
    """One server-sent event."""

    data: Json | str
    name: str | None = None
    piece: bool = False
    """Whether it carries a piece of text, before which slow streaming pauses."""

    def encoded(self) -> bytes:
        data = self.data if isinstance(self.data, str) else compact(self.data)
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {data}\n\n".encode(errors="replace")


@dataclass(frozen=True)
class WireFormat:
    """One vendor's format, as functions."""

    dialect: api.Dialect
    read: Callable[[ParsedRequest], CompletionRequest]
    whole: Callable[[CompletionRequest, api.ModelReply], Json]
    """The reply as one body."""
    events: Callable[[CompletionRequest, api.ModelReply], Iterable[SseEvent]]
    """The reply as a stream."""
    error: Callable[[api.ErrorReply], tuple[int, Json]]
    """The status that this vendor would send, and the body."""
    limit_headers: Callable[[float], Mapping[str, str]] = lambda seconds: {}
    """The headers that announce a limit that resets in this many seconds."""
