"""A task moves from machine to machine and never has two agents: real processes, real faults."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import anyio

from coterie.model import instant
from coterie.model.machine import OwnerRow
from coterie.model.task import TaskCreated
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.owner_rows import SqliteOwnerRows
from coterie.testing.scripted import team
from tests.flow.leased_worker import TASK, last_token, ticks, work

TTL = 1.5
ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0
"""Enough for a busy machine: these tests depend on order, not on speed."""


async def create_task(folder: Path) -> None:
    """Create a task whose first owner is dead."""
    folder.mkdir()
    storage = await SqliteStorage.open(folder / "coterie.db")
    created = TaskCreated(
        task_id=TASK,
        at=instant.now(),
        session_id=TASK,
        workflow="chat",
        workflow_version=1,
        goal="hello",
        author="you",
        team=team("ann"),
    )
    await storage.create(created, "first", None)
    await storage.close()
    rows = SqliteOwnerRows(folder / "owners.db")
    await rows.add(OwnerRow("first", "nowhere", 0, True, instant.now(), ""))


@contextmanager
def worker(name: str, *folders: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process on a machine of that name, which runs the task of each folder."""
    words = [sys.executable, "-m", "tests.flow.leased_worker", name, *folders]
    path = os.pathsep.join([*sys.path, str(ROOT), str(ROOT / "src")])
    env = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str], folder: Path) -> None:
    """Stop it, but not in the middle of a transaction: that would leave the SQLite file locked."""
    with closing(sqlite3.connect(folder / "owners.db", timeout=30)) as rows:
        rows.execute("BEGIN IMMEDIATE")
        process.send_signal(signal.SIGSTOP)
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)
        rows.rollback()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(TIMEOUT):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - others' doing
            await anyio.sleep(0.1)


def check_never_two(folder: Path) -> None:
    """Check that nothing of a run was still alive when anything of the next one was."""
    alive = sorted((token, min(at), max(at)) for token, at in ticks(folder).items())
    assert len(alive) > 1
    for (_, _, last), (token, first, _) in pairwise(alive):
        assert last < first, (token, (last - first) / 1e9)


async def test_whatever_befalls_a_machine_its_task_never_has_two_agents(tmp_path: Path) -> None:
    """Each machine is hit while its agent runs; another takes over when nothing of it is left,
    and one that recovers finds itself declared dead."""
    names = ("killed", "restarted", "stopped", "cut", "mute")
    killed, restarted, stopped, cut, mute = folders = [tmp_path / name for name in names]
    over: list[str] = []
    for folder in folders:
        await create_task(folder)
    with (
        worker("a", str(killed), str(TTL), str(restarted), "600") as first,
        worker("a", str(stopped), str(TTL)) as second,
    ):
        async with anyio.create_task_group() as group:
            for folder in (cut, mute):
                group.start_soon(work, folder, "a", TTL, False, over.append)
            await until(lambda: all(map(last_token, folders)))
            before = {folder: last_token(folder) for folder in folders}
            for folder in (killed, stopped, cut, mute):
                group.start_soon(work, folder, "b", TTL)
            first.kill()
            await anyio.to_thread.run_sync(stop, second, stopped)
            for folder in (cut, mute):
                (folder / f"{folder.name}-a").touch()
            group.start_soon(work, restarted, "a", 600.0, True)
            await until(lambda: all(last_token(folder) > before[folder] for folder in folders))
            second.send_signal(signal.SIGCONT)
            for folder in (cut, mute):
                (folder / f"{folder.name}-a").unlink()
            assert second.stdout is not None
            told = await anyio.to_thread.run_sync(second.stdout.readline)
            assert (told, over[0]) == ("lease_expired\n", "lease_expired")
            group.cancel_scope.cancel()
    for folder in folders:
        await anyio.to_thread.run_sync(check_never_two, folder)
