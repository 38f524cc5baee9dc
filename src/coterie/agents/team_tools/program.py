"""A member's tools as a program that its agent starts; it only carries calls to Coterie.

    python -IS program.py serve FILE         a server of the Model Context Protocol on stdio
    python -IS program.py list FILE          the tools, as Gemini and Qwen want them listed
    python -IS program.py call FILE TOOL     one call, its arguments on stdin, its result on stdout

FILE says which tools there are and where Coterie listens.  Nothing of Coterie is imported, so
that it starts fast; it ends with its stdin, and a call ends when Coterie does.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

Object = dict[str, Any]

NOBODY: Object = {"text": "Nobody answered.", "failed": True}
PROGRESS_INTERVAL = 10.0
"""Seconds between progress notes for waiting calls: clients give up after a minute of silence."""
_NEWEST = "2025-11-25"


def replied(message: Mapping[str, Any], tools: Sequence[Object]) -> Object | None:
    """Return the reply to any message but a tool call; None if it needs no reply."""
    if not _has_id(message) or "method" not in message:
        return None
    match message["method"]:
        case "initialize":
            wanted = _object(message.get("params")).get("protocolVersion")
            result: Object = {
                "protocolVersion": wanted if isinstance(wanted, str) else _NEWEST,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "coterie", "version": "1"},
            }
        case "tools/list":
            result = {"tools": list(tools)}
        case "ping":
            result = {}
        case method:
            error = {"code": -32601, "message": f"{method} is not supported"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def called(message: Mapping[str, Any]) -> tuple[str, Object] | None:
    """Return the tool that a message calls and its arguments; None if it calls none."""
    if message.get("method") != "tools/call" or not _has_id(message):
        return None
    params = _object(message.get("params"))
    return str(params.get("name", "")), _object(params.get("arguments"))


def result_of(message: Mapping[str, Any], outcome: Mapping[str, Any]) -> Object:
    """Return the reply to a call."""
    content = [{"type": "text", "text": outcome["text"]}]
    result = {"content": content, "isError": bool(outcome.get("failed"))}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _has_id(message: Mapping[str, Any]) -> bool:
    # Anything nested could be too deep to be sent back.
    return "id" in message and not isinstance(message["id"], dict | list)


def _object(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}


class ToolConnection:
    """The connection that carries one call."""

    def __init__(self, place: Mapping[str, Any], tool: str, given: Object) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._received = b""
        request = {"token": place["token"], "tool": tool, "arguments": given}
        try:
            self._line.connect(place["socket"])
            self._line.sendall(json.dumps(request).encode() + b"\n")
        except OSError:  # nobody listens; the closed socket shows it
            self._line.close()

    def fileno(self) -> int:
        """For a selector; -1 when there is nothing to wait for."""
        return self._line.fileno()

    def outcome(self) -> Object | None:
        """Return the outcome once it is complete, None before."""
        try:
            piece = self._line.recv(65536)
        except OSError:
            piece = b""
        self._received += piece
        if piece and not self._received.endswith(b"\n"):
            return None
        self._line.close()
        try:
            return cast("Object", json.loads(self._received))
        except ValueError:
            return NOBODY


class Server:
    """Answers what it can itself, and carries calls, several at once if need be."""

    def __init__(self, place: Mapping[str, Any], say: Callable[[Object], None]) -> None:
        self._place = place
        self._say = say
        self._waiting = selectors.DefaultSelector()
        self._calls: dict[ToolConnection, Object] = {}

    def run(self, source: int) -> None:
        """Serve until the input ends."""
        buffer = b""
        with self._waiting:
            self._waiting.register(source, selectors.EVENT_READ)
            while True:
                ready = self._waiting.select(PROGRESS_INTERVAL if self._calls else None)
                for key, _ in ready:
                    if isinstance(key.fileobj, ToolConnection):
                        self._read_outcome(key.fileobj)
                        continue
                    piece = os.read(source, 65536)
                    if not piece:
                        return
                    *lines, buffer = (buffer + piece).split(b"\n")
                    for line in lines:
                        self._take(line)
                if not ready:
                    self._send_progress()

    def _take(self, line: bytes) -> None:
        try:
            message: object = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        request = cast("Object", message)
        call = called(request)
        if call is None:
            reply = replied(request, self._place["tools"])
            if reply is not None:
                self._say(reply)
            return
        carried = ToolConnection(self._place, *call)
        if carried.fileno() < 0:
            self._say(result_of(request, NOBODY))
            return
        self._calls[carried] = request
        self._waiting.register(carried, selectors.EVENT_READ)

    def _read_outcome(self, call: ToolConnection) -> None:
        descriptor = call.fileno()
        outcome = call.outcome()
        if outcome is not None:
            self._waiting.unregister(descriptor)
            self._say(result_of(self._calls.pop(call), outcome))

    def _send_progress(self) -> None:
        for request in self._calls.values():
            meta = _object(_object(request.get("params")).get("_meta"))
            if "progressToken" in meta:
                params = {"progressToken": meta["progressToken"], "progress": 0}
                self._say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def main(words: Sequence[str]) -> None:
    """Run the command that the arguments select."""
    what, file, *rest = words
    place = cast("Object", json.loads(Path(file).read_text(encoding="utf-8")))
    if what == "serve":
        Server(place, lambda message: _print(json.dumps(message))).run(sys.stdin.fileno())
    elif what == "list":
        declared = [_declared(tool) for tool in place["tools"]]
        _print(json.dumps([{"function_declarations": declared}]))
    else:
        call = ToolConnection(place, rest[0], json.loads(sys.stdin.read() or "{}"))
        outcome = None if call.fileno() >= 0 else NOBODY
        while outcome is None:
            outcome = call.outcome()
        _print(outcome["text"])


def _declared(tool: Object) -> Object:
    named = {"name": tool["name"], "description": tool["description"]}
    # Gemini reads the first schema, Qwen the second.
    return {**named, "parametersJsonSchema": tool["inputSchema"], "parameters": tool["inputSchema"]}


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
