"""`coterie` in its own process, forked from one that has already imported all of it.

Starting an interpreter and importing the program is most of what a short command costs.  Here that
happens once; every command still has its own process, environment, folder and streams.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, Self

ROOT = Path(__file__).parents[2]
LONGEST = 1 << 17
"""Large enough for a request with a whole environment."""


class ForkServer:
    """Runs commands; created once, and gone when its creator exits."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.forked", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        theirs.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._line.close()
        self._server.kill()  # a process forked from this one may still hold a copy of the socket
        self._server.wait()

    def run(
        self,
        words: Sequence[str],
        given: str | None,
        cwd: Path,
        env: Mapping[str, str],
        timeout: float = 60,
    ) -> tuple[str, str, int]:
        """Run a command and return its stdout, stderr and exit code."""
        with _file(given or "") as stdin, _file() as out, _file() as err:
            streams = [stdin.fileno(), out.fileno(), err.fileno()]
            with self._request(words, cwd, env, streams) as status_pipe:
                status_pipe.settimeout(timeout)
                assert status_pipe.recv(16)  # its pid
                code = int(status_pipe.recv(16))
            return _read_all(out), _read_all(err), code

    def start(self, words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> ForkedCommand:
        """Start a command that runs in the background, with nothing on stdin."""
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        status_pipe = self._request(words, cwd, env, [nothing, their_out, their_err])
        for theirs in (nothing, their_out, their_err):
            os.close(theirs)
        return ForkedCommand(status_pipe, out, err)

    def popen(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: IO[bytes],
        stderr: IO[bytes],
        cwd: Path | None = None,
    ) -> ForkedProcess:
        """Take the place of `subprocess.Popen` for `python -m coterie`, with nothing on stdin."""
        assert [*command[:3], stdin] == [sys.executable, "-m", "coterie", subprocess.DEVNULL]
        with Path(os.devnull).open("rb") as nothing:
            streams = [file.fileno() for file in (nothing, stdout, stderr)]
            return ForkedProcess(self._request(command[3:], cwd or Path.cwd(), env, streams))

    def start_on_terminal(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], terminal: int
    ) -> ForkedProcess:
        """Start a command whose controlling terminal is this one, in a session of its own."""
        return ForkedProcess(self._request(words, cwd, env, [terminal] * 3, on_terminal=True))

    def _request(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: list[int],
        *,
        on_terminal: bool = False,
    ) -> socket.socket:
        """Request a command; the returned socket delivers its pid, then its exit code."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"words": list(words), "cwd": str(cwd), "env": dict(env), "tty": on_terminal}
        files = [*streams, theirs.fileno()]
        socket.send_fds(self._line, [json.dumps(request).encode()], files)
        theirs.close()
        return ours


class ForkedProcess:
    """A command that was forked, similar to `subprocess.Popen`."""

    def __init__(self, status_pipe: socket.socket) -> None:
        self._status = status_pipe
        self.pid = int(status_pipe.recv(16))
        self.returncode: int | None = None

    def fileno(self) -> int:
        """Readable once the command has ended, until `wait` was called."""
        return self._status.fileno()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises TimeoutExpired."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = int(self._status.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("coterie", timeout or 0) from None
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkedCommand(ForkedProcess):
    """A command running in the background, whose output is read as it comes."""

    def __init__(self, status_pipe: socket.socket, out: int, err: int) -> None:
        super().__init__(status_pipe)
        self.out = os.fdopen(out, encoding="utf-8")
        self.err = os.fdopen(err, encoding="utf-8")

    def until(self, text: str) -> None:
        """Read its stdout up to a line that contains the text."""
        assert any(text in line for line in self.out)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read everything it prints until it ends."""
        with ThreadPoolExecutor(1) as beside:
            err = beside.submit(self.err.read)
            out = self.out.read()
        self.wait(timeout)
        self.close()
        return out, err.result()

    def close(self) -> None:
        """Close the streams and discard unread output."""
        self.out.close()
        self.err.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()  # a command that still writes would keep us waiting
        if kind is not None:  # then what it waits for may never come
            self.kill()
        self.wait()


def _file(text: str = "") -> IO[bytes]:
    file = os.fdopen(os.memfd_create("stream"), "w+b")
    file.write(text.encode(errors="surrogateescape"))
    file.seek(0)
    return file


def _read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


# -- the process that forks ------------------------------------------------------------------


def serve(line: socket.socket) -> None:
    """Run requested commands concurrently until the socket is closed."""
    _import_all()
    status_pipes: dict[int, tuple[int, int]] = {}
    events = select.poll()
    events.register(line, select.POLLIN)
    while True:
        for ready, _ in events.poll():
            if ready in status_pipes:
                events.unregister(ready)
                _report(ready, *status_pipes.pop(ready))
                continue
            request, files, _, _ = socket.recv_fds(line, LONGEST, 4)
            if not request:
                return
            child = _forked(json.loads(request), files)
            ended = os.pidfd_open(child)
            status_pipes[ended] = child, files[-1]
            events.register(ended, select.POLLIN)


def _report(ended: int, child: int, status_pipe: int) -> None:
    """Tell whoever requested a command its exit code."""
    _, status = os.waitpid(child, 0)
    with suppress(OSError):  # who asked for it may be gone
        os.write(status_pipe, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(status_pipe)
    os.close(ended)


def _import_all() -> None:
    from coterie.cli import main

    for verb in {**main.VERBS, **main.UNLISTED}.values():
        importlib.import_module(f"coterie.cli.{verb.target.partition(':')[0]}")
    more = (
        "anyio._backends._asyncio",
        "coterie.agents.generic",
        "coterie.agents.process",
        "coterie.app.demo",
        "coterie.app.dry_run",
        "coterie.app.start",
        "coterie.app.takeover",
        "coterie.app.travel",
        "coterie.cli.dry_run",
        "coterie.cli.failure",
        "coterie.cli.named",
        "coterie.cli.running",
        "coterie.cli.ticket_events",
        "coterie.engine.leased",
        "coterie.ports.entry_points",
        "coterie.process.stdio_turns",
        "coterie.stores.envelope_files",
        "coterie.stores.events_log",
        "coterie.stores.postgres.blobs",
        "coterie.stores.postgres.dispatch",
        "coterie.stores.postgres.owners",
        "coterie.stores.postgres.storage",
        "coterie.tools.run_command",
        "coterie.workflows.tickets.scheduler",
        "coterie.workspace.durable_git_guard",
        "coterie.workspace.git_finder",
    )
    for name in more:
        importlib.import_module(name)
    gc.freeze()  # a collection in a command would write to, and so copy, all that is shared
    gc.set_threshold(20_000)  # as `main` does, which is not called here


def _forked(request: Mapping[str, Any], files: Sequence[int]) -> int:
    """Start a command and return its pid, which is reported as well.

    One fork each: to copy this process's memory map is most of what a short command costs.
    """
    *streams, status_pipe = files
    child = os.fork()
    if child == 0:
        _command(request, streams)
    for stream in streams:
        os.close(stream)
    with suppress(OSError):
        os.write(status_pipe, str(child).encode())
    return child


def _command(request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    from coterie.cli.main import run

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # what belongs to the server or to other commands
    if request["tty"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    encoding = request["env"].get("PYTHONIOENCODING", "utf-8")
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding),
        io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding, line_buffering=os.isatty(1)),
        io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding, write_through=True),
    )
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["coterie", *request["words"]]
    try:
        code = run(request["words"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    atexit._run_exitfuncs()  # as a separate process would
    os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
