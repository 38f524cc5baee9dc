"""A process that keeps running the task of each folder under a lease, for as long as it can.

    python -m tests.flow.leased_worker MACHINE (FOLDER TTL)...

Its agent, and a daemon that the agent leaves behind, write a line to FOLDER/ticks every few
milliseconds: the token of the run and the time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from coterie.engine.channels import SurvivorReaper, TaskChildren
from coterie.engine.lease import Claimant
from coterie.engine.leased import LeasedOwners
from coterie.errors import LeaseExpired, StorageError, TaskBusy
from coterie.model.journal import ChildLease, Fence
from coterie.model.lease_clock import LeaseTimes
from coterie.ports import Storage
from coterie.process.child import Spawn, start_recorded
from coterie.process.processes import PidScope
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.owner_rows import SqliteOwnerRows

TASK, TICKS = "k3f9", "ticks"
TICKER = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.environ.clear()
ticks = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while True:
    os.write(ticks, f"{sys.argv[2]} {time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\\n".encode())
    time.sleep(0.01)
"""


def times(ttl: float) -> LeaseTimes:
    """Return short lease times, proportional to the real ones, with slack for a busy machine."""
    return LeaseTimes(ttl=ttl, beat=ttl / 5, soft=ttl / 4, margin=0.8, look=0.1)


class UnreachableReaper:
    """A reaper on another machine, which can see none of the processes that it is asked to end."""

    async def end(self, children: Sequence[ChildLease]) -> Sequence[int]:
        return ()


def last_token(folder: Path) -> int:
    """Return the token of the run that ticked last, or 0 if none has."""
    try:
        with (folder / TICKS).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200))
            return int(file.read().splitlines()[-1].split()[0])
    except (FileNotFoundError, IndexError):
        return 0


def ticks(folder: Path) -> dict[int, list[int]]:
    """Return, by token, the times at which the run's agent or its daemon was alive."""
    found: dict[int, list[int]] = {}
    lines = (folder / TICKS).read_text().splitlines() if (folder / TICKS).exists() else []
    for token, at in (line.split() for line in lines):
        found.setdefault(int(token), []).append(int(at))
    return found


def owners_of(folder: Path, name: str, ttl: float, storage: Storage, here: bool) -> LeasedOwners:
    """Return the owners as that machine's process sees them; `cut` and `mute` are per machine."""
    real = PidScope.here()
    rows = SqliteOwnerRows(folder / "owners.db", folder / f"cut-{name}", folder / f"mute-{name}")
    reaper = SurvivorReaper() if here else UnreachableReaper()
    machine = PidScope(name, real.boot_id, real.pid_namespace)
    return LeasedOwners(
        rows, storage.leases, reaper, machine, folder / name, name, times=times(ttl)
    )


async def run_once(owners: LeasedOwners, storage: Storage, folder: Path) -> Fence:
    """Take the task as soon as possible, and run its ticking agent until that is ended."""
    claimant = Claimant(owners, storage.leases, owners.reaper, owners.machine)
    while True:
        try:
            fence = await claimant.take(TASK)
            break
        except (TaskBusy, StorageError):
            await anyio.sleep(0.05)
    children = TaskChildren(storage.leases, fence, owners.machine, deadline=owners.deadline)
    words = ("-I", "-S", "-c", TICKER, str(folder / TICKS), str(fence.token))
    spawn = Spawn(sys.executable, words, str(folder), dict(os.environ), "ann", str(folder))
    child = await start_recorded(spawn, "ticker", children)
    try:
        await child.exit()
    finally:
        await child.terminate()
    return fence


async def work(
    folder: Path, name: str, ttl: float, here: bool = False, say: Callable[[str], None] = print
) -> None:
    """Run the task again and again, each time as a new owner; with `here`, end the survivors
    that an earlier owner left on this machine."""
    storage = await SqliteStorage.open(folder / "coterie.db")
    while True:
        owners = await anyio.to_thread.run_sync(owners_of, folder, name, ttl, storage, here)
        try:
            async with owners.kept():
                await owners.begin()
                await run_once(owners, storage, folder)
        except (LeaseExpired, StorageError) as over:
            say(over.code)
        finally:
            with anyio.CancelScope(shield=True):
                await owners.end()


async def main(name: str, *folders: str) -> None:
    async with anyio.create_task_group() as group:
        for folder, ttl in zip(folders[::2], folders[1::2], strict=True):
            group.start_soon(work, Path(folder), name, float(ttl))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], *sys.argv[2:])
