"""A running agent: its streams, its exit, and the end of its whole tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio

from coterie.errors import AgentMissing
from coterie.ports import ChildLog, LeasedChildLog, StderrLog, require_lease
from coterie.process import bubblewrap, streams
from coterie.process.launch import (
    GRACE,
    KeeperFailed,
    KeeperHandle,
    KeeperName,
    Spawn,
    shielded,
    under_keeper,
)
from coterie.process.processes import end_marked_in_thread

__all__ = [
    "Child",
    "DryRunChildLog",
    "KeeperName",
    "Spawn",
    "WouldStart",
    "start",
    "start_recorded",
]

KILL = 1.5
"""How long the kernel and the keeper may take to end killed processes; in practice milliseconds."""
OUTPUT_AFTER_EXIT = 0.5
"""After this long without output, the output of an exited agent is taken to be complete."""
SWEEP = 1.0
"""How long to search for processes that a killed keeper left behind."""


class Child:
    """One agent under its keeper.  The code that started it must `terminate` it in every case.

    Its output is read as it arrives and buffered until received (beyond some megabytes the agent
    has to wait); its stderr is always drained.
    """

    def __init__(self, spawn: Spawn, keeper: KeeperHandle) -> None:
        self.spawn = spawn
        self._keeper = keeper
        self._input = streams.InputWriter()
        self._tail = streams.Tail()
        self._output = streams.OutputReader(self._tail.add if spawn.use_pty else None)
        self._errors = streams.OutputReader()
        self._ending = anyio.Lock()
        self._gone = False
        self.on_gone: Callable[[], None] = lambda: None
        """Called once, when its whole tree is proven gone."""

    @property
    def pid(self) -> int:
        """The keeper's pid: it runs as long as any process of the agent, and on TERM ends them."""
        return self._keeper.program.pid

    @property
    def agent_pid(self) -> int:
        """The agent's own pid."""
        return self._keeper.agent_pid

    @property
    def left(self) -> int:
        """How many descendants were still running when the agent ended; they are ended too."""
        return self._keeper.left

    @property
    def alive(self) -> bool:
        """Whether the agent itself is still running."""
        return not self._keeper.exited.is_set()

    @property
    def stderr_tail(self) -> str:
        """The end of its stderr; on a terminal, which has one stream, the end of all output."""
        return self._tail.text

    def post(self, data: bytes) -> None:
        """Queue input, which is written as fast as the agent reads it."""
        self._input.post(streams.typed(data) if self.spawn.use_pty else data)

    def close_stdin(self) -> None:
        """End its input, after everything queued.

        A terminal cannot be half-closed: there the end is a ^D at the start of a line.
        """
        if self.spawn.use_pty:
            self._input.post(streams.END_OF_FILE)
        else:
            self._input.close()

    async def receive(self) -> bytes:
        """The next chunk of stdout; empty at its end, which comes soon after the exit."""
        return await self._output.receive()

    def pending(self) -> list[bytes]:
        """The output that has been read but not yet received."""
        return self._output.pending()

    def divert(self, sink: Callable[[bytes], None] | None) -> None:
        """Pass all output to `sink` as it arrives instead of buffering it; None: buffer again."""
        self._output.divert(sink)

    def pause(self) -> None:
        """Pass on no more output until `resume`; the agent waits once the pipe is full."""
        self._output.pause()

    def resume(self) -> None:
        """Pass on output again."""
        self._output.resume()

    async def exit(self) -> int:
        """Wait for the agent to exit; return its exit code, 128+n for signal n.

        By then `stderr_tail` is complete.
        """
        await self._keeper.exited.wait()
        await self._errors.ended.wait()
        if self._keeper.exit_code is None:  # its keeper was killed: wait for the rest of the tree
            await self._keeper.proven_gone()
        return 255 if self._keeper.exit_code is None else self._keeper.exit_code

    def interrupt(self) -> None:
        """Send SIGINT to the agent's process group, as Ctrl-C would."""
        self._keeper.interrupt()

    async def terminate(self) -> bool:
        """End the agent and its descendants: TERM, then KILL after a grace period.

        Returns True once they are proven gone, or False, in less than 4 s, if something would not
        die.  May be called repeatedly and concurrently; is never cancelled halfway.
        """
        return await shielded(self._end)

    async def close(self) -> None:
        """`terminate`, but raise AgentMissing if something would not die."""
        if not await self.terminate():
            raise self.spawn.missing(f"its process ({self.pid}) could not be ended")

    async def _end(self) -> bool:
        async with self._ending:
            if not self._gone:
                ended = await self._gone_within(GRACE, self._keeper.ask_to_end)
                self._gone = ended or await self._gone_within(KILL, self._keeper.kill)
                self._input.abort()
                self._output.close()
                self._errors.close()
                if self._gone:
                    self.on_gone()
        return self._gone

    async def _gone_within(self, seconds: float, act: Callable[[], None]) -> bool:
        act()
        with anyio.move_on_after(seconds):
            return await self._keeper.proven_gone()
        return False

    def _exited(self) -> None:
        """Bound how long a process that outlives the agent may keep its output open."""
        self._output.end_when_quiet(OUTPUT_AFTER_EXIT)
        self._errors.end_when_quiet(OUTPUT_AFTER_EXIT)

    def _complained(self, chunk: bytes) -> None:
        self._tail.add(chunk)
        self.spawn.on_stderr(chunk)

    async def connect(self, stdio: streams.Stdio) -> None:
        """Start reading and writing our ends of its streams."""
        to_child, output, errors = stdio.ours
        self._errors.divert(self._complained)
        await streams.write_to(to_child, self._input)
        await streams.read_from(output, self._output)
        if errors is None:
            self._errors.connection_lost(None)
        else:
            await streams.read_from(errors, self._errors)
        self._keeper.on_exit(self._exited)
        self._input.post(self._keeper.preamble)


class Subreaper(KeeperHandle):
    """An agent under `keeper.py`, whose module docstring documents the protocol."""

    def __init__(self, mark: str, control: int) -> None:
        super().__init__()
        self.problem: int | None = None
        """The errno if the agent could not be executed."""
        self.is_private: bool = False
        """Whether it sees only its own processes."""
        self._mark = mark
        self._control: int | None = control
        self._keeper_killed = False

    def reported(self, line: str) -> None:
        word, _, number = line.partition(" ")
        if word == "private":
            self.is_private = True
        elif word == "started":
            self.agent_pid: int = int(number)
            self.ready.set()
        elif word == "failed":
            self.problem = int(number)
            self.ready.set()
        elif word == "left":
            self.left: int = int(number)
        elif word == "exited":
            self.set_exit(int(number))

    def interrupt(self) -> None:
        self._send(b"i")

    def ask_to_end(self) -> None:
        self._send(b"t")

    def kill(self) -> None:
        self._send(b"k")
        self.program.signal(signal.SIGCONT)  # a stopped keeper would not react

    async def proven_gone(self) -> bool:
        await self.program.gone.wait()
        self.close_control()
        if self.exit_code is None:
            self._keeper_killed = True
            self.set_exit(self.program.code)
        if not self._keeper_killed:
            return True
        # The keeper was killed from outside: the agent died with it (its death signal), and the
        # mark finds whatever else can still be found.
        return not await end_marked_in_thread([self._mark], SWEEP)

    def close_control(self) -> None:
        """Close the control pipe, which also tells a running keeper to end."""
        if self._control is not None:
            os.close(self._control)
            self._control = None

    def _send(self, letter: bytes) -> None:
        if self._control is not None:
            with suppress(BrokenPipeError):  # it is already gone
                os.write(self._control, letter)


async def start_subreaper(
    spawn: Spawn, stdio: streams.Stdio, *, private: bool = False
) -> Subreaper:
    """Start the agent under our keeper; if `private`, in a pid namespace where possible.

    Raises OSError (the agent's own, such as ENOENT) if the agent cannot be executed, KeeperFailed
    if the keeper cannot.
    """
    (their_control, control), (status, their_status) = os.pipe(), os.pipe()
    os.set_blocking(control, False)
    held = Subreaper(spawn.mark, control)
    words = (spawn.command, *spawn.args)
    argv, passed = under_keeper(spawn, words, their_control, their_status, private=private)
    try:
        await held.start(argv, spawn, stdio, passed, status)
    except BaseException:
        held.close_control()
        raise
    if held.agent_pid and held.problem is None:
        return held
    held.kill()
    await held.proven_gone()
    if held.problem is not None:
        raise OSError(held.problem, os.strerror(held.problem))
    if spawn.deadline is not None:
        require_lease(spawn.deadline)
    raise KeeperFailed(f"the keeper exited with {held.program.code} before the agent started")


async def can_be_private() -> bool:
    """Whether an agent can be kept from seeing other processes here; determined by a real start."""
    stdio = streams.Stdio.pipes()
    nobody = Spawn("true", (), "/", {"PATH": os.defpath}, member="", folder="", mark="probe")
    with stdio.handed_over():
        held = await start_subreaper(nobody, stdio, private=True)
    await held.proven_gone()
    stdio.close()
    return held.is_private


async def start(spawn: Spawn, keeper: KeeperName = "auto") -> Child:
    """Start an agent under a keeper.  Raises AgentMissing if it cannot be started.

    Must be called in the event loop's thread.
    """
    try:
        # A start cancelled halfway would leave a child that nobody knows about.
        return await shielded(partial(_start, spawn, keeper))
    except OSError as error:
        problem = error.strerror or str(error)
        if error.filename == spawn.cwd:
            problem = f"its folder {spawn.cwd}: {problem}"
    except (ValueError, KeeperFailed) as error:  # ValueError: a NUL in exec's arguments
        problem = str(error)
    raise spawn.missing(problem)


class WouldStart(Exception):
    """Raised in a dry run instead of starting a process."""

    def __init__(self, spawn: Spawn) -> None:
        super().__init__(spawn.command)
        self.spawn = spawn


class DryRunChildLog:
    """The `ChildLog` of a dry run: attempts to start a process raise WouldStart."""

    async def starting(self, member: str, agent: str) -> str:
        raise AssertionError("unreachable")

    def started(self, mark: str, pid: int) -> None:
        """Never called: nothing starts."""

    def ended(self, mark: str) -> None:
        """Never called: nothing was started."""


async def start_recorded(
    spawn: Spawn, agent: str, children: ChildLog, keeper: KeeperName = "auto"
) -> Child:
    """Start a process that is recorded before it runs, so that a takeover after a crash finds it.

    Raises AgentMissing if it cannot be started.
    """
    if isinstance(children, DryRunChildLog):
        raise WouldStart(spawn)
    if isinstance(children, LeasedChildLog) and (deadline := children.deadline) is not None:
        require_lease(deadline)
        spawn = replace(spawn, deadline=deadline)
    mark = await children.starting(spawn.member, agent)
    ended = partial(children.ended, mark)
    try:
        spawn = replace(spawn, mark=mark)
        if isinstance(children, StderrLog):
            spawn = replace(spawn, on_stderr=children.stderr(spawn.member))
        child = await start(spawn, keeper)
    except AgentMissing:
        ended()
        raise
    child.on_gone = ended
    children.started(mark, child.pid)
    return child


async def _start(spawn: Spawn, keeper: KeeperName) -> Child:
    # `auto` means our own keeper: bubblewrap ends an agent without TERM when we are killed, can
    # be left waiting forever if we die while it starts, and keeps the agent from using sudo.
    hold: Callable[[Spawn, streams.Stdio], Awaitable[KeeperHandle]]
    hold = partial(start_subreaper, private=keeper == "auto")
    if keeper == "bubblewrap" and not spawn.use_pty:
        if (problem := await bubblewrap.problem()) is not None:
            raise KeeperFailed(f"keeper bubblewrap: {problem}")
        hold = bubblewrap.hold
    stdio = streams.Stdio.terminal() if spawn.use_pty else streams.Stdio.pipes()
    with stdio.handed_over():
        child = Child(spawn, await hold(spawn, stdio))
    await child.connect(stdio)
    return child
