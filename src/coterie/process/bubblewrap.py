"""The alternative keeper: a pid namespace created by `bwrap`, which the kernel itself ends.

The outer bwrap is our child and dies with us; the namespace's init dies with the outer one, and
everything in the namespace dies with the init.  Three things are not obvious:

- The outer bwrap exits as soon as the agent does, a moment before the rest of the namespace, so
  its exit proves nothing.  A pidfd of the init does: the kernel lets an init exit only when no
  other process is left in its namespace.
- Each of the two sets its death signal only some time after it starts.  If Coterie were killed
  in between, the agent would run without an owner.  So it is started by a shell that first waits
  for a line on stdin, which is written once both are set, and that exits at the end of stdin.
- If Coterie is killed in the fraction of a millisecond between the outer one setting its death
  signal and telling the inner one to continue (bubblewrap issue 633), the inner one waits
  forever.  Nothing has run in it yet; it carries the mark, so the next takeover ends it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread

from coterie.ports import require_lease
from coterie.process import processes
from coterie.process.launch import (
    START,
    KeeperFailed,
    KeeperHandle,
    Spawn,
    Stdio,
    shielded,
    under_keeper,
)

NAME = "bwrap"
OPTIONS = ("--die-with-parent", "--new-session", "--unshare-pid")
SAME_FILES = ("--dev-bind", "/", "/", "--proc", "/proc")
SHELL = "/bin/sh"
WAIT = 'read -r go || exit 125; exec "$@"'
PROBE = 5.0
POLL = 0.0005


class Bubblewrap(KeeperHandle):
    """An agent in its own pid namespace."""

    preamble = b"\n"  # the line that the shell waits for

    def __init__(self) -> None:
        super().__init__()
        self.init = 0
        self._init_fd: int | None = None
        self._control: int | None = None
        """With a lease: a pipe; closing it tells our own keeper, which wraps this one, to end."""
        self._empty = anyio.Event()

    def reported(self, line: str) -> None:
        """Handle a line of bwrap's JSON status: first the init's pid, finally the exit code."""
        try:
            status = cast("dict[str, int]", json.loads(line))
        except ValueError:
            return
        if "child-pid" in status:
            self._watch(status["child-pid"])
            self.ready.set()
        if "exit-code" in status:
            self.set_exit(status["exit-code"])

    def interrupt(self) -> None:
        if self._lives():
            with suppress(ProcessLookupError):
                os.killpg(self.init, signal.SIGINT)  # ignored by the init, but not by the others

    def ask_to_end(self) -> None:
        if self._lives() and self.agent_pid:
            with suppress(ProcessLookupError):
                os.kill(self.agent_pid, signal.SIGTERM)

    def kill(self) -> None:
        if self._init_fd is not None and self._lives():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init_fd, signal.SIGKILL)
        self.program.signal(signal.SIGKILL)

    async def proven_gone(self) -> bool:
        await self.program.gone.wait()
        await self._empty.wait()
        if self._control is not None:
            os.close(self._control)
            self._control = None
        self.set_exit(self.program.code)
        return True

    def _lives(self) -> bool:
        return self.init != 0 and not self._empty.is_set()

    def _watch(self, init: int) -> None:
        # The shell still waits, so the init cannot have exited and its pid is not reused.
        try:
            self._init_fd = os.pidfd_open(init)
        except OSError:
            return  # an old kernel, or not permitted: this keeper cannot be used
        self.init: int = init
        asyncio.get_running_loop().add_reader(self._init_fd, self._emptied)

    def _emptied(self) -> None:
        if self._init_fd is not None:
            asyncio.get_running_loop().remove_reader(self._init_fd)
            os.close(self._init_fd)
            self._init_fd = None
        self._empty.set()

    def controlled(self) -> int:
        """A pipe's read end for our own keeper, which ends everything when we exit."""
        theirs, self._control = os.pipe()
        return theirs

    def set_never_started(self) -> None:
        """Mark the namespace as empty if there never was one, so that nothing waits for it."""
        if self.init == 0:
            self._empty.set()


async def hold(spawn: Spawn, stdio: Stdio) -> Bubblewrap:
    """Start the agent in its own pid namespace; it waits for `preamble`.

    Raises OSError if there is no such program, KeeperFailed if the namespace cannot be created.
    """
    await anyio.to_thread.run_sync(find_program, spawn.command, spawn.cwd, spawn.env.get("PATH"))
    status, their_status = os.pipe()
    held = Bubblewrap()
    argv = [_path() or NAME, *OPTIONS, *SAME_FILES, "--json-status-fd", str(their_status), "--"]
    argv += [SHELL, "-c", WAIT, "coterie", spawn.command, *spawn.args]
    passed = (their_status,)
    if spawn.deadline is not None:  # bubblewrap does not support it
        control, null = held.controlled(), os.open(os.devnull, os.O_WRONLY)
        argv, more = under_keeper(spawn, argv, control, null)
        passed = (their_status, *more)
    await held.start(argv, spawn, stdio, passed, status)
    if held.init:
        held.agent_pid = await anyio.to_thread.run_sync(_when_armed, held.init)
    if held.agent_pid:
        return held
    held.kill()
    held.set_never_started()
    await held.proven_gone()
    if spawn.deadline is not None:
        require_lease(spawn.deadline)
    problem = b""
    if (errors := stdio.ours[2]) is not None:
        os.set_blocking(errors, False)
        with suppress(BlockingIOError):
            problem = os.read(errors, 4096)
    raise KeeperFailed(problem.decode("utf-8", "replace").strip() or f"{NAME} did not start")


def _when_armed(init: int) -> int:
    """Wait until the init has set its death signal; return the pid of its only child, 0 if the
    init is gone.

    The init sets it after forking, as the last thing before it sleeps in wait(); from outside,
    all that can be seen is that it has a child and sleeps.
    """
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if child := processes.only_child(init):
            return child
        if not Path(f"/proc/{init}").exists():
            break
        time.sleep(POLL)
    return 0


_problems: dict[str, str | None] = {}


async def problem() -> str | None:
    """Why bubblewrap cannot be used here; None if it can.  Determined once, by a real start."""
    if NAME not in _problems:
        _problems[NAME] = await shielded(_try)
    return _problems[NAME]


async def _try() -> str | None:
    if not hasattr(os, "pidfd_open"):
        return "there are no pidfds on this system"
    if await anyio.to_thread.run_sync(_path) is None:
        return "not installed"
    stdio = Stdio.pipes()
    nobody = Spawn("true", (), "/", {"PATH": os.defpath}, member="", folder="", mark="probe")
    try:
        with stdio.handed_over():
            held = await hold(nobody, stdio)
            os.set_blocking(stdio.ours[0], False)
            os.write(stdio.ours[0], held.preamble)
    except (OSError, KeeperFailed) as error:
        return str(error)
    stdio.close()
    with anyio.move_on_after(PROBE):
        await held.proven_gone()
    held.kill()
    return None if held.exit_code == 0 else f"a test run exited with {held.exit_code}"


@lru_cache(maxsize=1)
def _path() -> str | None:
    return shutil.which(NAME)


def find_program(command: str, cwd: str, path: str | None) -> None:
    """Raise OSError as exec would: the shell's exit would look like the agent's own."""
    folders = [""] if "/" in command else (os.defpath if path is None else path).split(":")
    files = [file for folder in folders if _is_file(file := Path(cwd, folder, command))]
    if not files:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    program = next((file for file in files if os.access(file, os.X_OK)), None)
    if program is None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    _check_interpreter(program)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # in a PATH folder that we may not read


def _check_interpreter(program: Path) -> None:
    try:
        with program.open("rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return  # a program may be executable but not readable
    words = first[2:].split() if first.startswith(b"#!") else []
    if words and not Path(os.fsdecode(words[0])).exists():
        raise OSError(errno.ENOENT, f"its interpreter {os.fsdecode(words[0])} does not exist")
