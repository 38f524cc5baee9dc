"""What a ticket costs: sessions on in-process members beside a bare loop that commits as many rows.

A session plans so many tickets, and every one is instructed, worked on, reported, reviewed and
done, three at once, in a plain folder: no git, and no agent that costs anything.  Its envelopes
are written to files besides, as they are in earnest.
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
from coterie.testing.scripted import TASK, ScriptedChannels, stage
from coterie.workflows.tickets import Tickets

FEW, MANY = 50, 1_000
MEMORY = Path("/dev/shm")
WORKERS = ("ada", "ben", "cleo")
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


@dataclass(frozen=True)
class Session:
    """What a session cost per ticket: CPU in microseconds, and rows in its database."""

    cpu: float
    rows: float


def session(folder: Path, tickets: int) -> Session:
    """A session of so many tickets, carried out to its end."""
    cpu = asyncio.run(_carried_out(folder, tickets))
    return Session(cpu / tickets * 1e6, _rows(folder / ".coterie" / "coterie.db") / tickets)


async def _carried_out(folder: Path, tickets: int) -> float:
    home = folder / ".coterie"
    home.mkdir()
    async with stage(home, workflow=Tickets()) as it:
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
    """Manager and workers: what the last line of a prompt asks for, and at once."""
    replies: dict[str, object] = {
        '"intent_summary"': {"status": "clear", "intent_summary": "all of it"},
        '"tasks"': {"tasks": [_task(number) for number in range(1, tickets + 1)]},
        '"acceptance_criteria"': {"summary": TEXT[:150], "steps": ["look", "write"]},
        '"decision"': {"decision": "approved", "notes": "fine"},
        '"status"': {"status": "completed", "outputs": ["it"], "evidence": [TEXT[:100]]},
    }
    said = {key: f"Done.\n```json\n{json.dumps(reply)}\n```" for key, reply in replies.items()}

    def answer(member: Member, prompt: Prompt) -> str:
        asked = prompt.text.rstrip().rpartition("\n")[2]
        return next(reply for key, reply in said.items() if key in asked)

    return answer


def _task(number: int) -> dict[str, object]:
    """Every fourth waits for the one before it; all change files of their own."""
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
    """Medians of runs that were taken by turns, so that all saw the same machine."""

    few: Session
    many: Session
    bare: float
    """CPU of a bare loop with as many rows as a ticket has, in microseconds."""


def compared(rounds: int = 5) -> Compared:
    """Sessions of both sizes, and the bare loop."""
    few: list[Session] = []
    many: list[Session] = []
    bare: list[float] = []
    with _folders() as fresh:
        session(fresh(), 5)  # imports, and what is made when first used
        for _ in range(rounds):
            for _ in range(3):
                few.append(session(fresh(), FEW))
                rows = few[-1].rows
                bare.append(bare_loop(fresh(), round(rows * FEW)).cpu * rows)
            many.append(session(fresh(), MANY))
    return Compared(_median(few), _median(many), statistics.median(bare))


def grown(rounds: int = 3) -> float:
    """How much more a ticket of a long session costs than one of a short session.

    In memory, where there is such a folder: what a disk charges for a new file can vary tenfold
    from one minute to the next, so this tells our own part of `many` over `few` on disk.
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
    """Makes a new folder whenever it is called.

    All are removed at the end and not each after its run: a new file costs ext4 many times as
    much CPU while it passes over what was deleted within the last minute.
    """
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield lambda: Path(tempfile.mkdtemp(dir=folder))
