"""A chat on PostgreSQL whose connections are cut, and whose server is restarted and crashed."""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg

from coterie.model.record import ResultRecord
from coterie.model.task import Caps
from coterie.stores.postgres import PostgresStorage, schema
from coterie.testing.postgres import Cluster, Databases, own_cluster
from coterie.testing.scripted import TASK, ScriptedChannels, scripted_project, team


@dataclass
class CutTally:
    """What was done to the chat, and what became of it."""

    hits: dict[str, int] = field(default_factory=dict[str, int])
    turns: int = 0
    wrong: list[str] = field(default_factory=list[str])


class CutChaos:
    """One chat; each hit comes after a number of turns, at an arbitrary instant."""

    def __init__(self, turns: int, seed: int) -> None:
        self._turns = turns
        self._random = random.Random(seed)
        self.tally = CutTally()

    def run(self, hits: int, progress: Callable[[CutTally], None] = lambda _: None) -> CutTally:
        """Hit the chat this often; every turn must be recorded once, in order."""
        with own_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
            databases = Databases(cluster.url())
            url = databases.create("chat", databases.prepare("chaos", schema.init))
            anyio.run(self._chat, cluster, url, Path(folder), hits, progress)
        return self.tally

    async def _chat(
        self,
        cluster: Cluster,
        url: str,
        folder: Path,
        hits: int,
        progress: Callable[[CutTally], None],
    ) -> None:
        storage = await PostgresStorage.open(url)
        due = [anyio.Event() for _ in range(hits)]
        turns = 0

        def say(*_: object) -> str:
            nonlocal turns
            turns += 1
            if turns % (self._turns // (hits + 1)) == 0 and due:
                due.pop().set()
            return f"word {turns}"

        results: list[ResultRecord] = []
        caps = Caps(max_turns=self._turns, max_rounds=None)
        async with scripted_project(folder, storage) as it, anyio.create_task_group() as group:
            await it.start(team("ann", "bob", "cat"), "hello", caps)
            group.start_soon(self._hit_often, cluster, url, due[::-1], progress)
            results.append(await it.run(ScriptedChannels(say)))
        self.tally.turns = sum(result.turns for result in results)
        found = [one.text for one in await storage.conversation.messages(TASK)]
        if found != ["hello", *(f"word {number}" for number in range(1, self._turns + 1))]:
            self.tally.wrong.append(f"{len(found)} messages, not {self._turns + 1} in order")
        self.tally.wrong.extend(await storage.problems())
        await storage.close()

    async def _hit_often(
        self,
        cluster: Cluster,
        url: str,
        due: Sequence[anyio.Event],
        progress: Callable[[CutTally], None],
    ) -> None:
        for event in due:
            await event.wait()
            how = self._random.choices(["cut", "restart", "crash"], [8, 1, 1])[0]
            await anyio.to_thread.run_sync(_hit, how, cluster, url)
            self.tally.hits[how] = self.tally.hits.get(how, 0) + 1
            progress(self.tally)


def _hit(how: str, cluster: Cluster, url: str) -> None:
    if how == "cut":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    else:
        cluster.stop(signal.SIGINT if how == "restart" else signal.SIGKILL)
        cluster.start()
