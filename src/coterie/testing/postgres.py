"""A private PostgreSQL for tests and benchmarks: made in a folder, ended with its owner.

A test run shares one, whatever the number of its workers; each test has a database of its own.
Only the user can access the folder and the Unix socket in it.  A keeper, which is this file run as
a program, watches the owner and ends the server when the owner is gone, even after kill -9.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psutil

ROLE = "coterie"
"""The superuser of the clusters made here."""
_PREFIX = "coterie-pg-"
_START_SECONDS = 60
_ROOM = 1 << 30
_SETTINGS = {
    # A crash of the machine may lose all of it, and it is never replicated.
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "64MB",
    "autovacuum": "off",
    "jit": "off",
    "dynamic_shared_memory_type": "mmap",  # in the folder, and removed with it
    "shared_buffers": "16MB",
    "max_connections": "200",
    "listen_addresses": "",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class NoPostgres(Exception):
    """PostgreSQL is not installed or does not start; the message says why."""


@dataclass(frozen=True)
class Cluster:
    """A PostgreSQL server with its data, socket and log in `folder`."""

    folder: Path

    @property
    def data(self) -> Path:
        """The data directory that `initdb` makes."""
        return self.folder / "data"

    @property
    def log(self) -> str:
        """The server's whole log."""
        return (self.folder / "log").read_text(errors="replace")

    def url(self, database: str = "postgres", host: str = "") -> str:
        """Return the URL of a database: on the socket, or on `host` (`127.0.0.1:5433`)."""
        if host:
            password = (self.folder / "password").read_text()
            return f"postgresql://{ROLE}:{password}@{host}/{database}"
        port = "".join(self._status()[3:4]) or "5432"
        folder = quote(str(self.folder), safe="")
        return f"postgresql://{ROLE}@/{database}?host={folder}&port={port}"

    def make(self) -> None:
        """Run `initdb`: only our role, and only on the socket, needs no password."""
        password = self.folder / "password"
        password.write_text(secrets.token_hex(16))
        command = [*_programs("initdb"), "-D", str(self.data), "-U", ROLE]
        command += ["-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions", "--wal-segsize=1"]
        command += ["-A", "scram-sha-256", f"--pwfile={password}"]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode:
            last = (result.stderr or result.stdout).strip().splitlines()[-1:]
            raise NoPostgres(f"initdb cannot make a cluster here: {' '.join(last)}")
        rules = (
            f"local all {ROLE} trust\nlocal all all scram-sha-256\nhost all all all scram-sha-256\n"
        )
        (self.data / "pg_hba.conf").write_text(rules)

    def start(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        owner: int | None = None,
        lock: int | None = None,
    ) -> None:
        """Start it and wait until it accepts connections; it ends when the process `owner` does.

        `lock` is a file descriptor that its keeper holds open for as long as it lives.
        """
        before = self._status()[:1]  # left by a server that was killed
        keeper = [sys.executable, "-I", __file__, str(owner or os.getpid()), str(self.folder)]
        server = [*_programs("postgres", ends_with_keeper=True), "-D", str(self.data)]
        server += ["-k", str(self.folder)]
        for name, value in {**_SETTINGS, **(settings or {})}.items():
            server += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(
                keeper + server,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                pass_fds=() if lock is None else (lock,),
            )
        _keepers[self.folder] = started
        late = time.monotonic() + _START_SECONDS
        while not self._takes_connections(before):
            if started.poll() is not None or time.monotonic() > late:
                started.terminate()
                lines = self.log.strip().splitlines()[-1:]
                raise NoPostgres(f"PostgreSQL does not start: {' '.join(lines)}")
            time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it: at once (SIGQUIT), after closing its connections (SIGINT), or kill it."""
        ending: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            server = psutil.Process(self.pid)
            ending = [server, *server.children(recursive=True)]
            server.send_signal(how)
        keeper = _keepers.pop(self.folder, None)
        if keeper is not None:
            keeper.wait()
        psutil.wait_procs(ending)

    @property
    def pid(self) -> int:
        """The pid of the server's main process."""
        status = self._status()
        if not status:
            raise FileNotFoundError(f"no server is running in {self.folder}")
        return int(status[0])

    def _takes_connections(self, before: list[str]) -> bool:
        status = self._status()
        return status[:1] != before and "".join(status[7:8]).strip() == "ready"

    def _status(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.data / "postmaster.pid").read_text().splitlines()
        return []


_keepers: dict[Path, subprocess.Popen[bytes]] = {}
"""The keepers that this process started, by cluster folder."""


@contextmanager
def own_cluster(settings: Mapping[str, str] | None = None) -> Generator[Cluster]:
    """Make a cluster that nobody shares, for a test that stops, cuts off or fills it."""
    with _making():
        cluster, lock = _new(secrets.token_hex(4))
    try:
        cluster.make()
        cluster.start(settings, lock=lock)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)
        os.close(lock)  # held until here: between a stop and a start no keeper holds it


def shared_cluster(run: str, owner: int) -> Cluster:
    """Return the cluster of the test run `run`, made by the first caller; it ends with `owner`."""
    run = hashlib.sha256(run.encode()).hexdigest()[:8]
    with _making():
        cluster = Cluster(_place() / f"{_PREFIX}{run}")
        if (cluster.folder / "ready").exists():
            return cluster
        _remove_abandoned()
        cluster, lock = _new(run)
        try:
            cluster.make()
            cluster.start(owner=owner, lock=lock)
        finally:
            os.close(lock)
        (cluster.folder / "ready").touch()
        # Its keeper watches its owner, not this process: stop tracking it.
        _keepers.pop(cluster.folder).returncode = 0
    return cluster


class Databases:
    """Databases of a server, made from templates; `url` is for a role that may create them."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, name: str) -> str:
        """Return the URL of the database of this name."""
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    def create(self, name: str, template: str = "template0") -> str:
        """Make a database; returns its URL."""
        import psycopg
        from psycopg import sql

        making = "CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8'"
        with psycopg.connect(self._url, autocommit=True) as server:
            if server.info.server_version >= 150_000:
                making += " STRATEGY file_copy"  # a third of the time where the files are in memory
            names = (sql.Identifier(name), sql.Identifier(template))
            server.execute(sql.SQL(making).format(*names))
        return self.url(name)

    def drop(self, name: str) -> None:
        """Remove a database, even if somebody is still connected to it."""
        import psycopg
        from psycopg import sql

        dropping = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        with psycopg.connect(self._url, autocommit=True) as server:
            server.execute(dropping)

    def prepare(self, name: str, fill: Callable[[str], object]) -> str:
        """Ensure there is a template of this name, filled once by `fill`; returns the name."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as server:
            server.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
            known = "SELECT FROM pg_database WHERE datname = %s"
            if server.execute(known, [name]).fetchone() is None:
                unfinished = f"{name}_{secrets.token_hex(4)}"
                fill(self.create(unfinished))
                self._rename(unfinished, name)
        return name

    def _rename(self, old: str, new: str) -> None:
        import psycopg
        from psycopg import sql

        names = (sql.Identifier(old), sql.Identifier(new))
        with psycopg.connect(self._url, autocommit=True) as server:
            server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*names))


# -- location --------------------------------------------------------------------------------------


def _place() -> Path:
    """Return the folder for clusters: short, as socket paths must be; in memory if it fits."""
    memory = Path("/dev/shm")  # noqa: S108  the cluster's own folder in it is closed to others
    with suppress(OSError):
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM:
            return memory
    usual = Path(tempfile.gettempdir())
    return usual if len(str(usual)) < 70 else Path("/tmp")  # noqa: S108


@contextmanager
def _making() -> Generator[None]:
    """Let one process at a time make clusters and remove leftovers."""
    with (_place() / f"{_PREFIX}{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _new(name: str) -> tuple[Cluster, int]:
    """Make an empty folder, and the locked file that marks it as in use."""
    cluster = Cluster(_place() / f"{_PREFIX}{name}")
    shutil.rmtree(cluster.folder, ignore_errors=True)  # left by a failed attempt
    cluster.folder.mkdir(mode=0o700)
    lock = os.open(cluster.folder / "kept", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return cluster, lock


def _remove_abandoned() -> None:
    """Remove the folders whose keepers were killed as well; their servers ended with them."""
    for lock in _place().glob(f"{_PREFIX}*/kept"):
        with suppress(OSError), lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _programs(name: str, *, ends_with_keeper: bool = False) -> list[str]:
    """Return the command of a PostgreSQL program; it refuses to run as root, so root is mapped."""
    command: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("unshare") is None:
            raise NoPostgres("PostgreSQL does not start as root, and there is no unshare")
        command = ["unshare", "--user", "--map-user=1000", "--"]
    if ends_with_keeper and shutil.which("setpriv"):
        command += ["setpriv", "--pdeathsig", "QUIT", "--"]
    return [*command, str(_installed() / name)]


def _installed() -> Path:
    """Return the folder of PostgreSQL's programs: the one on PATH, else the newest of Debian's."""
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    candidates += sorted(debian, key=lambda folder: -float(folder.parent.name))
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgres("PostgreSQL is not installed: scripts/system-packages")


# -- the keeper ------------------------------------------------------------------------------------


def _keep(owner: int, folder: Path, command: Sequence[str]) -> int:
    """Run the server until it ends; if its owner ends first, end it and remove the folder."""
    server = subprocess.Popen(command)

    def end(*_: object) -> None:
        server.send_signal(signal.SIGQUIT)

    signal.signal(signal.SIGTERM, end)
    _wait_for_one(owner, server.pid)
    if server.poll() is None:
        server.send_signal(signal.SIGQUIT)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    return server.returncode


def _wait_for_one(*pids: int) -> None:
    """Return when one of these processes has ended."""
    if not hasattr(os, "pidfd_open"):
        while all(map(_alive, pids)):
            time.sleep(0.05)
        return
    ends = select.poll()
    with suppress(ProcessLookupError):
        for pid in pids:
            ends.register(os.pidfd_open(pid), select.POLLIN)
        ends.poll()


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(_keep(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
