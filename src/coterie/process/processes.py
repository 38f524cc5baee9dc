"""The processes of this machine: their ancestry, and ending what a dead owner left behind.

Reads /proc directly where it exists, because scanning a hundred processes must not take more than a
few milliseconds; uses psutil elsewhere.  Everything except the `async` function blocks.

Every agent has `COTERIE_MARK=<mark>` in its environment, as does everything it starts unless that
scrubs its environment.  The keeper is the first line of defense and ends even those; this module is
the second, for when the keeper was killed too.  A tool that scrubbed its environment cannot be
found once its keeper is dead.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
import psutil

PROC = Path("/proc")
LINUX = sys.platform == "linux"

T = TypeVar("T")


@dataclass(frozen=True)
class Process:
    """A running process, never a zombie, which is dead and only waits to be reaped."""

    pid: int
    parent: int
    argv: tuple[str, ...] = ()


def snapshot() -> dict[int, int]:
    """Every running process and its parent."""
    return dict(_linux_parents()) if LINUX else dict(_other_parents())


def descendants(roots: set[int], parents: Mapping[int, int]) -> set[int]:
    """The roots that are running, and all their descendants."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    tree: set[int] = set()
    pending = [pid for pid in roots if pid in parents]
    while pending:
        pid = pending.pop()
        if pid not in tree:
            tree.add(pid)
            pending += below.get(pid, ())
    return tree


def ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The process itself and all its ancestors."""
    chain: set[int] = set()
    while pid and pid not in chain:
        chain.add(pid)
        pid = parents.get(pid, 0)
    return chain


def environ(pid: int) -> bytes:
    """A process's environment at its start, each entry terminated by a NUL.

    Empty if the process is gone or may not be inspected.
    """
    if LINUX:
        return _read(PROC / str(pid) / "environ")
    entries = _ask_psutil(pid, lambda process: process.environ(), dict[str, str]())
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in entries.items())


def describe(pid: int, parent: int) -> Process:
    """A process with its command line, as far as it can be read."""
    if LINUX:
        words = _read(PROC / str(pid) / "cmdline").split(b"\0")[:-1]
        return Process(pid, parent, tuple(os.fsdecode(word) for word in words))
    return Process(pid, parent, tuple(_ask_psutil(pid, lambda process: process.cmdline(), [])))


def only_child(pid: int) -> int | None:
    """The child of a sleeping process with exactly one child; None if that is not so (yet)."""
    state, _ = _stat(str(pid)) or ("", 0)
    if state != "S":
        return None
    children = _children(pid)
    if children is None and _children(os.getpid()) is None:
        children = [child for child, parent in _linux_parents() if parent == pid]
    return children[0] if children is not None and len(children) == 1 else None


def _children(pid: int) -> list[int] | None:
    """The children of a process as listed by the kernel; None if it does not list them."""
    try:
        listed = (PROC / str(pid) / "task" / str(pid) / "children").read_bytes()
    except OSError:  # no CONFIG_PROC_CHILDREN, or no such process
        return None
    return [int(child) for child in listed.split()]


def _linux_parents() -> Iterator[tuple[int, int]]:
    for name in (path.name for path in PROC.iterdir()):
        if name.isdigit() and (stat := _stat(name)) is not None and stat[0] not in "ZX":
            yield int(name), stat[1]


def _stat(pid: str) -> tuple[str, int] | None:
    fields = _read(PROC / pid / "stat").rpartition(b")")[2].split()  # the name may contain anything
    return (fields[0].decode(), int(fields[1])) if len(fields) > 1 else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # gone meanwhile, or another user's
        return b""


def _other_parents() -> Iterator[tuple[int, int]]:
    for process in psutil.process_iter():
        parent = _ask_psutil(process.pid, _parent_if_alive, None)
        if parent is not None:
            yield process.pid, parent


def _parent_if_alive(process: psutil.Process) -> int | None:
    return None if process.status() == psutil.STATUS_ZOMBIE else process.ppid()


def _ask_psutil(pid: int, question: Callable[[psutil.Process], T], otherwise: T) -> T:
    try:
        return question(psutil.Process(pid))
    except psutil.Error:
        return otherwise


@dataclass(frozen=True)
class PidScope:
    """The scope in which a pid is valid; different machines cannot see each other's processes.

    A container on the same host has the same boot id and may have the same host name, so the
    pid namespace distinguishes them.  Without /proc (macOS) both are None.
    """

    host: str
    boot_id: str | None
    pid_namespace: str | None

    @classmethod
    def here(cls) -> PidScope:
        """The scope of this process.  Reads files: not for the event loop."""
        boot_id = _read(PROC / "sys/kernel/random/boot_id").decode().strip()
        namespace = None
        with suppress(OSError):
            namespace = str((PROC / "self/ns/pid").stat().st_ino)
        return cls(os.uname().nodename, boot_id or None, namespace)


# -- processes that carry our mark ---------------------------------------------------------------

MARK = "COTERIE_MARK"
KEEPER = Path(__file__).with_name("keeper.py")
TIMEOUT = 10.0
BETWEEN_SCANS = 0.02
KERNEL_THREAD = 0x00200000
"""The flag in /proc of a process that never had a command line."""
# A keeper asked to end gives its agent 2 s and then ends the tree in milliseconds.  If it has not,
# it is stopped or not scheduled: then its tree is killed, and as a last resort the keeper itself.
KILL_BELOW_KEEPERS, KILL_KEEPERS = 4.0, 7.0


def _is_exiting_or_execing(pid: int) -> bool:
    """Whether a process of this user is exiting, or being replaced by exec.

    Meanwhile, which takes long if it had much memory, its environment cannot be read; and an
    exiting process still holds its locks and its open files and sockets.
    """
    if not LINUX or _read(PROC / str(pid) / "cmdline"):
        return False
    with suppress(OSError):
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        own = (PROC / str(pid)).stat().st_uid == os.geteuid()
        return own and fields[0] not in (b"Z", b"X") and not int(fields[6]) & KERNEL_THREAD
    return False


def find_marked(marks: Collection[str], parents: Mapping[int, int] | None = None) -> list[Process]:
    """The processes that have one of the marks, and all their descendants."""
    parents = snapshot() if parents is None else parents
    wanted = {f"{MARK}={mark}".encode() for mark in marks}
    marked = {pid for pid in parents if wanted.intersection(environ(pid).split(b"\0"))}
    tree = descendants(marked, parents)
    return [describe(pid, parents[pid]) for pid in sorted(tree)]


def end_marked(marks: Collection[str], timeout: float = TIMEOUT) -> list[Process]:
    """End everything that `find_marked` finds; return the processes not proven dead.

    Scans until two consecutive scans find neither a marked process nor one that cannot be read: a
    scan misses whatever is forked after it.  Never ends this process or its ancestors.
    """
    begun = time.monotonic()
    asked: set[int] = set()
    empty = 0
    while True:
        parents = snapshot()
        spared = ancestors(os.getpid(), parents)
        left = find_marked(marks, parents)
        empty = 0 if left or any(map(_is_exiting_or_execing, parents)) else empty + 1
        spent = time.monotonic() - begun
        if empty == 2 or spent > timeout or (left and spared.issuperset(p.pid for p in left)):
            return left
        for process in _to_kill(left, parents, spent):
            if process.pid not in spared:
                _send(process.pid, signal.SIGKILL)
        for keeper in filter(_is_keeper, left):
            if keeper.pid not in asked | spared:
                asked.add(keeper.pid)
                _send(keeper.pid, signal.SIGTERM)
                _send(keeper.pid, signal.SIGCONT)
        time.sleep(BETWEEN_SCANS)


async def end_marked_in_thread(
    marks: Collection[str], time_limit: float = TIMEOUT
) -> list[Process]:
    """`end_marked` in a thread; it runs to completion even if the caller is cancelled."""
    return await anyio.to_thread.run_sync(partial(end_marked, marks, time_limit))


def _to_kill(left: list[Process], parents: Mapping[int, int], spent: float) -> list[Process]:
    """What to kill now: at first neither keepers nor their trees, which they will end."""
    keepers = {process.pid for process in left if _is_keeper(process)}
    spared = descendants(keepers, parents)
    if spent > KILL_BELOW_KEEPERS:
        spared = keepers
    if spent > KILL_KEEPERS:
        spared = set[int]()
    return [process for process in left if process.pid not in spared]


def _is_keeper(process: Process) -> bool:
    """Whether it is our own Python keeper; under bubblewrap the kernel itself ends the tree."""
    return any(word.endswith(f"/process/{KEEPER.name}") for word in process.argv[1:5])


def _send(pid: int, number: int) -> None:
    # It may be gone, or not ours to kill; the next scan will show.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
