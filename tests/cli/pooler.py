"""Servers other than a plain PostgreSQL: a pooler in transaction mode, and one without TLS."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

_IN_CLEAR = (80877103, 80877104)
"""Request codes of a client that asks for encryption, by TLS or Kerberos."""


@contextmanager
def serving(answer: object) -> Generator[int]:
    """Listen on a local port; `answer` handles each connection in its own thread."""
    assert callable(answer)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):  # closed
                while True:
                    client, _ = server.accept()
                    threading.Thread(target=_answered, args=(answer, client), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answered(answer: object, client: socket.socket) -> None:
    assert callable(answer)
    with client, suppress(OSError, EOFError):
        answer(client)


def without_tls(client: socket.socket) -> None:
    """Refuse encryption and check that nothing is sent in clear."""
    _read(client, 8)
    client.sendall(b"N")
    assert client.recv(1) == b"", "something was sent in clear"


class TransactionPooler:
    """Runs the transactions of all clients on its single session with the server."""

    def __init__(self, path: str, database: str) -> None:
        self._free = threading.Lock()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(path)
        words = f"user\0coterie\0database\0{database}\0client_encoding\0UTF8\0\0".encode()
        self._server.sendall(struct.pack("!ii", 8 + len(words), 196608) + words)
        self._greeting = b""
        while (message := _message(self._server))[:1] != b"Z":
            if message[:1] == b"S":
                self._greeting += message

    def __call__(self, client: socket.socket) -> None:
        """Serve one client."""
        while struct.unpack("!i", (start := self._start(client))[:4])[0] in _IN_CLEAR:
            client.sendall(b"N")
        assert start
        key = struct.pack("!ciii", b"K", 12, 1, 1)
        client.sendall(struct.pack("!cii", b"R", 8, 0) + self._greeting + key + b"Z\0\0\0\5I")
        is_held = False
        try:
            while (message := _message(client))[:1] != b"X":
                if not is_held:
                    is_held = self._free.acquire()
                self._server.sendall(message)
                if message[:1] in (b"Q", b"S") and self._answer(client):
                    self._free.release()
                    is_held = False
        finally:
            if is_held:
                self._server.sendall(b"Q\0\0\0\x0dROLLBACK\0")
                while _message(self._server)[:1] != b"Z":
                    pass
                self._free.release()

    def close(self) -> None:
        self._server.close()

    def _answer(self, client: socket.socket) -> bool:
        """Forward the server's reply; return whether the transaction is over."""
        while True:
            message = _message(self._server)
            client.sendall(message)
            if message[:1] == b"Z":
                return message[-1:] == b"I"

    def _start(self, client: socket.socket) -> bytes:
        (length,) = struct.unpack("!i", _read(client, 4))
        return _read(client, length - 4)


def _message(stream: socket.socket) -> bytes:
    head = _read(stream, 5)
    return head + _read(stream, struct.unpack("!i", head[1:])[0] - 4)


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = stream.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
