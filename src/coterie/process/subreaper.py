"""Our own keeper, seen from Coterie: started, heard and told what to do over two pipes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from coterie.process.launch import GRACE, KeeperFailed, KeeperHandle, Spawn, Stdio
from coterie.process.processes import KEEPER, end_marked_in_thread

SWEEP = 1.0


class Subreaper(KeeperHandle):
    """An agent under `keeper.py`, which speaks the lines documented there."""

    def __init__(self, mark: str, control: int) -> None:
        super().__init__()
        self.problem: int | None = None
        """The errno where the agent could not be executed."""
        self._mark = mark
        self._control: int | None = control
        self._keeper_killed = False

    def reported(self, line: str) -> None:
        word, _, number = line.partition(" ")
        if word == "started":
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


async def hold(spawn: Spawn, stdio: Stdio) -> Subreaper:
    """Start the agent under our keeper.

    OSError (the agent's own, such as ENOENT) when it cannot be executed, KeeperFailed when the
    keeper cannot.
    """
    (their_control, control), (status, their_status) = os.pipe(), os.pipe()
    os.set_blocking(control, False)
    held = Subreaper(spawn.mark, control)
    argv = _argv(spawn, their_control, their_status)
    try:
        await held.start(argv, spawn, stdio, (their_control, their_status), status)
    except BaseException:
        held.close_control()
        raise
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
