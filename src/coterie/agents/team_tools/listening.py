"""The socket through which programs that carry calls for a member's agent reach Coterie.

Driven by the event loop's callbacks, so it needs no task; calls are queued among the agent's own
messages, and so served in order.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import os
import secrets
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread

from coterie.agents.fields import mapping, text
from coterie.agents.process import Object
from coterie.agents.team_tools.serving import NO_TURN, NOBODY_ANSWERED, SERVER, Result, Tool
from coterie.model.workspace import ToolCommands
from coterie.process.streams import parse_object
from coterie.workspace.beneath import remove_tree

PROGRAM = Path(__file__).with_name("program.py")
METHOD = "coterie/call"
"""The method that marks a call among an agent's messages; an agent's own does not count."""
LONGEST = 1_000_000
"""The most bytes a call may have."""
_LONGEST_ADDRESS = 100
"""The system limits the length of socket paths."""
_PREFIX = "inside-"
_OLD = 60.0


class ToolRequest(asyncio.Protocol):
    """One tool call from a program that the agent started; answered once."""

    def __init__(self, token: str, deliver: Callable[[ToolRequest], None]) -> None:
        self.key: str = f"ask.{secrets.token_hex(8)}"
        self.tool: str = ""
        self.given: Object = {}
        self._token = token
        self._deliver = deliver
        self._received = b""
        self._line: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._line = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > LONGEST:
            self._hang_up()
        elif self._received.endswith(b"\n"):
            self._take(mapping(parse_object(self._received.decode("utf-8", "replace"))))

    def connection_lost(self, exc: Exception | None) -> None:
        self._line = None

    @property
    def is_over(self) -> bool:
        """Whether nobody is waiting for an answer any more."""
        return self._line is None

    def answer(self, result: Result) -> None:
        """Send the result, unless the caller has hung up."""
        line, self._line = self._line, None
        if line is not None:
            reply = {"text": result.text, "failed": result.failed}
            line.write(json.dumps(reply).encode() + b"\n")
            line.close()

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.abort()

    def _take(self, message: Object) -> None:
        if not hmac.compare_digest(text(message.get("token")).encode(), self._token.encode()):
            self.answer(NO_TURN)
            return
        self.tool, self.given = text(message.get("tool")), mapping(message.get("arguments"))
        self._deliver(self)


def call_in(message: Object) -> ToolRequest | None:
    """Return the call that a message carries, if any."""
    call = message.get("call") if message.get("method") == METHOD else None
    return call if isinstance(call, ToolRequest) else None


class ToolSocket:
    """Accepts calls for as long as a channel is open.  The caller that opened it closes it."""

    def __init__(self, folder: Path, token: str) -> None:
        self._folder = folder
        self._token = token
        self._server: asyncio.Server | None = None
        self._sink: Callable[[Object], None] | None = None
        self._calls: list[ToolRequest] = []

    @classmethod
    async def open(cls, tmp: Path, tools: list[Tool]) -> ToolSocket:
        """Listen in a folder of a member, with files that tell programs how to call."""
        opened = cls(tmp, secrets.token_hex(16))
        with anyio.CancelScope(shield=True):  # or nobody would close what is open by then
            await opened._listen(tools)
        return opened

    async def _listen(self, tools: list[Tool]) -> None:
        bind = partial(_bind, self._folder, tools, self._token)
        self._folder, bound = await anyio.to_thread.run_sync(bind)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, sock=bound)

    @property
    def servers(self) -> list[Object]:
        """The tools as a server for an agent to start, in ACP's format."""
        words = _words("serve", self._folder)
        return [{"name": SERVER, "command": words[0], "args": words[1:], "env": []}]

    @property
    def commands(self) -> ToolCommands:
        """The tools as commands, for agents that take them that way."""
        return ToolCommands(shlex.join(_words("list", self._folder)), str(self._folder / _CALLER))

    def divert(self, sink: Callable[[Object], None]) -> None:
        """Deliver calls to this sink, as messages."""
        self._sink = sink

    async def close(self) -> None:
        """Stop listening; callers still waiting are told that nobody answers."""
        if self._server is not None:
            self._server.close()
        for call in self._calls:
            call.answer(NOBODY_ANSWERED)
        await anyio.to_thread.run_sync(_remove, self._folder)

    def _accept(self) -> ToolRequest:
        call = ToolRequest(self._token, self._deliver)
        self._calls = [*(one for one in self._calls if not one.is_over), call]
        return call

    def _deliver(self, call: ToolRequest) -> None:
        if self._sink is None:
            call.answer(NO_TURN)
        else:
            self._sink({"method": METHOD, "call": call})


_SOCKET, _CONFIG, _CALLER = "s", "tools.json", "call"


def _bind(tmp: Path, tools: list[Tool], token: str) -> tuple[Path, socket.socket]:
    """Make a folder with everything that programs need, and the socket bound in it."""
    folder = tmp / f"{_PREFIX}{secrets.token_hex(4)}"
    if len(os.fsencode(folder / _SOCKET)) <= _LONGEST_ADDRESS:
        folder.mkdir(mode=0o700)
    else:
        folder = Path(tempfile.mkdtemp(prefix=f"coterie-{_PREFIX}"))
    try:
        return folder, _bound_in(folder, tools, token)
    except BaseException:
        _remove(folder)
        raise


def _bound_in(folder: Path, tools: list[Tool], token: str) -> socket.socket:
    _clean(folder)
    address = str(folder / _SOCKET)
    config = {"socket": address, "token": token, "tools": tools}
    _write(folder / _CONFIG, json.dumps(config), 0o600)
    words = shlex.join(_words("call", folder))
    _write(folder / _CALLER, f'#!/bin/sh\nexec {words} "$@"\n', 0o700)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _words(what: str, folder: Path) -> list[str]:
    return [sys.executable, "-IS", str(PROGRAM), what, str(folder / _CONFIG)]


def _write(path: Path, text: str, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)


def _remove(folder: Path) -> None:
    """Remove a folder as far as possible; it may be among files of the member's."""
    with suppress(OSError):
        remove_tree(folder)


def _clean(new: Path) -> None:
    """Remove folders that a killed Coterie left behind: nobody listens on their sockets any more.

    A folder without a socket is somebody else's: both parents may hold other files too.
    """
    made = new.stat()
    for folder in new.parent.glob(f"{new.name.rpartition('-')[0]}-*"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            status = folder.stat()
            # A folder made just now may not be listening yet.
            is_old = status.st_uid == made.st_uid and made.st_mtime - status.st_mtime > _OLD
            if is_old and line.connect_ex(str(folder / _SOCKET)) == errno.ECONNREFUSED:
                _remove(folder)
