"""JSON-RPC over a wire: our requests and their results, their requests and notifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from coterie.agents.wire import Object, Wire


class RpcError(Exception):
    """The agent answered a request with an error."""

    def __init__(self, method: str, error: Object) -> None:
        self.method: str = method
        self.code: Any = error.get("code")
        self.message: str = str(error.get("message", "no reason given"))
        self.data: Any = error.get("data")
        super().__init__(f"{method}: {self.message}")


@dataclass
class Rpc:
    """One side of a conversation; `jsonrpc` is left out where the other side does not want it."""

    wire: Wire
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
                message = await self.wire.receive()
                if message.get("id") == number and "method" not in message:
                    return result_of(method, message)
                aside.append(message)
        finally:
            self.wire.put_back(aside)

    def reply(self, request_id: object, result: Object) -> None:
        """Answer a request of theirs."""
        self._send({"id": request_id, "result": result})

    def refuse(self, request_id: object, message: str, code: int = -32601) -> None:
        """Answer a request of theirs with an error."""
        self._send({"id": request_id, "error": {"code": code, "message": message}})

    def _send(self, message: Object) -> None:
        self.wire.send({"jsonrpc": "2.0", **message} if self.jsonrpc else message)


def result_of(method: str, message: Object) -> Object:
    """The result of a response, or its error raised."""
    error = message.get("error")
    if isinstance(error, dict):
        raise RpcError(method, cast("Object", error))
    result = message.get("result")
    return cast("Object", result) if isinstance(result, dict) else {}
