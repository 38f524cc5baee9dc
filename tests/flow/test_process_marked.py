"""Processes that a dead owner left behind are found by its mark and ended."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from coterie.process import processes
from tests.unit.process.children import (
    count_pids_with_argument,
    pids_with_argument,
    scripted,
    started,
    token,
    until,
)

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
ORPHAN = """
import os, subprocess, sys
if os.fork():
    os._exit(0)
os.setsid()
subprocess.run(sys.argv[1:], env={})  # whose child has scrubbed its environment
"""
LARGE = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
memory = bytearray(b"x") * (256 << 20)
print("locked", flush=True)
time.sleep(600)
"""


def leave_orphan(mark: str, word: str) -> None:
    """Leave a marked process in its own session without a parent, and its unmarked child."""
    argv = [sys.executable, "-I", "-S", "-c", ORPHAN, *SLEEP, word]
    subprocess.run(argv, env=os.environ | {processes.MARK: mark}, check=True)


@pytest.fixture
def mark() -> str:
    return token()


async def test_the_marked_and_their_children_are_found_and_ended(mark: str) -> None:
    word = token()
    leave_orphan(mark, word)
    await until(
        lambda: len(processes.find_marked([mark])) == 2 and len(pids_with_argument(word)) == 2
    )
    assert await anyio.to_thread.run_sync(processes.find_marked, [token()]) == []
    assert await processes.end_marked_in_thread([token(), mark]) == []
    assert await count_pids_with_argument(word) == 0


async def test_several_marks_are_ended_at_once_and_others_are_left_alone(mark: str) -> None:
    words = [token() for _ in range(3)]
    marks = [token() for _ in range(3)]
    for one, word in zip(marks, words, strict=True):
        leave_orphan(one, word)
    await until(lambda: all(len(pids_with_argument(word)) == 2 for word in words))
    assert await processes.end_marked_in_thread(marks[:2]) == []
    assert [await count_pids_with_argument(word) for word in words] == [0, 0, 2]
    assert await processes.end_marked_in_thread([marks[2]]) == []


async def test_one_that_takes_long_to_end_is_waited_for(mark: str, tmp_path: Path) -> None:
    """Once its memory is gone its mark cannot be read, but it still holds its lock."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    argv = [sys.executable, "-I", "-S", "-c", LARGE, str(tmp_path / "lock")]
    env = os.environ | {processes.MARK: mark}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as large:
        assert large.stdout is not None
        assert large.stdout.readline() == b"locked\n"
        assert await processes.end_marked_in_thread([mark]) == []
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


async def test_a_living_keeper_is_asked_and_ends_what_only_it_can_find() -> None:
    word = token()
    async with started(scripted("--persistent", "--deaf")) as child:
        child.post(f"!daemon {word}\n".encode())
        assert b"daemon left" in await child.receive()
        begun = time.monotonic()
        assert await processes.end_marked_in_thread([child.spawn.mark]) == []
        assert time.monotonic() - begun < 5
        assert await count_pids_with_argument(word) == 0


async def test_a_stopped_keeper_is_woken() -> None:
    word = token()
    async with started(scripted("--persistent")) as child:
        child.post(f"!daemon {word}\n".encode())
        assert b"daemon left" in await child.receive()
        os.kill(child.pid, signal.SIGSTOP)
        assert await processes.end_marked_in_thread([child.spawn.mark]) == []
        assert await count_pids_with_argument(word) == 0


async def test_a_zombie_is_dead(mark: str) -> None:
    child = subprocess.Popen(["true"], env={processes.MARK: mark})
    await until(lambda: processes.find_marked([mark]) == [])  # not yet reaped
    assert await processes.end_marked_in_thread([mark]) == []
    child.wait()


async def test_neither_we_nor_those_above_us_are_ended(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys, os; from coterie.process import processes; "
    script += "print([p.pid == os.getpid() for p in processes.end_marked(sys.argv[1:], 2)])"
    run = [sys.executable, "-c", script, mark]
    told = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            run, env=os.environ | {processes.MARK: mark}, capture_output=True, text=True, check=True
        )
    )
    assert told.stdout == "[True]\n"


async def test_those_that_cannot_be_proven_dead_are_returned(mark: str) -> None:
    child = subprocess.Popen(SLEEP, env=os.environ | {processes.MARK: mark})
    await until(lambda: [p.pid for p in processes.find_marked([mark])] == [child.pid])
    try:
        # Without any timeout it looks only once, and that proves nothing.
        assert [p.pid for p in await processes.end_marked_in_thread([mark], time_limit=-1)] == [
            child.pid
        ]
    finally:
        child.kill()
        child.wait()
