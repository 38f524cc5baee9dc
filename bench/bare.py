"""The baseline: a bare loop that commits each message, and our storage path next to it.

`bare_loop` is what `make bench` compares a durable chat turn with: one thread, SQLite in WAL mode
with synchronous=FULL, one INSERT and one COMMIT of a message of about 300 characters per turn.
`storage_path` does to the real store what the engine does in a turn, and nothing else.
Run as a program, it prints the figures of the store alone.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coterie.model import instant
from coterie.model.conversation import Message
from coterie.model.journal import (
    AppendEvent,
    AppendMessage,
    CloseStep,
    CloseTurn,
    Fence,
    OpenStep,
    OpenTurn,
    Step,
    Write,
    digest,
)
from coterie.model.task import Caps, TaskCompleted, TaskCreated, TaskStarted
from coterie.model.team import Member, Team
from coterie.stores.sqlite import SqliteStorage

TEXT = ("The loop in cart.py asks the database once for every item. " * 6)[:300]
MEMBERS = ("ann", "bob", "cat")
TASK = "k3f9"


@dataclass(frozen=True)
class Cost:
    """The cost of a turn in microseconds, and the file's size after a clean close."""

    cpu: float
    wall: float
    file: int


def bare_loop(folder: Path, turns: int) -> Cost:
    """Commit one message per turn; the table is created before the clock starts."""
    path = folder / "bare.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE messages (seq INTEGER PRIMARY KEY, member TEXT, text TEXT, at TEXT)"
    )
    cpu, wall = time.process_time(), time.perf_counter()
    for seq in range(1, turns + 1):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO messages (seq, member, text, at) VALUES (?, ?, ?, ?)",
            (seq, MEMBERS[seq % 3], TEXT, instant.now()),
        )
        connection.execute("COMMIT")
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    connection.close()
    return Cost(cpu / turns * 1e6, wall / turns * 1e6, path.stat().st_size)


def storage_path(folder: Path, turns: int) -> Cost:
    """Run the same number of turns through `SqliteStorage`, from an event loop."""
    return asyncio.run(_storage_path(folder / "coterie.db", turns))


async def _storage_path(path: Path, turns: int) -> Cost:
    storage = await SqliteStorage.open(path)
    fence = await storage.create(_created(), "owner", Message(TASK, 1, "you", TEXT, instant.now()))
    assert fence is not None
    await storage.commit(fence, AppendEvent(TaskStarted(task_id=TASK, at=instant.now())))
    writes = [_writes(fence, turn) for turn in range(1, turns + 1)]
    cpu, wall = time.process_time(), time.perf_counter()
    for opening, closing in writes:
        await storage.commit(fence, *opening)
        storage.post(fence, *closing)
    await storage.commit(fence)  # waits for the last posted writes
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    done = TaskCompleted(task_id=TASK, at=instant.now(), reason="max_turns")
    await storage.commit(fence, AppendEvent(done))
    await storage.close()
    return Cost(cpu / turns * 1e6, wall / turns * 1e6, path.stat().st_size)


def _writes(fence: Fence, turn: int) -> tuple[tuple[Write, ...], tuple[Write, ...]]:
    """Return what opens a turn and what closes it; creating these is the engine's cost."""
    member, newest = MEMBERS[turn % 3], turn
    name = f"round/{(turn + 2) // 3}/turn/{member}"
    intent = {"member": member, "messages": [newest, newest]}
    now = instant.now()
    opening = (
        OpenStep(Step(TASK, name, "turn", digest("turn", intent), json.dumps(intent))),
        OpenTurn(TASK, name, 1, member, fence.token, now),
    )
    closing = (
        CloseTurn(TASK, name, 1, now, "completed", None, None),
        CloseStep(TASK, name, f'{{"message":{newest + 1}}}'),
        AppendMessage(Message(TASK, newest + 1, member, TEXT, now, turn)),
    )
    return opening, closing


def _created() -> TaskCreated:
    members = tuple(Member(id=name, name=name, display_name=name) for name in MEMBERS)
    return TaskCreated(
        task_id=TASK,
        at=instant.now(),
        session_id=TASK,
        workflow="chat",
        workflow_version=1,
        goal=TEXT,
        author="you",
        team=Team(name="bench", members=members),
        caps=Caps(),
    )


Run = Callable[[Path, int], Cost]


def interleaved(one: Run, other: Run, turns: int) -> tuple[Cost, Cost]:
    """Return the medians of two, interleaved so that both see the same machine.

    Shorter runs are repeated more often: a median of few short runs says little.
    """
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(max(9, 1800 // turns)):
        for run, kept in zip((one, other), costs, strict=True):
            with tempfile.TemporaryDirectory() as folder:
                kept.append(run(Path(folder), turns))
    return _median(costs[0]), _median(costs[1])


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        costs[0].file,
    )


def main() -> None:
    """Print one JSON line for each number of turns."""
    for turns in (60, 600):
        bare, ours = interleaved(bare_loop, storage_path, turns)
        line = {
            "turns": turns,
            "bare": asdict(bare),
            "storage": asdict(ours),
            "cpu_ratio": round(ours.cpu / bare.cpu, 2),
            "file_ratio": round(ours.file / bare.file, 2),
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
