"""A separate machine for the page: Coterie from its wheel, projects in git, a real server."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"https?://[^\s\"]+/#token=[\w-]+")
_GITCONFIG = "[user]\n\tname = You\n\temail = you@example.com\n"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let only one worker of a test run in at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def installed(shared: Path) -> Path:
    """Return the `bin` of a new environment with the wheel, created once for a run's workers."""
    venv = shared / "page-venv"
    with locked(shared / "page-venv.lock"):
        if not (venv / "made").exists():
            env = {**os.environ, "VENV": str(venv), "PYTHON": sys.executable, "COMPILE": "no"}
            setup = [ROOT / "scripts" / "setup", "wheel"]
            made = subprocess.run(setup, env=env, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stderr
            (venv / "made").touch()
    return venv / "bin"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Running(Protocol):
    """A command in the background."""

    @property
    def pid(self) -> int: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    def send_signal(self, number: int, /) -> None: ...

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


@dataclass(frozen=True)
class Machine:
    """A user with a home, an installed `coterie` and projects."""

    folder: Path
    bin: Path
    env: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        home = self.folder / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text(_GITCONFIG)
        kept = ("PATH", "LANG", "LC_ALL", "TMPDIR")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env |= {"HOME": str(home), "COTERIE_HOME": str(home / ".coterie"), "TZ": "UTC"}
        object.__setattr__(self, "env", env)

    def project(self, name: str, **files: str) -> Path:
        """Create a repository with these Python files, committed."""
        root = self.folder / name
        root.mkdir()
        for file, text in (files or {"cart": "total = 0\n"}).items():
            (root / f"{file}.py").write_text(text)
        self.git(root, "init", "-q", "-b", "main")
        self.git(root, "add", ".")
        self.git(root, "commit", "-qm", "begin")
        return root

    def git(self, root: Path, *words: str) -> str:
        """Return git's output."""
        return self._run(["git", *words], root)

    def coterie(self, root: Path, *words: str) -> str:
        """Return the output of the installed command."""
        return self._run([str(self.bin / "coterie"), *words], root)

    def started(self, root: Path, *words: str) -> Running:
        """Start the installed command in the background, without input."""
        return subprocess.Popen(
            [self.bin / "coterie", *words],
            cwd=root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def lines(self, root: Path, *words: str) -> list[dict[str, Any]]:
        """Return the parsed output of the installed command with `--json`."""
        return [json.loads(line) for line in self.coterie(root, *words, "--json").splitlines()]

    def _run(self, words: list[str], root: Path) -> str:
        ran = subprocess.run(
            words,
            cwd=root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode in (0, 3), f"{words}\n{ran.stdout}{ran.stderr}"
        return ran.stdout


class Server:
    """`coterie serve` on one port, however often it is killed and restarted."""

    def __init__(self, machine: Machine, root: Path) -> None:
        self._machine = machine
        self._root = root
        self._process: Running | None = None
        self.port = free_port()
        self.address = ""
        """The address with the token, as printed."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self.end()

    @property
    def origin(self) -> str:
        """Where every request of the page must go."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self, *words: str) -> None:
        """Start it; return when it listens."""
        port = ("--port", str(self.port))
        self._process = self._machine.started(self._root, "serve", "--json", *port, *words)
        assert self._process.stdout is not None
        read: list[str] = []
        for line in self._process.stdout:
            read.append(line)
            if found := ADDRESS.search(line):
                self.address = found[0]
                return
        raise AssertionError(f"coterie serve ended: {''.join(read)}")

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call the API as a program would, and return the answer."""
        request = Request(
            f"{self.origin}/api/v1{path}",
            json.dumps(body).encode() if body is not None else None,
            {"authorization": f"Bearer {self.token}", "content-type": "application/json"},
            method=method,
        )
        try:
            with urlopen(request, timeout=60) as response:
                text = response.read()
        except HTTPError as refused:
            raise AssertionError(f"{method} {path}: {refused.read().decode()}") from None
        return json.loads(text) if text else None

    def project(self, root: Path) -> str:
        """Return a project's id in addresses."""
        return sha256(str(root.resolve()).encode()).hexdigest()[:12]

    def add(self, root: Path) -> None:
        """Add a project in which nothing has been done yet to the server."""
        self.call("POST", "/projects", {"folder": str(root)})

    def place(self, root: Path, *parts: str) -> str:
        """Return the address of a screen of the project."""
        return "/".join([self.origin, "p", self.project(root), *parts])

    def begin(self, root: Path, workflow: str, goal: str, **more: object) -> str:
        """Start a rehearsal, by default with the project's team; return its id."""
        body = {"workflow": workflow, "goal": goal, "rehearsal": True, **more}
        return str(self.call("POST", f"/projects/{self.project(root)}/tasks", body)["id"])

    @property
    def token(self) -> str:
        """The token that admits a program."""
        return self.address.rpartition("#token=")[2]

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Stop it; return when it is gone."""
        assert self._process is not None
        self._process.send_signal(by)
        self._process.communicate(timeout=60)
        self._process = None

    def kill(self) -> None:
        """Kill it without warning."""
        self.end(signal.SIGKILL)
