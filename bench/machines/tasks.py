"""Tasks on offer in a store, created by a machine that runs none, and what became of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg

from bench.machines.machine import create_machine
from coterie.app.machines import offer
from coterie.app.open_project import OpenProject
from coterie.app.run import StartRequest
from coterie.app.store import identity
from coterie.config.project import Project, give_store
from coterie.model.task import Caps
from coterie.stores.postgres import PostgresStorage, schema


class OfferingMachine:
    """A machine that only offers tasks, over a link that is never cut."""

    def __init__(self, folder: Path, url: str, agents: Sequence[str], ttl: float) -> None:
        place = create_machine(folder, "desk", agents, ["true"])
        self.folder = folder
        self.url = url
        self._project = Project(place / "project", place / "home")
        schema.init(url, identity(self._project), ttl)

    async def offer(self, agents: Sequence[str]) -> list[str]:
        """Offer a chat of one turn for each of these agents; return the tasks' ids."""
        give_store(self.url)  # for this call alone
        opening = OpenProject.open(self._project.root, self._project.home, machine="desk")
        tasks: list[str] = []
        async with opening as app:
            for agent in agents:
                team = (await app.team(agents=f"sam={agent}")).team
                tasks.append(await app.create(StartRequest(team, "hello", Caps(max_rounds=1))))
                await offer(app, tasks[-1])
        return tasks

    def unfinished(self, tasks: Sequence[str]) -> list[str]:
        """Return the tasks that have not been completed."""
        text = "SELECT id FROM coterie.tasks WHERE status = 'completed'"
        with psycopg.connect(self.url) as connection:
            ended = {row[0] for row in connection.execute(text)}
        return [task for task in tasks if task not in ended]

    def attempts(self) -> int:
        """Return how many turns were begun, over all tasks."""
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT 1 FROM coterie.turns").rowcount

    async def problems(self, tasks: Sequence[str]) -> list[str]:
        """Return what is wrong with the record: a turn not recorded once, or from an old token."""
        storage = await PostgresStorage.open(self.url)
        wrong = await storage.problems()
        for task in tasks:
            messages = [one.text for one in await storage.conversation.messages(task)]
            last = max(runs_by_token(self.folder, task), default=0)
            if messages != ["hello", f"done by {last}"]:
                wrong.append(f"{task}: {messages}, and the last agent had token {last}")
        await storage.close()
        text = "SELECT task_id, count(*) FROM coterie.turns WHERE outcome = 'completed' GROUP BY 1"
        with psycopg.connect(self.url) as connection:
            counts = {task: int(count) for task, count in connection.execute(text)}
        return wrong + [f"{one}: {counts.get(one)} turns" for one in tasks if counts.get(one) != 1]


@dataclass(frozen=True)
class RunInterval:
    """When any process of a run was alive, in seconds of the clock that all machines share here."""

    first: float
    last: float


def runs_by_token(folder: Path, task: str) -> dict[int, RunInterval]:
    """Return when each run of a task was alive, by token."""
    file = folder / "ticks" / task
    found: dict[int, RunInterval] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        token, at = int(line.split()[0]), int(line.split()[1]) / 1e9
        before = found.get(token, RunInterval(at, at))
        found[token] = RunInterval(min(before.first, at), max(before.last, at))
    return dict(sorted(found.items()))


def overlap(runs: dict[int, RunInterval]) -> float:
    """Return for how many seconds, at most, two runs were alive at once; 0 or less if never."""
    return max((one.last - other.first for one, other in pairwise(runs.values())), default=-1.0)


def last_token(folder: Path, task: str) -> int:
    """Return the token of the run that ticked last; 0 if none has."""
    try:
        with (folder / "ticks" / task).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200))
            return int(file.read().splitlines()[-1].split()[0])
    except (FileNotFoundError, IndexError):
        return 0
