"""An agent's process that speaks JSON lines, and JSON-RPC on top of them.

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
from coterie.process.streams import LineSplitter, parse_object

Object = dict[str, Any]
NOISE = 20
"""How many lines that were no JSON are kept: some CLIs say there why they will not start."""


class AgentProcessEnded(Exception):
    """The agent is gone: its exit code, and the last that it wrote."""

    def __init__(self, exit_code: int, tail: str) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code
        self.tail = tail


@dataclass
class AgentProcess:
    """One agent process that speaks JSON lines.  Whoever opened it must close it."""

    child: Child
    _lines: LineSplitter = field(default_factory=LineSplitter)
    _messages: deque[Object] = field(default_factory=deque[Object])
    _noise: deque[str] = field(default_factory=lambda: deque[str](maxlen=NOISE))
    _news: anyio.Event = field(default_factory=anyio.Event)
    _ended: bool = False
    _closed: bool = False

    @classmethod
    async def open(
        cls, spawn: Spawn, agent: str, children: ChildLog, keeper: KeeperName
    ) -> AgentProcess:
        """Start the agent; AgentMissing when it cannot be."""
        process = cls(await start_recorded(spawn, agent, children, keeper))
        process.child.divert(process._feed)
        return process

    @property
    def pid(self) -> int | None:
        return self.child.pid if self.alive else None

    @property
    def alive(self) -> bool:
        """Whether it can still be spoken to."""
        return not (self._closed or self._ended) and self.child.alive

    @property
    def tail(self) -> str:
        """The last it said outside the protocol."""
        return "\n".join([*self._noise, self.child.stderr_tail]).strip()

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue one line."""
        self.child.post(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> Object:
        """The next message; AgentProcessEnded when there will be none."""
        while not self._messages:
            if self._ended:
                raise AgentProcessEnded(await self.child.exit(), self.tail)
            self._news = anyio.Event()
            await self._news.wait()
        return self._messages.popleft()

    def put_back(self, messages: list[Object]) -> None:
        """Give messages back that were for somebody else, in their order."""
        self._messages.extendleft(reversed(messages))
        if messages:
            self._news.set()

    def put(self, message: Object) -> None:
        """Add a message of our own to what comes from the agent."""
        self._messages.append(message)
        self._news.set()

    def drop_pending(self) -> list[Object]:
        """Forget what came since the last turn ended: it is nobody's any more."""
        dropped = list(self._messages)
        self._messages.clear()
        return dropped

    async def close(self) -> None:
        """End the agent and its whole tree; returns when it is proven gone."""
        self._closed = True
        await self.child.close()

    def _feed(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            self._take(line)
        if not chunk:
            self._take(self._lines.finish() or b"")
            self._ended = True
        self._news.set()

    def _take(self, line: bytes) -> None:
        message = parse_object(line)
        if message is not None:
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
    """One side of a conversation; `jsonrpc` is left out where the other side does not want it."""

    process: AgentProcess
    jsonrpc: bool = True
    _ids: count[int] = field(default_factory=lambda: count(1))

    def notify(self, method: str, params: Object | None = None) -> None:
        """Say something that has no answer."""
        self._send({"method": method, **({"params": params} if params is not None else {})})

    def post(self, method: str, params: Object) -> int:
        """Send a request whose result is looked for by whoever receives; its id."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        return number

    async def request(self, method: str, params: Object) -> Object:
        """Send a request and wait for its result; what else comes meanwhile is kept in order."""
        number = self.post(method, params)
        aside: list[Object] = []
        try:
            while True:
                message = await self.process.receive()
                if message.get("id") == number and "method" not in message:
                    return result_of(method, message)
                aside.append(message)
        finally:
            self.process.put_back(aside)

    def reply(self, request_id: object, result: Object) -> None:
        """Answer a request of theirs."""
        self._send({"id": request_id, "result": result})

    def refuse(self, request_id: object, message: str, code: int = -32601) -> None:
        """Answer a request of theirs with an error."""
        self._send({"id": request_id, "error": {"code": code, "message": message}})

    def _send(self, message: Object) -> None:
        self.process.send({"jsonrpc": "2.0", **message} if self.jsonrpc else message)


def result_of(method: str, message: Object) -> Object:
    """The result of a response, or its error raised."""
    error = message.get("error")
    if isinstance(error, dict):
        raise RpcError(method, cast("Object", error))
    result = message.get("result")
    return cast("Object", result) if isinstance(result, dict) else {}
