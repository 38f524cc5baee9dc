"""The processes of this machine as they are now, and who descends from whom.

Reads /proc itself where there is one, because a look at a hundred processes must cost a few
milliseconds; psutil elsewhere.  All of it blocks: not for the event loop.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

PROC = Path("/proc")
LINUX = sys.platform == "linux"

T = TypeVar("T")


@dataclass(frozen=True)
class Process:
    """A process that runs: never a zombie, which is dead and only waits to be reaped."""

    pid: int
    parent: int
    argv: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The name it was started by, without the folder."""
        return Path(self.argv[0]).name if self.argv else ""


def snapshot() -> dict[int, int]:
    """Every running process and its parent."""
    return dict(_linux_parents()) if LINUX else dict(_other_parents())


def descendants(roots: set[int], parents: Mapping[int, int]) -> set[int]:
    """The roots that run, and all below them."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    left = [pid for pid in roots if pid in parents]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += below.get(pid, ())
    return found


def ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The process itself and all above it."""
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found


def environ(pid: int) -> bytes:
    """A process's environment as it was at its start, each entry ended by a NUL.

    Empty when the process is gone or not ours to look into.
    """
    if LINUX:
        return _read(PROC / str(pid) / "environ")
    entries = _asked(pid, lambda process: process.environ(), dict[str, str]())
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in entries.items())


def describe(pid: int, parent: int) -> Process:
    """A process with its command line, as far as it can be read."""
    if LINUX:
        words = _read(PROC / str(pid) / "cmdline").split(b"\0")[:-1]
        return Process(pid, parent, tuple(os.fsdecode(word) for word in words))
    return Process(pid, parent, tuple(_asked(pid, lambda process: process.cmdline(), [])))


def only_child(pid: int) -> int | None:
    """The child of a process that has exactly one and sleeps; None when it is not so (yet)."""
    state, _ = _stat(str(pid)) or ("", 0)
    if state != "S":
        return None
    children = _listed(pid) if _listed(os.getpid()) is not None else _looked_for(pid)
    return children[0] if children is not None and len(children) == 1 else None


def _listed(pid: int) -> list[int] | None:
    """The children of a process as the kernel lists them; None where it does not."""
    try:
        listed = (PROC / str(pid) / "task" / str(pid) / "children").read_bytes()
    except OSError:  # no CONFIG_PROC_CHILDREN, or no such process
        return None
    return [int(child) for child in listed.split()]


def _looked_for(pid: int) -> list[int]:
    return [child for child, parent in _linux_parents() if parent == pid]


def _linux_parents() -> Iterator[tuple[int, int]]:
    for name in (path.name for path in PROC.iterdir()):
        if name.isdigit() and (stat := _stat(name)) is not None and stat[0] not in "ZX":
            yield int(name), stat[1]


def _stat(pid: str) -> tuple[str, int] | None:
    fields = _read(PROC / pid / "stat").rpartition(b")")[2].split()  # the name may hold anything
    return (fields[0].decode(), int(fields[1])) if len(fields) > 1 else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # gone meanwhile, or another user's
        return b""


def _other_parents() -> Iterator[tuple[int, int]]:
    for process in psutil.process_iter():
        parent = _asked(process.pid, _parent_if_alive, None)
        if parent is not None:
            yield process.pid, parent


def _parent_if_alive(process: psutil.Process) -> int | None:
    return None if process.status() == psutil.STATUS_ZOMBIE else process.ppid()


def _asked(pid: int, question: Callable[[psutil.Process], T], otherwise: T) -> T:
    try:
        return question(psutil.Process(pid))
    except psutil.Error:
        return otherwise
