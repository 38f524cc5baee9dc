"""The link between a machine and its store, and how it is cut.

If network namespaces can be created, a machine has one, joined to ours by a pair of interfaces.
Otherwise it connects through a proxy that can stop forwarding.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from typing import Protocol

from coterie.testing.postgres import Cluster

NET = "10.231"


class Link(Protocol):
    """A machine's link to the store."""

    prefix: tuple[str, ...]
    """The words to start the machine's first process with."""
    url: str
    """The address of the store, as seen from the machine."""

    def join(self, first_process: int) -> None:
        """Connect the machine of this process."""
        ...

    def cut(self, *, one_way: bool = False) -> None:
        """Silently drop everything that is sent; with `one_way` only what the store sends."""
        ...

    def heal(self) -> None:
        """Stop dropping."""
        ...


class DirectLink:
    """A link that is never cut."""

    prefix: tuple[str, ...] = ()

    def __init__(self, cluster: Cluster, database: str) -> None:
        self.url = cluster.url(database)

    def join(self, first_process: int) -> None: ...

    def cut(self, *, one_way: bool = False) -> None:
        raise NotImplementedError

    def heal(self) -> None: ...


class NamespaceLink:
    """A pair of interfaces; our end is in the namespace in which PostgreSQL listens."""

    prefix: tuple[str, ...] = (
        "unshare",
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "--",
    )

    def __init__(self, cluster: Cluster, database: str, number: int) -> None:
        self._number = number
        self._net = f"{NET}.{number}"
        self.url = f"{cluster.url(database, f'{self._net}.1:5432')}?sslmode=disable"

    def join(self, first_process: int) -> None:
        ours, theirs = f"store{self._number}", f"machine{self._number}"
        _ip(
            f"link add name {ours} type veth peer name {theirs}",
            f"link set dev {theirs} netns {first_process}",
            f"addr add {self._net}.1/24 dev {ours}",
            f"link set dev {ours} up",
        )
        _ip(
            "link set dev lo up",
            f"addr add {self._net}.2/24 dev {theirs}",
            f"link set dev {theirs} up",
            within=["nsenter", "--net", "--target", str(first_process), "--"],
        )

    def cut(self, *, one_way: bool = False) -> None:
        if one_way:
            _ip(f"route add blackhole {self._net}.2/32")
        else:
            _ip(f"link set dev store{self._number} down")

    def heal(self) -> None:
        _ip(f"link set dev store{self._number} up")
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip(f"route del blackhole {self._net}.2/32")


class ProxyLink:
    """A proxy on a port of this computer, with a thread for each direction."""

    prefix: tuple[str, ...] = ()

    def __init__(self, cluster: Cluster, database: str) -> None:
        self._server = f"{cluster.folder}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"{cluster.url(database, f'127.0.0.1:{port}')}?sslmode=disable"
        self._passes = {"up": threading.Event(), "down": threading.Event()}
        self.heal()
        threading.Thread(target=self._serve, daemon=True).start()

    def join(self, first_process: int) -> None: ...

    def cut(self, *, one_way: bool = False) -> None:
        for way in ("down",) if one_way else ("up", "down"):
            self._passes[way].clear()

    def heal(self) -> None:
        for passes in self._passes.values():
            passes.set()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=[client], daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._passes["up"].wait()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
        except OSError:
            client.close()
            return
        for ends in ((client, server, "up"), (server, client, "down")):
            threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._passes[way].wait()  # TCP would also resend it until it arrives
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def in_own_network() -> list[str]:
    """Return the words that let a program create namespaces; empty if that is not permitted."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *mapped, "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    tried = "ip link set dev lo up && ip link add name store0 type veth peer name machine0"
    made = subprocess.run([*words, "sh", "-c", tried], check=False, capture_output=True)
    return words if made.returncode == 0 else []


def listen_in_namespace() -> None:
    """Prepare the namespace that we are in for whatever listens in it."""
    _ip("link set dev lo up")


def _ip(*lines: str, within: list[str] | None = None) -> None:
    words = [*(within or []), "ip", "-batch", "-"]
    subprocess.run(words, input="\n".join(lines), text=True, check=True, capture_output=True)
