"""The server itself: its socket, its certificate, and how it comes to its end."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import uvicorn

from coterie.app.demo import DemoProject
from coterie.app.web_sessions import WebSessions
from coterie.errors import UsageError
from coterie.web.access import Access, RateLimits, is_loopback
from coterie.web.application import PAGE, make_application
from coterie.web.demo import DemoHub, open_demo
from coterie.web.hub import Hub, Orphan, open_hub

PORT = 8420
_TRIED = 20
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class ServeRequest:
    """What `coterie serve` was asked for."""

    directory: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    """None: 8420, or the next that is free."""
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    """Whether it may be reached from other machines without a certificate."""
    api_only: bool = False
    resume: bool = False
    limits: RateLimits = RateLimits()
    demo: DemoProject | None = None
    """What is shown instead of the user's projects."""


@dataclass(frozen=True)
class RunningServer:
    """Where the server is."""

    address: str
    token: str
    token_file: Path
    screen: str = "/"
    """The path of what is to be seen first."""

    @property
    def link(self) -> str:
        """The address with which a browser is let in; the token never leaves the browser's own
        part of it, so that it is in nobody's log."""
        return f"{self.address}{self.screen}#token={self.token}"


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again before tasks are parked."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(
    asked: ServeRequest,
    announce: Callable[[RunningServer], None],
    offer: Callable[[Sequence[Orphan]], None],
) -> None:
    """Serve until a signal comes; then tasks are parked, as by any `coterie` that is ended.

    `announce` is told where the server is, `offer` which tasks were cut off and could go on.
    """
    page = None if asked.api_only else await anyio.to_thread.run_sync(page_folder)
    await anyio.to_thread.run_sync(_require_cover, asked)
    listening = await anyio.to_thread.run_sync(_listen, asked.host, asked.port)
    with listening:
        sessions = await anyio.to_thread.run_sync(WebSessions)
        secure = asked.certificate is not None
        port = listening.getsockname()[1]
        names = frozenset({socket.gethostname().lower()})
        access = Access(asked.host, port, sessions, names, secure, asked.limits)
        demo = asked.demo
        opening = open_hub(asked.directory) if demo is None else open_demo(demo)
        async with opening as hub:
            config = await anyio.to_thread.run_sync(_config, asked, hub, access, page)
            server = _Server(config)
            screen = await hub.prepare() if isinstance(hub, DemoHub) else "/"
            token, file = sessions.token, sessions.token_file
            with _ending(server, hub):
                announce(RunningServer(access.address, token, file, screen))
                hub.tasks.start_soon(_take_up, hub, asked.resume, offer)
                await server.serve([listening])


async def _take_up(hub: Hub, resume: bool, offer: Callable[[Sequence[Orphan]], None]) -> None:
    """Go on with tasks whose process died, or say that there are some."""
    found = await hub.orphans()
    if resume:
        await hub.resume(found)
    elif found:
        offer(found)


def _config(asked: ServeRequest, hub: Hub, access: Access, page: Path | None) -> uvicorn.Config:
    return uvicorn.Config(
        make_application(hub, access, page),
        http="h11",
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        limit_concurrency=512,
        h11_max_incomplete_event_size=48 << 10,
        ssl_certfile=asked.certificate,
        ssl_keyfile=asked.key,
    )


@contextmanager
def _ending(server: uvicorn.Server, hub: Hub) -> Generator[None]:
    """A signal ends the streams, then the server; a second one changes nothing."""

    def end() -> None:
        hub.close()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)


def page_folder() -> Path:
    """Where the page is; raises UsageError where it was not built."""
    if not (PAGE / "index.html").is_file():
        raise UsageError(
            "The page is not built in this checkout.",
            "make page, or only the API:  coterie serve --api-only",
        )
    return PAGE


def _require_cover(asked: ServeRequest) -> None:
    if (asked.certificate is None) != (asked.key is None):
        raise UsageError("A certificate and its key go together.", "--cert FILE --key FILE")
    if asked.certificate is not None and asked.key is not None:
        _check_certificate(asked.certificate, asked.key)
    if not is_loopback(asked.host) and asked.certificate is None and not asked.insecure:
        raise UsageError(
            f"Others can reach {asked.host}, and would read along: it needs a certificate.",
            "coterie serve --host … --cert FILE --key FILE, or knowingly without: --insecure",
        )


def _check_certificate(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        said = f"{certificate} and {key} cannot be used as a certificate and its key: {error}."
        raise UsageError(said, "Both are PEM files, and the key has no passphrase.") from None


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at the port, or at the first that is free."""
    tried = range(PORT, PORT + _TRIED) if port is None else (port,)
    for one in tried:
        try:
            return _bound(host, one)
        except OSError as error:
            if port is None and error.errno == errno.EADDRINUSE:
                continue
            why = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            said = f"Cannot serve at {host}:{one}: {why}."
            raise UsageError(said, "Another port:  coterie serve --port 0") from None
    said = f"Every port from {PORT} to {PORT + _TRIED - 1} is taken."
    raise UsageError(said, "Another port:  coterie serve --port 0")


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made
