"""What a ticket costs: sessions on in-process members compared with a bare loop of as many rows.

A session plans this many tickets; each one is instructed, worked on, reported, reviewed and done,
three at once, in a plain folder: no git, and no agent that costs anything.  Its envelopes are also
written to files, as in production.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.bare import TEXT, bare_loop
from coterie.model import instant
from coterie.model.conversation import Message, Prompt
from coterie.model.task import Caps, TaskCreated
from coterie.model.team import Member, Team
from coterie.stores.envelope_files import EnvelopeFiles
from coterie.testing.scripted import TASK, ScriptedChannels, scripted_project
from coterie.workflows.tickets import Tickets

FEW, MANY = 50, 1_000
MEMORY = Path("/dev/shm")
WORKERS = ("ada", "ben", "cleo")
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


@dataclass(frozen=True)
class Session:
    """The cost of a session per ticket: CPU in microseconds, and rows in its database."""

    cpu: float
    rows: float


def session(folder: Path, tickets: int) -> Session:
    """Run a session of this many tickets to its end."""
    cpu = asyncio.run(_carried_out(folder, tickets))
    return Session(cpu / tickets * 1e6, _rows(folder / ".coterie" / "coterie.db") / tickets)


async def _carried_out(folder: Path, tickets: int) -> float:
    home = folder / ".coterie"
    home.mkdir()
    async with scripted_project(home, workflow=Tickets()) as it:
        created = _created()
        opening = Message(TASK, 1, "you", TEXT, created.at)
        assert await it.storage.create(created, it.owners.me, opening) is not None
        services = replace(
            it.engine.services, session_files=EnvelopeFiles(home, it.storage.tickets, TASK)
        )
        it.engine = replace(it.engine, root=folder, services=services)
        cpu = time.process_time()
        result = await it.run(ScriptedChannels(_script(tickets)))
        cpu = time.process_time() - cpu
    assert result.reason == "done", result
    assert result.summary.startswith(f"{tickets} done"), result
    return cpu


def _created() -> TaskCreated:
    names = ("mira", *WORKERS)
    members = tuple(
        Member(
            id=name,
            name=name,
            display_name=name,
            role="manager" if name == "mira" else "worker",
            agent="scripted",
            order=place,
        )
        for place, name in enumerate(names)
    )
    return TaskCreated(
        task_id=TASK,
        at=instant.now(),
        session_id=TASK,
        workflow="tickets",
        workflow_version=1,
        goal=TEXT,
        author="you",
        team=Team(name="bench", workflow="tickets", members=members),
        caps=Caps(yes=True),
    )


def _script(tickets: int) -> Callable[[Member, Prompt], str]:
    """Return a manager and workers that reply at once to what a prompt's last line asks for."""
    replies: dict[str, object] = {
        '"intent_summary"': {"status": "clear", "intent_summary": "all of it"},
        '"tasks"': {"tasks": [_task(number) for number in range(1, tickets + 1)]},
        '"acceptance_criteria"': {"summary": TEXT[:150], "steps": ["look", "write"]},
        '"decision"': {"decision": "approved", "notes": "fine"},
        '"status"': {"status": "completed", "outputs": ["it"], "evidence": [TEXT[:100]]},
    }
    answers = {key: f"Done.\n```json\n{json.dumps(reply)}\n```" for key, reply in replies.items()}

    def answer(member: Member, prompt: Prompt) -> str:
        asked = prompt.text.rstrip().rpartition("\n")[2]
        return next(reply for key, reply in answers.items() if key in asked)

    return answer


def _task(number: int) -> dict[str, object]:
    """Return a task; every fourth waits for the one before it, and all change different files."""
    return {
        "task_id": f"part-{number}",
        "description": TEXT[:120],
        "dependencies": [f"part-{number - 1}"] if number % 4 == 0 else [],
        "expected_outputs": [f"parts/{number}.py"],
    }


def _rows(database: Path) -> int:
    connection = sqlite3.connect(database)
    try:
        tables = [name for (name,) in connection.execute(_TABLES)]
        counts = (connection.execute(f'SELECT count(*) FROM "{name}"') for name in tables)
        return sum(count.fetchone()[0] for count in counts)
    finally:
        connection.close()


@dataclass(frozen=True)
class Compared:
    """Medians of interleaved runs, so that all saw the same machine."""

    few: Session
    many: Session
    bare: float
    """CPU of a bare loop with as many rows as a ticket has, in microseconds."""


def compare(rounds: int = 5) -> Compared:
    """Measure sessions of both sizes, and the bare loop."""
    few: list[Session] = []
    many: list[Session] = []
    bare: list[float] = []
    with _folders() as fresh:
        session(fresh(), 5)  # imports, and what is created on first use
        for _ in range(rounds):
            for _ in range(3):
                few.append(session(fresh(), FEW))
                rows = few[-1].rows
                bare.append(bare_loop(fresh(), round(rows * FEW)).cpu * rows)
            many.append(session(fresh(), MANY))
    return Compared(_median(few), _median(many), statistics.median(bare))


def growth(rounds: int = 3) -> float:
    """Return how much more a ticket of a long session costs than one of a short session.

    In memory, if there is such a folder: the cost of a new file on disk can vary tenfold from one
    minute to the next, so this shows our own part of `many` over `few` on disk.
    """
    place = MEMORY if MEMORY.is_dir() else None
    few: list[float] = []
    many: list[float] = []
    with _folders(place) as fresh:
        for _ in range(rounds):
            few += [session(fresh(), FEW).cpu for _ in range(3)]
            many.append(session(fresh(), MANY).cpu)
    return statistics.median(many) / statistics.median(few)


def _median(sessions: list[Session]) -> Session:
    return Session(statistics.median(one.cpu for one in sessions), sessions[0].rows)


@contextmanager
def _folders(place: Path | None = None) -> Iterator[Callable[[], Path]]:
    """Yield a function that creates a new folder.

    All are removed at the end instead of after each run: a new file costs ext4 many times as
    much CPU while it skips what was deleted within the last minute.
    """
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield lambda: Path(tempfile.mkdtemp(dir=folder))
