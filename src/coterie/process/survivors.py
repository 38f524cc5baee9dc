"""Finding and ending what a dead owner left running.

Every agent carries `COTERIE_MARK=<mark>` in its environment, and so does what it starts unless
that scrubs its own.  The keeper is the first line and ends even those; this is the second, for
when the keeper was killed too.  A tool that scrubbed its environment under a dead keeper cannot
be found by anyone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread

from coterie.process import processes
from coterie.process.processes import Process

MARK = "COTERIE_MARK"
KEEPER = Path(__file__).with_name("keeper.py")
PATIENCE = 10.0
BETWEEN_LOOKS = 0.02
# A keeper that is asked gives its agent 2 s and then ends the tree in milliseconds.  One that
# has not is not scheduled or stopped: then its tree is killed, and it itself as the last resort.
KILL_BELOW_KEEPERS, KILL_KEEPERS = 4.0, 7.0


def find(marks: Collection[str]) -> list[Process]:
    """Who carries one of the marks, and all that descend from one who does."""
    return _look(marks, processes.snapshot())


def end(marks: Collection[str], patience: float = PATIENCE) -> list[Process]:
    """End all that `find` finds; what could not be proven dead is returned.

    Looks again until two looks in a row find nobody: a list made a moment ago misses what was
    forked since.  Never ends this process or one that it descends from.
    """
    begun = time.monotonic()
    asked: set[int] = set()
    empty = 0
    while True:
        parents = processes.snapshot()
        spared = processes.ancestors(os.getpid(), parents)
        left = _look(marks, parents)
        empty = 0 if left else empty + 1
        spent = time.monotonic() - begun
        if empty == 2 or spent > patience or (left and spared.issuperset(p.pid for p in left)):
            return left
        for process in _to_kill(left, parents, spent):
            if process.pid not in spared:
                _send(process.pid, signal.SIGKILL)
        _ask([p for p in left if _is_keeper(p) and p.pid not in asked | spared], asked)
        time.sleep(BETWEEN_LOOKS)


async def end_in_thread(marks: Collection[str], patience: float = PATIENCE) -> list[Process]:
    """`end`, off the event loop; it runs to its end even if the caller is cancelled."""
    return await anyio.to_thread.run_sync(partial(end, marks, patience))


def _look(marks: Collection[str], parents: Mapping[int, int]) -> list[Process]:
    wanted = {f"{MARK}={mark}".encode() for mark in marks}
    marked = {pid for pid in parents if wanted.intersection(processes.environ(pid).split(b"\0"))}
    found = processes.descendants(marked, parents)
    return [processes.describe(pid, parents[pid]) for pid in sorted(found)]


def _to_kill(left: list[Process], parents: Mapping[int, int], spent: float) -> list[Process]:
    """Whom to kill now: at first not a keeper, nor what it is about to end with more care."""
    keepers = {process.pid for process in left if _is_keeper(process)}
    spared = processes.descendants(keepers, parents)
    if spent > KILL_BELOW_KEEPERS:
        spared = keepers
    if spent > KILL_KEEPERS:
        spared = set[int]()
    return [process for process in left if process.pid not in spared]


def _ask(keepers: list[Process], asked: set[int]) -> None:
    for keeper in keepers:
        asked.add(keeper.pid)
        _send(keeper.pid, signal.SIGTERM)
        _send(keeper.pid, signal.SIGCONT)


def _is_keeper(process: Process) -> bool:
    """Whether it is one of ours in Python; what is under a bubblewrap the kernel itself ends."""
    return any(word.endswith(f"/process/{KEEPER.name}") for word in process.argv[1:5])


def _send(pid: int, number: int) -> None:
    # It may be gone; or not ours to kill, which the next look tells.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
