"""The server itself: its socket, its certificate, and its shutdown."""

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
    """What `coterie serve` was asked to do."""

    directory: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    """None: 8420, or the next free one."""
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False
    """Whether other machines may reach the server without a certificate."""
    api_only: bool = False
    resume: bool = False
    limits: RateLimits = RateLimits()
    demo: DemoProject | None = None
    """What is shown instead of the user's projects."""


class _Server(uvicorn.Server):
    """Leaves signals to `_stopping_on_signals`: uvicorn would raise them again before tasks are
    parked."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(
    request: ServeRequest,
    announce: Callable[[Access, str], None],
    offer: Callable[[Sequence[Orphan]], None],
) -> None:
    """Serve until a signal arrives; then park the tasks, as any `coterie` that is ended does.

    `announce` is called with the server's address and the path of the first screen, `offer` with
    the tasks that were cut off and can be resumed.
    """
    page = None if request.api_only else await anyio.to_thread.run_sync(page_folder)
    await anyio.to_thread.run_sync(_require_tls, request)
    listening = await anyio.to_thread.run_sync(_listen, request.host, request.port)
    with listening:
        sessions = await anyio.to_thread.run_sync(WebSessions)
        secure = request.certificate is not None
        port = listening.getsockname()[1]
        names = frozenset({socket.gethostname().lower()})
        access = Access(request.host, port, sessions, names, secure, request.limits)
        demo = request.demo
        opening = open_hub(request.directory) if demo is None else open_demo(demo)
        async with opening as hub:
            config = await anyio.to_thread.run_sync(_config, request, hub, access, page)
            server = _Server(config)
            screen = await hub.prepare() if isinstance(hub, DemoHub) else "/"
            with _stopping_on_signals(server, hub):
                announce(access, screen)
                hub.tasks.start_soon(_resume_orphans, hub, request.resume, offer)
                await server.serve([listening])


async def _resume_orphans(
    hub: Hub, resume: bool, offer: Callable[[Sequence[Orphan]], None]
) -> None:
    """Resume tasks whose process died, or offer to."""
    orphans = await hub.orphans()
    if resume:
        await hub.resume(orphans)
    elif orphans:
        offer(orphans)


def _config(request: ServeRequest, hub: Hub, access: Access, page: Path | None) -> uvicorn.Config:
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
        ssl_certfile=request.certificate,
        ssl_keyfile=request.key,
    )


@contextmanager
def _stopping_on_signals(server: uvicorn.Server, hub: Hub) -> Generator[None]:
    """On a signal, end the streams, then the server; a second signal changes nothing."""

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
    """Return the page's folder; raises UsageError if the page was not built."""
    if not (PAGE / "index.html").is_file():
        raise UsageError(
            "The page is not built in this checkout.",
            "make page, or only the API:  coterie serve --api-only",
        )
    return PAGE


def _require_tls(request: ServeRequest) -> None:
    if (request.certificate is None) != (request.key is None):
        raise UsageError("A certificate and its key go together.", "--cert FILE --key FILE")
    if request.certificate is not None and request.key is not None:
        _check_certificate(request.certificate, request.key)
    if not is_loopback(request.host) and request.certificate is None and not request.insecure:
        raise UsageError(
            f"Others can reach {request.host} and could read the traffic: it needs a certificate.",
            "coterie serve --host … --cert FILE --key FILE, or without TLS: --insecure",
        )


def _check_certificate(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        problem = f"{certificate} and {key} cannot be used as a certificate and its key: {error}."
        raise UsageError(
            problem, "Both must be PEM files, and the key must have no passphrase."
        ) from None


def _listen(host: str, port: int | None) -> socket.socket:
    """Open a socket on the given port, or on the first free one."""
    tried = range(PORT, PORT + _TRIED) if port is None else (port,)
    for one in tried:
        try:
            return _bound(host, one)
        except OSError as error:
            if port is None and error.errno == errno.EADDRINUSE:
                continue
            why = (
                "the port is in use"
                if error.errno == errno.EADDRINUSE
                else error.strerror or str(error)
            )
            problem = f"Cannot serve at {host}:{one}: {why}."
            raise UsageError(problem, "Another port:  coterie serve --port 0") from None
    problem = f"Every port from {PORT} to {PORT + _TRIED - 1} is in use."
    raise UsageError(problem, "Another port:  coterie serve --port 0")


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener
