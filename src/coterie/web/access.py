"""Access control: one check in front of everything that the server answers.

A page of another site can make a browser send its cookies here, and another site's host name can be
made to resolve to this machine (DNS rebinding).  So Host and Origin are checked before the token.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coterie.app.web_sessions import WebSessions
from coterie.web.problems import Refused, respond

API = "/api/v1"
SESSION = f"{API}/session"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
BODY = 1 << 20
"""The longest body of a request, in bytes."""
TARGET = 8 << 10
"""The longest path and query, in bytes."""
HEADERS = 32 << 10
"""All header lines together, in bytes."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def refuse(status: int, message: str, **more: str) -> Refused:
    """Return the refusal of a request; `more` are additional headers."""
    return Refused(respond(status, message, headers=more or None))


@dataclass
class Bucket:
    """A token bucket per client: `rate` tokens a second, and at most `size` at once."""

    rate: float
    size: float
    clock: Callable[[], float] = time.monotonic
    _level: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def take(self, who: str, count: float = 1.0) -> float:
        """Take `count` tokens; return the seconds to wait if there are too few, else 0."""
        now = self.clock()
        left, at = self._level.get(who, (self.size, now))
        left = min(self.size, left + (now - at) * self.rate)
        if left < count:
            self._level[who] = left, now
            return (count - left) / self.rate
        if len(self._level) > 10_000:
            self._level.clear()
        self._level[who] = left - count, now
        return 0.0


@dataclass(frozen=True)
class RateLimits:
    """Rate limits for one client address."""

    requests: float = 200.0
    """Requests per second; three times as many in a burst."""
    failures: float = 10.0
    """Wrong tokens per minute."""


@dataclass
class Access:
    """Where the server listens, and what credentials it accepts."""

    host: str
    port: int
    sessions: WebSessions
    names: frozenset[str] = frozenset()
    """Other names of this machine that are accepted in a Host header."""
    secure: bool = False
    """Whether the server speaks TLS."""
    limits: RateLimits = RateLimits()

    def __post_init__(self) -> None:
        self.requests: Bucket = Bucket(self.limits.requests, 3 * self.limits.requests)
        self.failures: Bucket = Bucket(self.limits.failures / 60, self.limits.failures)

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port: browsers share cookies between all ports of a host."""
        return f"coterie_session_{self.port}"

    @property
    def scheme(self) -> str:
        """The scheme of the server's URLs."""
        return "https" if self.secure else "http"

    @property
    def address(self) -> str:
        """The server's URL for a browser on this machine."""
        host = "127.0.0.1" if self.host in ("", "0.0.0.0") else self.host  # noqa: S104
        host = "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{host}:{self.port}"

    def link(self, path: str) -> str:
        """Return the URL that signs a browser in; browsers do not send the fragment with the token
        to any server, so it ends up in no log."""
        return f"{self.address}{path}#token={self.sessions.token}"

    def knows(self, host: str) -> bool:
        """Whether a Host header names this server.

        IP addresses cannot be rebound, so any is accepted unless the server listens on loopback.
        """
        name, port = _split(host)
        if port != self.port and not (port is None and self.port == (443 if self.secure else 80)):
            return False
        try:
            number = ip_address(name)
        except ValueError:
            return name in {"localhost", self.host.lower(), *self.names}
        return number.is_loopback or not is_loopback(self.host)

    def failed(self, who: str) -> Refused:
        """Count a failed attempt to sign in and return its refusal."""
        if wait := self.failures.take(who):
            more = {"Retry-After": str(int(wait) + 1)}
            return refuse(429, "Too many wrong tokens.", **more)
        message = "This sign-in is no longer valid: open the address that `coterie serve` printed."
        return refuse(401, message, **{"WWW-Authenticate": "Bearer"})


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(host: str) -> tuple[str, int | None]:
    """Split a Host header into name and port: None if it has no port, -1 if that is invalid."""
    name, colon, port = host.lower().rpartition(":")
    if not colon or "]" in port:
        return host.lower().strip("[]"), None
    valid = port.isascii() and port.isdigit() and len(port) <= 5
    return name.strip("[]"), int(port) if valid else -1


class Guard:
    """The application behind the access check; `changed` is called after requests that write."""

    def __init__(
        self, application: ASGIApp, access: Access, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._application = application
        self._access = access
        self._changed = changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._application(scope, receive, send)
        if scope["type"] != "http":
            return await _refuse_socket(scope, receive, send)
        guarded = _ResponseSender(scope, send)
        try:
            return await self._answer(scope, receive, guarded)
        except Refused as refused:
            if not guarded.begun:
                await refused.response(scope, receive, guarded)
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        self._check_size(scope)
        who = request.client.host if request.client else ""
        if wait := self._access.requests.take(who):
            raise refuse(429, "Too many requests.", **{"Retry-After": str(int(wait) + 1)})
        self._check_origin(request)
        limited = _Body(request.headers, receive)
        if not request.url.path.startswith(f"{API}/"):
            if request.method not in SAFE:
                raise refuse(405, f"{request.method} is not allowed for the page.")
            return await self._application(scope, limited, send)
        self._check_content_type(request)
        if request.url.path != SESSION or request.method != "POST":
            scope["coterie.session"] = await self._check_credentials(request, who)
        await self._application(scope, limited, send)
        if request.method not in SAFE:
            self._changed()
        return None

    def _check_size(self, scope: Scope) -> None:
        target = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if target > TARGET:
            raise refuse(414, "The address is too long.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS:
            raise refuse(431, "The header lines are too long.")

    def _check_origin(self, request: Request) -> None:
        """Refuse requests that name another server or come from another site's page."""
        headers, access = request.headers, self._access
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not access.knows(hosts[0]):
            raise refuse(421, "The Host header does not name this server.")
        own = f"{access.scheme}://{hosts[0]}".lower()
        for origin in headers.getlist("origin"):
            if origin.lower() != own:
                raise refuse(403, "Pages of other origins may not use this server.")
        site = headers.get("sec-fetch-site", "none")
        is_link = headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
        is_page = not request.url.path.startswith(f"{API}/")
        if site not in ("same-origin", "none") and not (is_link and is_page):
            raise refuse(403, "Pages of other sites may not use this server.")

    def _check_content_type(self, request: Request) -> None:
        """Require JSON bodies: a form on another site's page cannot send them."""
        headers = request.headers
        if "upgrade" in headers:
            raise refuse(403, "Connection upgrades are not supported.")
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (has_body or kind) and request.method not in SAFE and kind != "application/json":
            raise refuse(415, "The body must be application/json.")

    async def _check_credentials(self, request: Request, who: str) -> str:
        """Return the cookie's value; empty for a program that sent a bearer token."""
        headers, access = request.headers, self._access
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme:
            if scheme.lower() == "bearer" and access.sessions.is_token(token.strip()):
                return ""
            raise access.failed(who)
        value = _cookie(headers, access.cookie)
        if value is None:
            more = {"WWW-Authenticate": "Bearer"}
            raise refuse(401, "Open the address that `coterie serve` printed.", **more)
        if not await anyio.to_thread.run_sync(access.sessions.is_admitted, value):
            raise access.failed(who)
        if request.method not in SAFE and "origin" not in headers:
            raise refuse(403, "A request with a cookie needs an Origin header.")
        return value


def _cookie(headers: Headers, name: str) -> str | None:
    values = [
        value
        for line in headers.getlist("cookie")
        for key, _, value in (part.strip().partition("=") for part in line.split(";"))
        if key == name
    ]
    return values[0] if len(values) == 1 else None


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse every WebSocket: the server offers none."""
    await receive()
    await send({"type": "websocket.close", "code": 1008, "reason": ""})


class _Body:
    """Receives a request body up to the allowed size."""

    def __init__(self, headers: Headers, receive: Receive) -> None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and int(length[:20]) <= BODY):
            raise too_long()
        self._receive = receive
        self._left = BODY

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise too_long()
        return message


def too_long() -> Refused:
    """Return the refusal of a body that is too long."""
    return refuse(413, f"A request body may have at most {BODY} bytes.")


class _ResponseSender:
    """Sends a response with the headers common to all responses."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._is_api = scope["path"].startswith(f"{API}/")
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun: bool = True
            headers = MutableHeaders(scope=message)
            headers.update(_ALWAYS)
            headers.setdefault("content-security-policy", POLICY)
            if self._is_api:
                headers["cache-control"] = "no-store"
        await self._send(message)
