"""Our own keeper, seen from Coterie: started, heard and told what to do over two pipes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

import anyio

from coterie.process.launch import (
    GRACE,
    START,
    AgentExit,
    KeeperFailed,
    Launch,
    Program,
    Spawn,
    Stdio,
    launch,
)
from coterie.process.processes import KEEPER, end_marked_in_thread
from coterie.process.streams import StatusReader, read_from

SWEEP = 1.0


class Subreaper:
    """The hold of one agent by `keeper.py`, which speaks the lines documented there."""

    preamble = b""

    def __init__(self, mark: str, control: int) -> None:
        self.agent_pid = 0
        self.exit: AgentExit = AgentExit()
        self.ready: anyio.Event = anyio.Event()
        self.problem: int | None = None
        self.program: Program = Program()
        self._mark = mark
        self._control: int | None = control
        self._lost = False

    @property
    def pid(self) -> int:
        return self.program.pid

    def heard(self, line: str) -> None:
        """A line of the keeper's status."""
        word, _, number = line.partition(" ")
        if word == "started":
            self.agent_pid: int = int(number)
            self.ready.set()
        elif word == "failed":
            self.problem = int(number)
            self.ready.set()
        elif word == "left":
            self.exit.left = int(number)
        elif word == "exited":
            self.exit.tell(int(number))

    def ended(self) -> None:
        """The status pipe has ended, and with it the keeper."""
        self.ready.set()
        self.exit.tell(None)

    def interrupt(self) -> None:
        self._say(b"i")

    def ask_to_end(self) -> None:
        self._say(b"t")

    def kill(self) -> None:
        self._say(b"k")
        self.program.signal(signal.SIGCONT)  # one that was stopped hears nothing

    async def proven_gone(self) -> bool:
        await self.program.gone.wait()
        if self._control is not None:
            os.close(self._control)
            self._control = None
        if self.exit.code is None:
            self._lost = True
            self.exit.tell(self.program.code)
        if not self._lost:
            return True
        # The keeper was killed from outside: the agent went with it (its death signal), and
        # what can still be found of the rest is found by its mark.
        return not await end_marked_in_thread([self._mark], SWEEP)

    def _say(self, letter: bytes) -> None:
        if self._control is not None:
            with suppress(BrokenPipeError):  # it is gone already
                os.write(self._control, letter)


async def hold(spawn: Spawn, stdio: Stdio) -> Subreaper:
    """Start the agent under our keeper.

    OSError (the agent's own, such as ENOENT) when it cannot be executed, KeeperFailed when the
    keeper cannot.
    """
    (their_control, control), (status, their_status) = os.pipe(), os.pipe()
    os.set_blocking(control, False)
    held = Subreaper(spawn.mark, control)
    argv = _argv(spawn, their_control, their_status)
    passed = (their_control, their_status)
    try:
        held.program = await launch(Launch(argv, spawn.cwd, spawn.marked_env, stdio, passed))
    except BaseException:
        os.close(control)
        os.close(status)
        raise
    finally:
        for fd in passed:
            os.close(fd)
    await read_from(status, StatusReader(held.heard, held.ended))
    with anyio.move_on_after(START):
        await held.ready.wait()
    if held.agent_pid == 0 or held.problem is not None:
        await _give_up(held)
    return held


def _argv(spawn: Spawn, control: int, status: int) -> list[str]:
    options = [f"--parent={os.getpid()}", f"--control={control}", f"--status={status}"]
    options += [f"--grace={GRACE}"] + ["--tty"] * spawn.use_pty
    if "LC_CTYPE" in spawn.env:
        options.append(f"--locale={spawn.env['LC_CTYPE']}")
    keeper = [sys.executable, "-I", "-S", str(KEEPER)]
    return [*keeper, *options, "--", spawn.command, *spawn.args]


async def _give_up(held: Subreaper) -> None:
    held.kill()
    await held.proven_gone()
    if held.problem is not None:
        raise OSError(held.problem, os.strerror(held.problem))
    raise KeeperFailed(f"the keeper ended with {held.program.code} before it began")
