"""What a wire format is: one way to read a request and to spell an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from coterie.model import instant
from coterie.rehearsal.dialogue import Asked, Client, Dialect, Refusal, Reply
from coterie.rehearsal.loose import Json, compact

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
class Event:
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
class Wire:
    """One vendor's format, as functions."""

    dialect: Dialect
    asked: Callable[[Posted], Asked]
    whole: Callable[[Asked, Reply], Json]
    """The reply in one body."""
    events: Callable[[Asked, Reply], Iterable[Event]]
    """The reply as a stream."""
    refused: Callable[[Refusal], tuple[int, Json]]
    """The status this vendor would send, and the body."""
    limited: Callable[[float], Mapping[str, str]] = lambda seconds: {}
    """The headers that tell of a limit that ends in so many seconds."""
