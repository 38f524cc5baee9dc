"""An agent ends with its owner's lease, whatever the owner does or can no longer do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from coterie.errors import LeaseExpired
from coterie.process import processes
from coterie.process.child import KeeperName, start, start_recorded
from coterie.process.deadline import DeadlinePage, LeaseDeadline, LeaseTimer, now
from coterie.testing.scripted import ChildRecorder
from tests.unit.process.children import (
    KEEPERS,
    count_pids_with_argument,
    pids_with_argument,
    scripted,
    started,
    token,
    until,
)

FAR = 600.0
both = pytest.mark.parametrize("keeper", KEEPERS)


@contextmanager
def page(seconds: float, soft: float) -> Iterator[DeadlinePage]:
    """A lease that ends this many seconds from now."""
    made = DeadlinePage.made(soft)
    made.begin(now() + seconds)
    yield made
    made.close()


def shorten(lease: DeadlinePage, seconds: float, keeper: int) -> None:
    """End a lease sooner, and wake its keeper, which looks only when the old deadline is near."""
    lease.begin(now() + seconds)
    os.kill(keeper, signal.SIGCHLD)


class LeasedRecorder(ChildRecorder):
    """A child log of an owner with a lease."""

    def __init__(self, deadline: DeadlinePage) -> None:
        super().__init__()
        self.deadline = deadline


@both
async def test_at_the_deadline_all_of_a_deaf_agent_is_gone(keeper: KeeperName) -> None:
    word = token()
    with page(FAR, 0.2) as lease:
        spawn = scripted("--persistent", "--deaf", deadline=lease)
        async with started(spawn, keeper) as child:
            child.post(f"!daemon {word}\n".encode())
            assert b"daemon left" in await child.receive()
            assert await count_pids_with_argument(word) == 1
            shorten(lease, 0.3, child.pid)
            await until(lambda: not pids_with_argument(word), 60)
            await child.exit()
        assert lease.passed()
        assert keeper == "bubblewrap" or now() >= lease.deadline  # a deaf agent ignores TERM


async def test_it_is_asked_before_and_may_end_in_order(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with page(2 * FAR, FAR) as lease:
        spawn = scripted("--persistent", "--graceful", str(said), deadline=lease)
        async with started(spawn, "auto") as child:
            child.post(b"hello\n")
            assert b"heard" in await child.receive()
            shorten(lease, FAR + 0.1, child.pid)  # asked in 0.1 s, killed in ten minutes
            assert await child.exit() == 0
            assert (said.read_text(), lease.passed()) == ("goodbye\n", True)


@both
async def test_past_the_lease_nothing_starts(keeper: KeeperName) -> None:
    with page(1.0, FAR) as lease:
        with pytest.raises(LeaseExpired):
            await start(scripted("--persistent", deadline=lease), keeper)
        children = LeasedRecorder(lease)
        with pytest.raises(LeaseExpired):
            await start_recorded(scripted("--persistent"), "scripted", children, keeper)
        assert children.living == {}


async def test_an_agent_outlives_a_deadline_that_is_extended() -> None:
    with page(FAR, 0.1) as lease:
        async with started(scripted("--persistent", deadline=lease), "auto") as child:
            shorten(lease, 1.0, child.pid)
            first = lease.deadline
            assert lease.extend(now() + FAR)
            await anyio.sleep(first - now() + 0.05)
            child.post(b"hello\n")
            assert b"heard: hello" in await child.receive()
            assert not lease.passed()


def test_a_lease_that_another_has_taken_leaves_no_time_to_end() -> None:
    """As on a machine whose clock was paused too: others run its tasks when it wakes up."""
    with page(FAR, 0.1) as lease:
        timer = LeaseTimer(lease)
        assert timer.look() == ""
        lease.revoke()
        assert (timer.look(), lease.passed()) == ("k", True)


OWNER = """
import os, signal, sys, anyio
from coterie.process.child import start
from coterie.process.deadline import DeadlinePage, now
from tests.unit.process.children import scripted

async def main():
    page = DeadlinePage.made(0.1)
    page.begin(now() + 600)
    child = await start(scripted("--persistent", "--deaf", deadline=page), "auto")
    child.post(f"!daemon {sys.argv[1]}\\n".encode())
    assert b"daemon left" in await child.receive()
    page.begin(now() + 0.5)
    os.kill(child.pid, signal.SIGCHLD)
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)

anyio.run(main)
"""


async def test_the_agents_of_an_owner_that_is_stopped_end_by_their_keepers_clock() -> None:
    word = token()
    root = Path(__file__).parents[2]
    path = os.pathsep.join([*sys.path, str(root), str(root / "src")])
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, word],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    try:
        assert await anyio.to_thread.run_sync(owner.stdout.readline) == b"ready\n"
        await until(lambda: pids_with_argument(word) == [owner.pid], 60)
        assert Path(f"/proc/{owner.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    finally:
        os.kill(owner.pid, signal.SIGCONT)
        owner.kill()
        owner.communicate()


def test_a_keeper_wakes_once_per_lease_and_not_with_every_beat() -> None:
    clock = [100.0]
    lease = LeaseDeadline([0, 0], 10.0, lambda: clock[0])
    lease.begin(160.0)
    timer = LeaseTimer(lease)
    woken: list[float] = []
    for beat in range(100, 400, 5):  # a beat every 5 s for five minutes
        clock[0] = float(beat)
        assert lease.extend(beat + 60.0)
        if timer.due <= clock[0]:
            woken.append(clock[0])
            assert timer.look() == ""
    assert woken == [150.0, 200.0, 250.0, 300.0, 350.0]
    clock[0] = timer.due  # the beats stop
    assert (timer.look(), timer.due) == ("", lease.deadline - 10.0)
    clock[0] = timer.due
    assert (timer.look(), timer.look(), lease.passed()) == ("e", "", True)
    assert not lease.extend(FAR)
    clock[0] = timer.due
    assert timer.look() == "k"


def test_what_is_over_stays_over() -> None:
    clock = [0.0]
    lease = LeaseDeadline([0, 0], 1.0, lambda: clock[0])
    lease.begin(10.0)
    assert not lease.passed()
    clock[0] = 9.0
    assert lease.passed()
    clock[0] = 8.0
    assert (lease.extend(100.0), lease.deadline, lease.passed()) == (False, 10.0, True)


def test_what_the_keeper_imports_for_a_lease_imports_nothing_of_coterie() -> None:
    file = processes.KEEPER.with_name("deadline.py")
    words = [sys.executable, "-I", "-S", "-X", "importtime", str(file)]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "coterie" not in told.stderr
