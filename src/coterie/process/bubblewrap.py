"""The alternative keeper: a pid namespace made by `bwrap`, which the kernel itself ends.

The outer bwrap is our child and dies with us; the namespace's init dies with the outer one, and
with the init everything in the namespace.  Three things are not obvious:

- The outer bwrap ends as soon as the agent does, a moment before the rest of the namespace, so
  its end proves nothing.  A pidfd of the init does: the kernel lets an init end only when
  nobody else is left in its namespace.
- Each of the two sets its death signal only some time after its start.  If Coterie were killed
  in between, the agent would run without an owner.  So it is started by a shell that first waits
  for a line on stdin, which is written when both are set, and that exits at the end of stdin.
- If Coterie is killed in the fraction of a millisecond between the outer one setting its death
  signal and telling the inner one to continue (bubblewrap issue 633), the inner one waits for
  ever.  Nothing was ever run in it; it carries the mark and is ended by the next take-over.
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
    """An agent in a pid namespace of its own."""

    preamble = b"\n"  # the line that the shell waits for

    def __init__(self) -> None:
        super().__init__()
        self.init = 0
        self._init_fd: int | None = None
        self._control: int | None = None
        """With a lease: what our own keeper, around this one, waits for the end of."""
        self._empty = anyio.Event()

    def reported(self, line: str) -> None:
        """A line of bwrap's JSON status: the init's pid at first, the exit code at last."""
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
                os.killpg(self.init, signal.SIGINT)  # which an init, unlike the others, ignores

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
        # Its shell still waits, so the init cannot have ended by itself and its pid is its own.
        try:
            self._init_fd = os.pidfd_open(init)
        except OSError:
            return  # an old kernel, or not permitted: then this keeper cannot be used
        self.init: int = init
        asyncio.get_running_loop().add_reader(self._init_fd, self._emptied)

    def _emptied(self) -> None:
        if self._init_fd is not None:
            asyncio.get_running_loop().remove_reader(self._init_fd)
            os.close(self._init_fd)
            self._init_fd = None
        self._empty.set()

    def controlled(self) -> int:
        """The end of a pipe for our own keeper, which ends all when we do."""
        theirs, self._control = os.pipe()
        return theirs

    def set_never_started(self) -> None:
        """Without a namespace there is nothing to wait for."""
        if self.init == 0:
            self._empty.set()


async def hold(spawn: Spawn, stdio: Stdio) -> Bubblewrap:
    """Start the agent in a pid namespace of its own; it waits for `preamble`.

    OSError when there is no such program, KeeperFailed when there can be no such namespace.
    """
    await anyio.to_thread.run_sync(find_program, spawn.command, spawn.cwd, spawn.env.get("PATH"))
    status, their_status = os.pipe()
    held = Bubblewrap()
    argv = [_path() or NAME, *OPTIONS, *SAME_FILES, "--json-status-fd", str(their_status), "--"]
    argv += [SHELL, "-c", WAIT, "coterie", spawn.command, *spawn.args]
    passed = (their_status,)
    if spawn.deadline is not None:  # which bubblewrap knows nothing of
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
    """Wait until the init has set its death signal; the pid of its one child, 0 if it is gone.

    Setting it is the last thing an init does before it sleeps in wait(), and it does so after
    it has forked; from outside, having a child and sleeping is all that can be seen of it.
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
    """Why bubblewrap cannot be used here; None when it can.  Tried once, for real."""
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
    return None if held.exit_code == 0 else f"a trial ended with {held.exit_code}"


@lru_cache(maxsize=1)
def _path() -> str | None:
    return shutil.which(NAME)


def find_program(command: str, cwd: str, path: str | None) -> None:
    """Raise OSError as exec would: from the shell it could not be told from the agent's exit."""
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
        return False  # in a folder of PATH that we may not read


def _check_interpreter(program: Path) -> None:
    try:
        with program.open("rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return  # a program may be executable and not readable
    words = first[2:].split() if first.startswith(b"#!") else []
    if words and not Path(os.fsdecode(words[0])).exists():
        raise OSError(errno.ENOENT, f"its interpreter {os.fsdecode(words[0])} does not exist")
