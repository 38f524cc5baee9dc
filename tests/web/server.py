"""`coterie serve` for tests: on the test's own loop, and as a process of its own."""

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

from coterie.web.hub import Orphan, project_id
from coterie.web.serve import RunningServer, ServeRequest, serve
from tests.conftest import House

API = "/api/v1"
PATIENCE = 100.0
"""Seconds, for a machine on which much else runs."""


@dataclass
class Event:
    """One event of the stream."""

    name: str
    data: Any
    id: str | None = None


async def events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream, as a browser takes them apart."""
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
    """A server that runs on the test's loop, and a client that is let in by the token."""

    serving: RunningServer
    client: httpx.AsyncClient
    root: Path
    notes: list[Orphan]
    """The tasks that it offered to go on with."""
    noted: anyio.Event

    @property
    def project(self) -> str:
        """The id of the project that it was started in."""
        return project_id(self.root)

    @asynccontextmanager
    async def stream(self, last: str | None = None) -> AsyncGenerator[AsyncIterator[Event]]:
        """The events, from now on or after the one with this id."""
        headers = {"Last-Event-ID": last} if last is not None else {}
        async with self.client.stream(
            "GET", f"{API}/events", headers=headers, timeout=None
        ) as response:
            assert response.status_code == 200, await response.aread()
            yield events(response)


@asynccontextmanager
async def served(root: Path, **options: Any) -> AsyncGenerator[Api]:
    """A server on this loop, with a socket of its own, until the block ends."""
    ready, found = anyio.Event(), list[RunningServer]()

    def announce(serving: RunningServer) -> None:
        found.append(serving)
        ready.set()

    notes, noted = list[Orphan](), anyio.Event()

    def offer(orphans: Sequence[Orphan]) -> None:
        notes.extend(orphans)
        noted.set()

    asked = ServeRequest(directory=root, **{"api_only": True, "port": 0, **options})
    async with anyio.create_task_group() as group:
        group.start_soon(serve, asked, announce, offer)
        await ready.wait()
        headers = {"Authorization": f"Bearer {found[0].token}"}
        async with httpx.AsyncClient(
            base_url=found[0].address, headers=headers, timeout=PATIENCE
        ) as client:
            yield Api(found[0], client, root, notes, noted)
        os.kill(os.getpid(), signal.SIGHUP)  # as a user ends it


@dataclass
class Process:
    """A server that is a process of its own."""

    process: subprocess.Popen[str]
    address: str
    token: str
    client: httpx.Client = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """As Ctrl-C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait()


def house_env(house: House) -> dict[str, str]:
    """The environment of who lives there, for a house that is not set for this process."""
    return {"HOME": str(house.home), "COTERIE_HOME": str(house.coterie_home)}


@contextmanager
def started(
    house: House, *arguments: str, env: Mapping[str, str] | None = None
) -> Generator[Process]:
    """`coterie serve --json` in a house's project, until the block ends."""
    command = [sys.executable, "-m", "coterie", "serve", "--json", *arguments]
    if "--port" not in arguments:
        command += ["--port", "0"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        cwd=house.project,
        env={**os.environ, **(env or {})},
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {said['token']}"}
        with httpx.Client(base_url=said["address"], headers=headers, timeout=PATIENCE) as client:
            yield Process(process, said["address"], said["token"], client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
