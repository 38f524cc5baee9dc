"""What PostgreSQL costs compared with SQLite: CPU per chat turn, and how soon an answer is seen."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.bare import TEXT
from coterie.model.task import Caps
from coterie.ports import Storage
from coterie.stores.postgres import PostgresStorage, schema
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.contracts.samples import answered, asked, created, started
from coterie.testing.postgres import Databases, own_cluster
from coterie.testing.scripted import ScriptedChannels, scripted_project, team

RUNS = 7


@dataclass(frozen=True)
class StoresCompared:
    """Microseconds of CPU per turn of a chat, and how late answers came, in milliseconds."""

    sqlite: float
    postgres: float
    late: list[float]

    @property
    def late_p95(self) -> float:
        """The delay that 19 of 20 answers did not exceed."""
        return sorted(self.late)[int(len(self.late) * 0.95)]


def compare(turns: int, answers: int) -> StoresCompared:
    """Measure both stores, interleaved, on our own cluster; the server's cost is not counted."""
    with own_cluster({"fsync": "on"}) as cluster, tempfile.TemporaryDirectory() as folder:
        databases = Databases(cluster.url())
        template = databases.prepare("bench", schema.init)
        costs: dict[str, list[float]] = {"sqlite": [], "postgres": []}
        for number in range(RUNS):
            made = Path(folder) / str(number)
            made.mkdir()
            url = databases.create(f"bench_{number}", template)
            costs["sqlite"].append(asyncio.run(_chat(made, turns, "")))
            costs["postgres"].append(asyncio.run(_chat(made, turns, url)))
        url = databases.create("bench_answers", template)
        late = asyncio.run(_answered(url, answers))
    median = statistics.median
    return StoresCompared(median(costs["sqlite"]), median(costs["postgres"]), late)


async def _chat(folder: Path, turns: int, url: str) -> float:
    storage: Storage = (
        await PostgresStorage.open(url) if url else await SqliteStorage.open(folder / "chat.db")
    )
    async with scripted_project(folder, storage) as it:
        await it.start(team("ann", "bob", "cat"), TEXT, Caps(max_turns=turns, max_rounds=None))
        before = time.process_time()
        result = await it.run(ScriptedChannels(lambda *_: TEXT))
        spent = time.process_time() - before
    await storage.close()
    assert (result.turns, result.reason) == (turns, "max_turns")
    return spent / turns * 1e6


async def _answered(url: str, answers: int) -> list[float]:
    """Return how long after its commit each answer of another process is seen by the waiter."""
    storage = await PostgresStorage.open(url)
    fence = await storage.create(created(), "me", None)
    await storage.commit(fence, started())
    late: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-m", __spec__.name, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for number in range(answers):
            await storage.commit(fence, asked(f"q{number}"))
            seen = await storage.changed(0)
            other.stdin.write(f"q{number}\n")
            other.stdin.flush()
            while await storage.inbox.questions():
                seen = await storage.changed(seen)
            received = time.monotonic()
            late.append((received - json.loads(other.stdout.readline())) * 1e3)
        other.stdin.close()
    await storage.close()
    return late


async def _answer(url: str) -> None:
    storage = await PostgresStorage.open(url)
    for line in sys.stdin:
        assert await storage.inbox.respond(answered(line.strip()))
        sys.stdout.write(f"{json.dumps(time.monotonic())}\n")
        sys.stdout.flush()
    await storage.close()


if __name__ == "__main__":
    asyncio.run(_answer(sys.argv[1]))
