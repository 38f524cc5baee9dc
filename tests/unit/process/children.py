"""Start the scripted agent in tests and look for the processes it leaves behind."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import coterie.testing
from coterie.process import bubblewrap, processes
from coterie.process.child import Child, KeeperName, Spawn, start

AGENT = str(Path(coterie.testing.__file__).with_name("agent.py"))
KEEPERS: list[KeeperName] = ["auto", "subreaper", "bubblewrap"]


def scripted(*words: str, **more: object) -> Spawn:
    """How to start the scripted agent with these arguments."""
    return program(sys.executable, "-I", "-S", AGENT, *words, **more)


def program(command: str, *args: str, **more: object) -> Spawn:
    given: dict[str, object] = {
        "command": command,
        "args": args,
        "cwd": os.fspath(Path(AGENT).parent),
        "env": {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        "member": "ann",
        "folder": "teams/t/ann",
        "mark": uuid.uuid4().hex,
    }
    return Spawn(**(given | more))  # type: ignore[arg-type]


@asynccontextmanager
async def started(spawn: Spawn, keeper: KeeperName = "subreaper") -> AsyncIterator[Child]:
    """A child that is terminated at the end of the block, whatever happens inside."""
    await require_keeper(keeper)
    child = await start(spawn, keeper)
    try:
        yield child
    finally:
        assert await child.terminate()


async def require_keeper(keeper: KeeperName) -> None:
    if keeper == "bubblewrap" and (problem := await bubblewrap.problem()) is not None:
        pytest.skip(f"bubblewrap: {problem}")


def token() -> str:
    """A token that identifies a process, even from outside its pid namespace."""
    return f"token-{uuid.uuid4().hex}"


def pids_with_argument(word: str) -> list[int]:
    """Return the running processes with this word among their arguments."""
    parents = processes.snapshot()
    return [pid for pid in parents if word in processes.describe(pid, parents[pid]).argv]


async def count_pids_with_argument(word: str) -> int:
    """Count those processes without blocking the event loop."""
    return len(await anyio.to_thread.run_sync(pids_with_argument, word))


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> float:
    """Wait until the condition holds; return how long it took."""
    begun = time.monotonic()
    with anyio.fail_after(seconds):
        while not await anyio.to_thread.run_sync(condition):  # noqa: ASYNC110 - not ours to set
            await anyio.sleep(0.005)
    return time.monotonic() - begun


async def all_output(child: Child) -> bytes:
    chunks: list[bytes] = []
    while chunk := await child.receive():
        chunks.append(chunk)
    return b"".join(chunks)
