"""A proxy in front of PostgreSQL's socket that cuts connections when a test asks it to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

Cut = Literal["before", "after"]
_KEY = b"K\x00\x00\x00\x0c"
"""The beginning of the message in which a server reports its process id."""


class CuttingProxy:
    """Forwards everything until told to cut.  Each direction has its own thread."""

    def __init__(self, url: str, folder: Path) -> None:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query))
        self._server = f"{given['host']}/.s.PGSQL.{given.get('port', '5432')}"
        self._socket = str(folder / ".s.PGSQL.5432")
        query = urlencode({**given, "host": str(folder), "port": "5432"})
        self.url = urlunsplit(parts._replace(query=query))
        self.next_cut: Cut | None = None
        """When to cut: before the next commit reaches the server, or after it was answered."""
        self.cuts = 0
        self.shift = 0
        """Added to the process id that a server reports, as a pooler reports its own."""
        self._ends: list[socket.socket] = []

    def cut_all(self) -> None:
        """Cut all open connections, whatever they are doing."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """Accept connections until the end of the block."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._socket)
            listener.listen()
            threading.Thread(target=self._serve, args=[listener], daemon=True).start()
            yield
            Path(self._socket).unlink()
            listener.shutdown(socket.SHUT_RDWR)
        self.cut_all()

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._ends += [client, server]
                for ends in ((client, server, "before"), (server, client, "after")):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, cut: Cut) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                # Both the commit and its answer contain the name of this column.
                if self.next_cut == cut and b"begin_batch" in data:
                    self.next_cut = None
                    self.cuts += 1
                    break
                sink.sendall(self._shifted(data))
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def _shifted(self, data: bytes) -> bytes:
        if not self.shift or _KEY not in data:
            return data
        place = data.index(_KEY) + len(_KEY)
        pid = int.from_bytes(data[place : place + 4], "big") + self.shift
        return data[:place] + pid.to_bytes(4, "big") + data[place + 4 :]
