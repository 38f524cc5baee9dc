"""A request as it is kept: all of it but the credential, which is never shown or written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import parse_qs

from coterie.rehearsal.connection import HttpRequest
from coterie.rehearsal.dialogue import Asked
from coterie.rehearsal.loose import Json

_CARRIERS = ("x-api-key", "x-goog-api-key", "authorization", "proxy-authorization", "cookie")
_KEY = re.compile(r"(?<=[?&]key=)[^&]*")


class Token:
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
class Received:
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
    token: Token
    body: Json
    asked: Asked | None = None
    """What the model was asked, where it was."""
    aside: str | None = None
    """What the CLI wanted for itself (a title, a router's choice), answered without the brain."""

    @property
    def is_turn(self) -> bool:
        """Whether the brain was asked."""
        return self.asked is not None and self.aside is None

    def report(self) -> Json:
        """What may be shown or written."""
        return {
            "number": self.number,
            "at": round(self.at, 3),
            "method": self.method,
            "path": self.path,
            "client": self.asked.client if self.asked else None,
            "model": self.asked.model if self.asked else None,
            "aside": self.aside,
            "token": self.token.digest or None,
        }


@dataclass(frozen=True)
class Opened:
    """A request taken apart, before anyone looked at what it asks."""

    method: str
    target: str
    headers: Mapping[str, str]
    token: Token
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
        hidden = {name: repr(Token(value.rpartition(" ")[2])) for name, value in carried.items()}
        return {**self.headers, **hidden}


def opened(request: HttpRequest, data: bytes) -> Opened:
    """Take a request apart; a body that is no JSON object is a problem, and empty."""
    body, problem = _object(data)
    return Opened(
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


def _token(request: HttpRequest) -> Token:
    headers = request.headers
    bearer = headers.get("authorization", "").partition(" ")[2]
    query = parse_qs(request.target.partition("?")[2]).get("key", [""])[0]
    found = (headers.get("x-api-key"), headers.get("x-goog-api-key"), bearer, query)
    return Token(next((value for value in found if value), ""))
