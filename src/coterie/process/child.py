"""A running agent: its streams, its exit, and the end of its whole tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from coterie.errors import AgentMissing
from coterie.process import bubblewrap, subreaper
from coterie.process.launch import (
    GRACE,
    KeeperFailed,
    KeeperHandle,
    KeeperName,
    Spawn,
    Stdio,
    shielded,
)
from coterie.process.streams import (
    END_OF_FILE,
    InputWriter,
    OutputReader,
    Tail,
    read_from,
    typed,
    write_to,
)

__all__ = ["Child", "KeeperName", "Spawn", "start"]

KILL = 1.5
"""How long the kernel and the keeper may take to end what was killed; in practice milliseconds."""
OUTPUT_AFTER_EXIT = 0.5
"""An exited agent's output is at its end when it has been quiet for so long."""


class Child:
    """One agent under its keeper.  Whoever started it must `terminate` it, whatever it did.

    Its output is read as it comes and kept until it is received (beyond some megabytes the
    agent has to wait), its stderr is always drained.
    """

    def __init__(self, spawn: Spawn, keeper: KeeperHandle) -> None:
        self.spawn = spawn
        self._keeper = keeper
        self._input = InputWriter()
        self._tail = Tail()
        self._output = OutputReader(self._tail.add if spawn.use_pty else None)
        self._errors = OutputReader()
        self._ending = anyio.Lock()
        self._gone = False

    @property
    def pid(self) -> int:
        """The keeper's pid: it runs as long as anything of the agent does, and ends it on TERM."""
        return self._keeper.program.pid

    @property
    def agent_pid(self) -> int:
        """The agent's own pid."""
        return self._keeper.agent_pid

    @property
    def exit_code(self) -> int | None:
        """The agent's exit code, 128+n for signal n; None while it runs."""
        return self._keeper.exit_code

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

    # -- input ---------------------------------------------------------------------------------

    def post(self, data: bytes) -> None:
        """Queue input, which is written as fast as the agent reads it."""
        self._input.post(typed(data) if self.spawn.use_pty else data)

    def close_stdin(self) -> None:
        """End its input, after what is queued.

        A terminal cannot be closed on one side: there the end is a ^D at the start of a line.
        """
        if self.spawn.use_pty:
            self._input.post(END_OF_FILE)
        else:
            self._input.close()

    # -- output --------------------------------------------------------------------------------

    async def receive(self) -> bytes:
        """The next chunk of stdout; empty at its end, which comes soon after the exit at last."""
        return await self._output.receive()

    def pending(self) -> list[bytes]:
        """What has been read and not yet received."""
        return self._output.pending()

    def divert(self, sink: Callable[[bytes], None] | None) -> None:
        """Hand all output to `sink` as it comes, instead of keeping it; None: keep it again."""
        self._output.divert(sink)

    # -- the end -------------------------------------------------------------------------------

    async def exit(self) -> int:
        """Wait for the agent's end; its exit code.  By then `stderr_tail` is whole."""
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
        return await shielded(self._end_once)

    async def _end_once(self) -> bool:
        async with self._ending:
            if not self._gone:
                self._gone = await self._end()
        return self._gone

    async def _end(self) -> bool:
        gone = await self._gone_within(GRACE, self._keeper.ask_to_end)
        if not gone:
            gone = await self._gone_within(KILL, self._keeper.kill)
        self._input.abort()
        self._output.close()
        self._errors.close()
        return gone

    async def _gone_within(self, seconds: float, act: Callable[[], None]) -> bool:
        act()
        with anyio.move_on_after(seconds):
            return await self._keeper.proven_gone()
        return False

    def _exited(self) -> None:
        """Someone who lives on may hold its output open, but not for ever."""
        for flow in (self._output, self._errors):
            flow.end_when_quiet(OUTPUT_AFTER_EXIT)

    # -- the beginning -------------------------------------------------------------------------

    async def connect(self, stdio: Stdio) -> None:
        """Take over our ends of its streams."""
        to_child, output, errors = stdio.ours
        self._errors.divert(self._tail.add)
        await write_to(to_child, self._input)
        await read_from(output, self._output)
        if errors is None:
            self._errors.connection_lost(None)
        else:
            await read_from(errors, self._errors)
        self._keeper.on_exit(self._exited)
        self._input.post(self._keeper.preamble)


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
    raise AgentMissing(spawn.member, spawn.folder, spawn.command, problem)


async def _start(spawn: Spawn, keeper: KeeperName) -> Child:
    # Our own is what `auto` means: bubblewrap ends an agent without TERM when we are killed, can
    # itself be left waiting for ever if we die while it starts, and takes sudo from the agent.
    if keeper != "bubblewrap" or spawn.use_pty:
        return await _start_under(subreaper.hold, spawn)
    problem = await bubblewrap.problem()
    if problem is not None:
        raise KeeperFailed(f"its keeper, bubblewrap: {problem}")
    return await _start_under(bubblewrap.hold, spawn)


Holder = Callable[[Spawn, Stdio], Awaitable[KeeperHandle]]


async def _start_under(hold: Holder, spawn: Spawn) -> Child:
    stdio = Stdio.terminal() if spawn.use_pty else Stdio.pipes()
    try:
        child = Child(spawn, await hold(spawn, stdio))
    except BaseException:
        stdio.close_ours()
        raise
    finally:
        stdio.close_theirs()
    await child.connect(stdio)
    return child
