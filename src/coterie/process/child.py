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
    "KeeperName",
    "NothingStarts",
    "Spawn",
    "WouldStart",
    "start",
    "start_recorded",
]

KILL = 1.5
"""How long the kernel and the keeper may take to end what was killed; in practice milliseconds."""
OUTPUT_AFTER_EXIT = 0.5
"""An exited agent's output is at its end when it has been quiet for so long."""
SWEEP = 1.0
"""How long to look for what a killed keeper left."""


class Child:
    """One agent under its keeper.  Whoever started it must `terminate` it, whatever it did.

    Its output is read as it comes and kept until it is received (beyond some megabytes the
    agent has to wait), its stderr is always drained.
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
        """Called once, when all of it is proven gone."""

    @property
    def pid(self) -> int:
        """The keeper's pid: it runs as long as anything of the agent does, and ends it on TERM."""
        return self._keeper.program.pid

    @property
    def agent_pid(self) -> int:
        """The agent's own pid."""
        return self._keeper.agent_pid

    @property
    def left(self) -> int:
        """How many processes still ran below it when it had ended; then they are ended too."""
        return self._keeper.left

    @property
    def alive(self) -> bool:
        """Whether the agent itself still runs."""
        return not self._keeper.exited.is_set()

    @property
    def stderr_tail(self) -> str:
        """The last it wrote to stderr; on a terminal, where they are one, the last it wrote."""
        return self._tail.text

    def post(self, data: bytes) -> None:
        """Queue input, which is written as fast as the agent reads it."""
        self._input.post(streams.typed(data) if self.spawn.use_pty else data)

    def close_stdin(self) -> None:
        """End its input, after what is queued.

        A terminal cannot be closed on one side: there the end is a ^D at the start of a line.
        """
        if self.spawn.use_pty:
            self._input.post(streams.END_OF_FILE)
        else:
            self._input.close()

    async def receive(self) -> bytes:
        """The next chunk of stdout; empty at its end, which comes soon after the exit at last."""
        return await self._output.receive()

    def pending(self) -> list[bytes]:
        """What has been read and not yet received."""
        return self._output.pending()

    def divert(self, sink: Callable[[bytes], None] | None) -> None:
        """Hand all output to `sink` as it comes, instead of keeping it; None: keep it again."""
        self._output.divert(sink)

    async def exit(self) -> int:
        """Wait for the agent's end; its exit code, 128+n for signal n.

        By then `stderr_tail` is whole.
        """
        await self._keeper.exited.wait()
        await self._errors.ended.wait()
        if self._keeper.exit_code is None:  # its keeper was killed, and is now no more either
            await self._keeper.proven_gone()
        return 255 if self._keeper.exit_code is None else self._keeper.exit_code

    def interrupt(self) -> None:
        """SIGINT to the agent's process group, as Ctrl-C would."""
        self._keeper.interrupt()

    async def terminate(self) -> bool:
        """End the agent and all below it: TERM, and after a grace KILL.

        Returns when they are proven gone, True; or, after less than 4 s, False if something
        would not die.  May be called twice and at once; is not cancelled half-way.
        """
        return await shielded(self._end)

    async def close(self) -> None:
        """`terminate`, and AgentMissing if something would not die."""
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
        """A process that outlives it may hold its output open, but not for ever."""
        self._output.end_when_quiet(OUTPUT_AFTER_EXIT)
        self._errors.end_when_quiet(OUTPUT_AFTER_EXIT)

    def _complained(self, chunk: bytes) -> None:
        self._tail.add(chunk)
        self.spawn.on_stderr(chunk)

    async def connect(self, stdio: streams.Stdio) -> None:
        """Take over our ends of its streams."""
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
    """An agent under `keeper.py`, which speaks the lines documented there."""

    def __init__(self, mark: str, control: int) -> None:
        super().__init__()
        self.problem: int | None = None
        """The errno where the agent could not be executed."""
        self.is_private: bool = False
        """Whether it sees no processes but its own."""
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
        self.program.signal(signal.SIGCONT)  # one that was stopped hears nothing

    async def proven_gone(self) -> bool:
        await self.program.gone.wait()
        self.close_control()
        if self.exit_code is None:
            self._keeper_killed = True
            self.set_exit(self.program.code)
        if not self._keeper_killed:
            return True
        # The keeper was killed from outside: the agent went with it (its death signal), and
        # what can still be found of the rest is found by its mark.
        return not await end_marked_in_thread([self._mark], SWEEP)

    def close_control(self) -> None:
        """Close the control pipe, which also tells a keeper that runs to end."""
        if self._control is not None:
            os.close(self._control)
            self._control = None

    def _send(self, letter: bytes) -> None:
        if self._control is not None:
            with suppress(BrokenPipeError):  # it is gone already
                os.write(self._control, letter)


async def start_subreaper(
    spawn: Spawn, stdio: streams.Stdio, *, private: bool = False
) -> Subreaper:
    """Start the agent under our keeper, `private` in a pid namespace where that can be had.

    OSError (the agent's own, such as ENOENT) when it cannot be executed, KeeperFailed when the
    keeper cannot.
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
    raise KeeperFailed(f"the keeper ended with {held.program.code} before it began")


async def can_be_private() -> bool:
    """Whether an agent can be kept from seeing other processes here.  Tried for real."""
    stdio = streams.Stdio.pipes()
    nobody = Spawn("true", (), "/", {"PATH": os.defpath}, member="", folder="", mark="probe")
    with stdio.handed_over():
        held = await start_subreaper(nobody, stdio, private=True)
    await held.proven_gone()
    stdio.close()
    return held.is_private


async def start(spawn: Spawn, keeper: KeeperName = "auto") -> Child:
    """Start an agent under a keeper; AgentMissing when it cannot be started.

    Must be called in the event loop's thread.
    """
    try:
        # A start cut half-way would be a child that nobody knows of.
        return await shielded(partial(_start, spawn, keeper))
    except OSError as error:
        problem = error.strerror or str(error)
        if error.filename == spawn.cwd:
            problem = f"its folder {spawn.cwd}: {problem}"
    except (ValueError, KeeperFailed) as error:  # ValueError: a NUL in what exec is given
        problem = str(error)
    raise spawn.missing(problem)


class WouldStart(Exception):
    """Raised in a dry run in place of a start."""

    def __init__(self, spawn: Spawn) -> None:
        super().__init__(spawn.command)
        self.spawn = spawn


class NothingStarts:
    """A `ChildLog` of a dry run: whoever is about to start a process gets WouldStart."""

    async def starting(self, member: str, agent: str) -> str:
        raise AssertionError("nothing is started")

    def started(self, mark: str, pid: int) -> None:
        """Nothing is."""

    def ended(self, mark: str) -> None:
        """Nothing was started."""


async def start_recorded(
    spawn: Spawn, agent: str, children: ChildLog, keeper: KeeperName = "auto"
) -> Child:
    """Start a process that is on record before it runs: whoever takes over after a crash finds it.

    Raises AgentMissing when it cannot be started.
    """
    if isinstance(children, NothingStarts):
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
    # Our own is what `auto` means: bubblewrap ends an agent without TERM when we are killed, can
    # itself be left waiting for ever if we die while it starts, and takes sudo from the agent.
    hold: Callable[[Spawn, streams.Stdio], Awaitable[KeeperHandle]]
    hold = partial(start_subreaper, private=keeper == "auto")
    if keeper == "bubblewrap" and not spawn.use_pty:
        if (problem := await bubblewrap.problem()) is not None:
            raise KeeperFailed(f"its keeper, bubblewrap: {problem}")
        hold = bubblewrap.hold
    stdio = streams.Stdio.terminal() if spawn.use_pty else streams.Stdio.pipes()
    with stdio.handed_over():
        child = Child(spawn, await hold(spawn, stdio))
    await child.connect(stdio)
    return child
