"""An agent process that speaks JSON lines, and JSON-RPC on top of them.

Everything is driven by the child's own callbacks, so a channel needs no task of its own and may
be opened by one task and closed by another.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import anyio

from coterie.ports import ChildLog
from coterie.process.child import Child, KeeperName, Spawn, start_recorded
from coterie.process.streams import HIGH_WATER, LineSplitter, parse_object

Object = dict[str, Any]
NOISE = 20
"""How many non-JSON lines are kept: some CLIs explain there why they will not start."""


class AgentProcessEnded(Exception):
    """The agent has exited: its exit code, and the last lines it wrote."""

    def __init__(self, exit_code: int, tail: str) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code
        self.tail = tail


@dataclass
class AgentProcess:
    """One agent process that speaks JSON lines.  The caller that opened it must close it."""

    child: Child
    _lines: LineSplitter = field(default_factory=LineSplitter)
    _messages: deque[Object] = field(default_factory=deque[Object])
    _noise: deque[str] = field(default_factory=lambda: deque[str](maxlen=NOISE))
    _news: anyio.Event = field(default_factory=anyio.Event)
    _unread: int = 0
    """How many bytes have arrived since the last time that all messages were read."""
    _ended: bool = False
    _closed: bool = False

    @classmethod
    async def open(
        cls, spawn: Spawn, agent: str, children: ChildLog, keeper: KeeperName
    ) -> AgentProcess:
        """Start the agent; raises AgentMissing if that fails."""
        process = cls(await start_recorded(spawn, agent, children, keeper))
        process.child.divert(process._feed)
        return process

    @property
    def pid(self) -> int | None:
        return self.child.pid if self.alive else None

    @property
    def alive(self) -> bool:
        """Whether it still takes messages."""
        return not (self._closed or self._ended) and self.child.alive

    @property
    def tail(self) -> str:
        """The last lines it wrote outside the protocol."""
        return "\n".join([*self._noise, self.child.stderr_tail]).strip()

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue one line."""
        self.child.post(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> Object:
        """Return the next message; raises AgentProcessEnded if there will be none."""
        while not self._messages:
            if self._ended:
                raise AgentProcessEnded(await self.child.exit(), self.tail)
            self._news = anyio.Event()
            await self._news.wait()
        message = self._messages.popleft()
        if not self._messages:
            self._all_read()
        return message

    def put_back(self, messages: list[Object]) -> None:
        """Put messages meant for another reader back at the front, in their order."""
        self._messages.extendleft(reversed(messages))
        if messages:
            self._news.set()

    def put(self, message: Object) -> None:
        """Queue a message of our own among those from the agent."""
        self._messages.append(message)
        self._news.set()

    def drop_pending(self) -> list[Object]:
        """Drop and return the messages since the last turn ended: they belong to no turn."""
        dropped = list(self._messages)
        self._messages.clear()
        self._all_read()
        return dropped

    async def close(self) -> None:
        """End the agent and its whole process tree; returns once it is proven gone."""
        self._closed = True
        await self.child.close()

    def _feed(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            self._take(line)
        if not chunk:
            self._take(self._lines.finish() or b"")
            self._ended = True
        self._unread += len(chunk)
        if self._unread > HIGH_WATER and self._messages:
            self.child.pause()
        self._news.set()

    def _all_read(self) -> None:
        if self._unread > HIGH_WATER:
            self.child.resume()
        self._unread = 0

    def _take(self, line: bytes) -> None:
        message = parse_object(line)
        # Ids are strings or numbers; anything nested could be too deep to be sent back.
        if message is not None and not isinstance(message.get("id"), dict | list):
            self._messages.append(dict(message))
        elif line.strip():
            self._noise.append(line[:8000].decode("utf-8", "replace")[:2000])


class RpcError(Exception):
    """The agent answered a request with an error."""

    def __init__(self, method: str, error: Object) -> None:
        self.method: str = method
        self.code: Any = error.get("code")
        self.message: str = str(error.get("message", "no reason given"))
        self.data: Any = error.get("data")
        super().__init__(f"{method}: {self.message}")


@dataclass
class JsonRpc:
    """Our side of a conversation; `jsonrpc` is false if the agent wants no version field."""

    process: AgentProcess
    jsonrpc: bool = True
    _ids: count[int] = field(default_factory=lambda: count(1))

    def notify(self, method: str, params: Object | None = None) -> None:
        """Send a notification, which has no answer."""
        self._send({"method": method, **({"params": params} if params is not None else {})})

    def post(self, method: str, params: Object) -> int:
        """Send a request and return its id; the reader of messages looks for the result."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        return number

    async def request(self, method: str, params: Object) -> Object:
        """Send a request and wait for its result; other messages are kept in order."""
        number = self.post(method, params)
        others: list[Object] = []
        try:
            while True:
                message = await self.process.receive()
                if message.get("id") == number and "method" not in message:
                    return result_of(method, message)
                others.append(message)
        finally:
            self.process.put_back(others)

    def reply(self, request_id: object, result: Object) -> None:
        """Answer a request from the agent."""
        self._send({"id": request_id, "result": result})

    def refuse(self, request_id: object, message: str, code: int = -32601) -> None:
        """Answer a request from the agent with an error."""
        self._send({"id": request_id, "error": {"code": code, "message": message}})

    def _send(self, message: Object) -> None:
        self.process.send({"jsonrpc": "2.0", **message} if self.jsonrpc else message)


def result_of(method: str, message: Object) -> Object:
    """Return the result of a response, or raise its error."""
    error = message.get("error")
    if isinstance(error, dict):
        raise RpcError(method, cast("Object", error))
    result = message.get("result")
    return cast("Object", result) if isinstance(result, dict) else {}
