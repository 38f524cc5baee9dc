"""`coterie serve` for tests: on the test's own loop, and as a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx

from coterie.web.access import Access
from coterie.web.hub import Orphan, project_id
from coterie.web.serve import ServeRequest, serve
from tests.conftest import IsolatedUser

API = "/api/v1"
TIMEOUT = 100.0
"""Seconds; enough for a machine under load."""


@dataclass
class Event:
    """One event of the stream."""

    name: str
    data: Any
    id: str | None = None


async def events(response: httpx.Response) -> AsyncIterator[Event]:
    """Parse the events of a stream as a browser does."""
    event = Event("message", None)
    data: list[str] = []
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                event.name = value
            case "data":
                data.append(value)
            case "id":
                event.id = value
            case "" if not line:
                if data:
                    event.data = json.loads("\n".join(data))
                    yield event
                event, data = Event("message", None), []
            case _:
                pass


@dataclass
class Api:
    """A server that runs on the test's loop, and a client authenticated by the token."""

    serving: Access
    screen: str
    """The path of the screen to open first."""
    client: httpx.AsyncClient
    root: Path
    notes: list[Orphan]
    """The tasks that it offered to resume."""
    noted: anyio.Event

    @property
    def project(self) -> str:
        """The id of the project it was started in."""
        return project_id(self.root)

    @asynccontextmanager
    async def stream(self, last: str | None = None) -> AsyncGenerator[AsyncIterator[Event]]:
        """The events from now on, or those after the one with this id."""
        headers = {"Last-Event-ID": last} if last is not None else {}
        async with self.client.stream(
            "GET", f"{API}/events", headers=headers, timeout=None
        ) as response:
            assert response.status_code == 200, await response.aread()
            yield events(response)


@asynccontextmanager
async def served(root: Path, **options: Any) -> AsyncGenerator[Api]:
    """A server on this loop, with its own socket, until the block ends."""
    ready, found = anyio.Event(), list[tuple[Access, str]]()

    def announce(access: Access, screen: str) -> None:
        found.append((access, screen))
        ready.set()

    notes, noted = list[Orphan](), anyio.Event()

    def offer(orphans: Sequence[Orphan]) -> None:
        notes.extend(orphans)
        noted.set()

    asked = ServeRequest(directory=root, **{"api_only": True, "port": 0, **options})
    async with anyio.create_task_group() as group:
        group.start_soon(serve, asked, announce, offer)
        await ready.wait()
        serving, screen = found[0]
        headers = {"Authorization": f"Bearer {serving.sessions.token}"}
        async with httpx.AsyncClient(
            base_url=serving.address, headers=headers, timeout=TIMEOUT
        ) as client:
            yield Api(serving, screen, client, root, notes, noted)
        os.kill(os.getpid(), signal.SIGHUP)  # as a user stops it


@dataclass
class Process:
    """A server in a separate process."""

    process: subprocess.Popen[str]
    address: str
    token: str
    client: httpx.Client = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """Kill it, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it as Ctrl-C does; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait()


def user_env(user: IsolatedUser) -> dict[str, str]:
    """The environment of an isolated user that is not set up for this process."""
    return {"HOME": str(user.home), "COTERIE_HOME": str(user.coterie_home)}


@contextmanager
def started(
    user: IsolatedUser, *arguments: str, env: Mapping[str, str] | None = None
) -> Generator[Process]:
    """`coterie serve --json` in the user's project, until the block ends."""
    command = [sys.executable, "-m", "coterie", "serve", "--json", *arguments]
    if "--port" not in arguments:
        command += ["--port", "0"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=user.project,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {said['token']}"}
        with httpx.Client(base_url=said["address"], headers=headers, timeout=TIMEOUT) as client:
            yield Process(process, said["address"], said["token"], client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
