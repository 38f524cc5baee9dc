"""Starting programs: agents under keepers, and short runs.  The only module that forks."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, TypeVar, cast

import anyio

from coterie.errors import AgentMissing
from coterie.process.processes import KEEPER, MARK
from coterie.process.streams import (
    InputWriter,
    OutputReader,
    Stdio,
    Tail,
    read_from,
    write_to,
)

if TYPE_CHECKING:
    from coterie.ports import Deadline

T = TypeVar("T")


async def shielded(call: Callable[[], Awaitable[T]]) -> T:
    """Run to completion even if the caller is cancelled; the call must be bounded in time."""
    result: list[T] = []
    with anyio.CancelScope(shield=True):
        result.append(await call())
    return result[0]


class Program(asyncio.SubprocessProtocol):
    """A started program; `gone` is set once it has exited and been reaped."""

    def __init__(self) -> None:
        self.gone: anyio.Event = anyio.Event()
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def process_exited(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self.gone.set()

    @property
    def pid(self) -> int:
        """Its pid, which is not reused before `gone`."""
        return 0 if self._transport is None else self._transport.get_pid()

    @property
    def code(self) -> int | None:
        """Its exit code, 128+n for signal n; None while it runs."""
        code = None if self._transport is None else self._transport.get_returncode()
        return 128 - code if code is not None and code < 0 else code

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still running."""
        if self._transport is not None and self.code is None:
            with suppress(ProcessLookupError):
                self._transport.send_signal(number)


async def launch(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    stdio: Stdio,
    passed: tuple[int, ...] = (),
) -> Program:
    """Start a program in its own session.  Raises OSError or ValueError if that fails.

    `env` is its complete environment, `passed` are the descriptors it inherits besides its streams.
    Forks in the calling thread, which must be the loop's: the death signal is sent when the thread
    that forked dies.  A terminal's Ctrl-C reaches only Coterie, which ends the others.
    """
    loop = asyncio.get_running_loop()
    stdin, stdout, stderr = stdio.theirs
    with _no_signal_ignored():
        _, program = await loop.subprocess_exec(
            Program,
            *argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            pass_fds=passed,
            start_new_session=True,
        )
    return program


def _forget(number: int, frame: object) -> None:
    """Do nothing: a handler for signals that must be neither ignored nor acted on."""


@contextmanager
def _no_signal_ignored() -> Generator[None]:
    """Catch and drop signals in this block that we otherwise ignore.

    Ignored signals are inherited, caught ones are not: under nohup or a shell's `&`, an agent and
    its whole tree would ignore SIGHUP or SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # SIGPIPE and SIGXFSZ, which Python ignores, are restored by subprocess itself.
    mine = {signal.SIGPIPE, signal.SIGXFSZ}
    ignored = [n for n in signal.valid_signals() - mine if signal.getsignal(n) is signal.SIG_IGN]
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in ignored:
        signal.signal(number, _forget)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# -- agents under a keeper -----------------------------------------------------------------------

KeeperName = Literal["auto", "bubblewrap", "subreaper"]

GRACE = 2.0
"""How long an agent has to end by itself after TERM."""
START = 20.0
"""How long a start may take; in practice milliseconds, but a busy machine must not be an error."""


@dataclass(frozen=True)
class Spawn:
    """An agent to start for a member; `env` is its complete environment."""

    command: str
    args: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    member: str
    folder: str
    mark: str = ""
    """The mark by which it can be found again; empty until it is recorded."""
    use_pty: bool = False
    on_stderr: Callable[[bytes], None] = lambda _: None
    """Called with its stderr output as it arrives."""
    deadline: Deadline | None = None
    """When it is ended in any case; None: it may run as long as we do."""
    orphaned: tuple[str, ...] = ()
    """The command that its keeper execs, with the number of `memory` added, once its tree and we
    are gone."""
    memory: int | None = None
    """A descriptor for that command, which the agent does not inherit."""

    @property
    def marked_env(self) -> dict[str, str]:
        """The environment of the agent and its keeper, by which both can be found again."""
        return {**self.env, MARK: self.mark}

    def missing(self, problem: str) -> AgentMissing:
        """The error that it cannot be started, or can no longer be used."""
        return AgentMissing(self.member, self.folder, self.command, problem)


def under_keeper(
    spawn: Spawn, words: Sequence[str], control: int, status: int, *, private: bool = False
) -> tuple[list[str], tuple[int, ...]]:
    """The command that runs a program under our keeper, and the descriptors to pass to it."""
    options = [f"--parent={os.getpid()}", f"--control={control}", f"--status={status}"]
    options += [f"--grace={GRACE}"] + ["--tty"] * spawn.use_pty + ["--private"] * private
    if "LC_CTYPE" in spawn.env:
        options.append(f"--locale={spawn.env['LC_CTYPE']}")
    passed = [control, status]
    if spawn.memory is not None:
        passed.append(memory := os.dup(spawn.memory))
        words_then = "\x1f".join((*spawn.orphaned, str(memory)))
        options += [f"--memory={memory}", f"--orphaned={words_then}"]
    if spawn.deadline is not None:
        passed.append(page := os.dup(spawn.deadline.fd))
        options += [f"--lease={page}", f"--soft={spawn.deadline.soft}"]
    return [sys.executable, "-I", "-S", str(KEEPER), *options, "--", *words], tuple(passed)


class KeeperFailed(Exception):
    """The keeper itself could not be started; another kind of keeper may work."""


class KeeperHandle(asyncio.Protocol, ABC):
    """An agent that runs under a keeper, and the status that the keeper reports line by line.

    Subclasses know the meaning of their keeper's lines, and how to have it signal the agent.
    """

    preamble = b""
    """What to write to the agent's stdin before anything else."""

    def __init__(self) -> None:
        self.program: Program = Program()
        """The keeper; it runs as long as any process of the agent."""
        self.agent_pid = 0
        self.ready: anyio.Event = anyio.Event()
        """Set when the keeper has reported that the agent runs, or the keeper has ended."""
        self.exited: anyio.Event = anyio.Event()
        """Set when the agent itself has ended, whatever still runs below it."""
        self.exit_code: int | None = None
        """128+n for signal n; None while it runs, or if its keeper could not tell."""
        self.left = 0
        """How many processes it left running (they are ended), if its keeper counts them."""
        self._on_exit: Callable[[], None] | None = None
        self._partial_line = b""

    async def start(
        self, argv: Sequence[str], spawn: Spawn, stdio: Stdio, passed: tuple[int, ...], status: int
    ) -> None:
        """Start the keeper with these descriptors; return once `ready`, or after a timeout."""
        try:
            self.program = await launch(argv, spawn.cwd, spawn.marked_env, stdio, passed)
        except BaseException:
            os.close(status)
            raise
        finally:
            for fd in passed:
                os.close(fd)
        await read_from(status, self)
        with anyio.move_on_after(START):
            await self.ready.wait()

    def data_received(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self.reported(line.decode("ascii", "replace"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.ready.set()
        self.set_exit(None)

    def set_exit(self, code: int | None) -> None:
        """Record that the agent has ended; the first known exit code counts."""
        if self.exit_code is None:
            self.exit_code = code
        if not self.exited.is_set():
            self.exited.set()
            if self._on_exit is not None:
                self._on_exit()

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call the callback when the agent has ended, at once if it already has."""
        self._on_exit = callback
        if self.exited.is_set():
            callback()

    @abstractmethod
    def reported(self, line: str) -> None:
        """Handle a line of the keeper's status."""

    @abstractmethod
    def interrupt(self) -> None:
        """Send SIGINT to the agent's process group."""

    @abstractmethod
    def ask_to_end(self) -> None:
        """Send TERM to the agent, which may have tools to end and state to save."""

    @abstractmethod
    def kill(self) -> None:
        """Send KILL to the agent and all of its descendants."""

    @abstractmethod
    async def proven_gone(self) -> bool:
        """Wait until no process of the agent runs; False if that cannot be proven."""


TIMEOUT = 10.0
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+][0-9A-Za-z.-]+)?")


@dataclass(frozen=True)
class CapturedOutput:
    """What a program printed; `status` is None if it was ended before it exited."""

    output: bytes
    complaint: str
    status: int | None
    cut: bool = False
    """Whether it printed more than `most` bytes."""
    late: bool = False
    """Whether it ran into the timeout."""


async def capture(
    words: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    *,
    most: int,
    time_limit: float,
    given: bytes = b"",
) -> CapturedOutput:
    """Run a program until it exits, has printed more than `most` bytes or has run for `time_limit`
    seconds; `given` is its input.  Raises OSError if it cannot be run.  When this returns or is
    cancelled, the program is gone; if it was cut short, so is its whole process group."""
    output, errors, complaint, entered = OutputReader(), OutputReader(), Tail(), InputWriter()
    errors.divert(complaint.add)

    async def start() -> Program:
        stdio = Stdio.pipes()
        with stdio.handed_over():
            program = await launch(words, cwd, env, stdio)
        to_child, from_child, child_errors = stdio.ours
        if given:
            await write_to(to_child, entered)
            entered.post(given)
            entered.close()
        else:
            os.close(to_child)
        await read_from(from_child, output)
        if child_errors is not None:
            await read_from(child_errors, errors)
        return program

    program = await shielded(start)
    printed = bytearray()
    try:
        with anyio.move_on_after(time_limit) as scope:
            while len(printed) <= most and (chunk := await output.receive()):
                printed += chunk
            if len(printed) <= most:
                await program.gone.wait()
                await errors.ended.wait()
        cut, late = len(printed) > most, scope.cancelled_caught
        return CapturedOutput(bytes(printed[:most]), complaint.text, program.code, cut, late)
    finally:
        entered.abort()
        if program.code is None:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        await shielded(program.gone.wait)
        output.close()
        errors.close()


def succeeds(words: Sequence[str]) -> bool:
    """Whether a command exits with 0.  Blocks."""
    ran = _run(words, None, subprocess.DEVNULL)
    return ran is not None and ran.returncode == 0


def version_of(command: str, search_path: str) -> str | None:
    """The version that a program prints for `--version`; None if it prints none.  Blocks.
    It runs with a temporary home: some programs write files even then."""
    try:
        with tempfile.TemporaryDirectory() as home:
            env = {"HOME": home, "TMPDIR": home, "PATH": search_path}
            ran = _run([command, "--version"], env, subprocess.PIPE)
    except OSError:
        return None
    if ran is None or ran.returncode != 0:
        return None
    match = _VERSION.search((ran.stdout + ran.stderr).decode("utf-8", "replace"))
    return match[0] if match else None


def _run(
    words: Sequence[str], env: Mapping[str, str] | None, output: int
) -> subprocess.CompletedProcess[bytes] | None:
    """Run a program with its output dropped or captured; None if it fails to run or times out."""
    try:
        return subprocess.run(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def exec_program(spawn: Spawn) -> NoReturn:
    """Replace this process by an agent, without a keeper.  Raises OSError if that fails."""
    os.chdir(spawn.cwd)
    words = [spawn.command, *spawn.args]
    os.execvpe(spawn.command, words, dict(spawn.env))  # noqa: S606 - no shell is wanted
