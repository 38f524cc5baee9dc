"""Killing sessions with tickets at random instants, and comparing them with one left alone."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

import anyio

from coterie.model.ticket import STATES, TRANSITIONS, Ticket
from coterie.stores.sqlite import SqliteStorage
from coterie.testing import ticket_agent
from coterie.testing.ticket_agent import PRICES, TICKETS, WORKERS
from coterie.testing.ticket_run import MANAGER

_AGENT = Path(ticket_agent.__file__)
_SOURCES = _AGENT.parents[2]
_AT_ONCE = 1 + len(WORKERS)
"""So many agents one kill can cut."""
_EARLY = 0.2
"""How many of the kills are counted from the start of the process, and may meet its take-over."""
_SPAN = 0.7
"""Kills come within so many seconds: a session lives through several."""
_PATIENCE = 120.0
_VARYING = frozenset({"session_id", "commit", "digest", "size_bytes", "usage", "attempts", "costs"})
"""What differs between two runs that came to the same; times and hashes are known by their form."""
_HASH = re.compile(r"\b[0-9a-f]{12,64}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d+(\.\d+)? ?m?s\b")


@dataclass(frozen=True)
class Outcome:
    """What a session came to, as far as it must not depend on when it was killed."""

    report: object
    tree: str
    """The hash of the files that were approved."""
    landed: Sequence[str]
    """The tickets of the merges on the branch."""
    branches: Sequence[str]
    states: dict[str, Sequence[str]]
    """By ticket: the states it went through."""
    said: dict[str, int]
    """How often which payload was sent about which ticket."""
    users_tree: Sequence[str]


@dataclass
class TicketTally:
    """What a series of killed sessions came to."""

    kills: int = 0
    sessions: int = 0
    executions: int = 0
    needed: int = 0
    """Executions without any kill."""
    overlaps: int = 0
    survivors: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def repeated(self) -> int:
        """Executions that a kill had cut, or whose end nobody had heard of."""
        return self.executions - self.needed

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or left running."""
        few = 0 <= self.repeated <= self.kills * _AT_ONCE
        return few and not (self.wrong or self.overlaps or self.survivors)


@dataclass
class TicketChaos:
    """Sessions in projects of their own, killed at random until each is done."""

    folder: Path
    milliseconds: float = 40
    keeper: str = "auto"
    seed: int = 1
    kills_each: int = 10
    """After so many a session is left alone."""
    tally: TicketTally = field(default_factory=TicketTally)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(self, kills: int, told: Callable[[TicketTally], None] = lambda _: None) -> TicketTally:
        """A session left alone, then others until there have been so many kills."""
        alone = self._project("alone")
        code, _ = self._to_its_end(alone, kills=0)
        expected, needed = outcome(alone), _begun(alone)
        if code != 0:
            self.tally.wrong.append(f"alone: exit {code}: {_complaint(alone)}")
        while self.tally.kills < kills and not self.tally.wrong:
            project = self._project(f"session{self.tally.sessions}")
            left = min(self.kills_each, kills - self.tally.kills)
            code, killed = self._to_its_end(project, left)
            self.tally.kills += killed
            self.tally.needed += needed
            self._count(project, code, expected)
            told(self.tally)
        return self.tally

    def _project(self, name: str) -> Path:
        project = self.folder / name
        _furnish(project, self.milliseconds, self.keeper)
        return project

    def _to_its_end(self, project: Path, kills: int) -> tuple[int, int]:
        """Start and kill, in the end without; the exit code, and how often it was killed."""
        killed = 0
        while True:
            process = _start(project)
            try:
                if killed < kills:
                    self._wait(process, project)
                return process.wait(0.0 if killed < kills else _PATIENCE), killed
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1

    def _wait(self, process: subprocess.Popen[bytes], project: Path) -> None:
        """Until it is to be killed: mostly when agents are at work, sometimes before."""
        if self._random.random() > _EARLY:
            before = _size(project / "executions")
            while process.poll() is None and _size(project / "executions") == before:
                sleep(0.005)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self._random.uniform(0.0, _SPAN))

    def _count(self, project: Path, code: int, expected: Outcome) -> None:
        tally = self.tally
        tally.sessions += 1
        tally.executions += _begun(project)
        tally.overlaps += _executions(project).count("overlap")
        tally.survivors += sum(_is_locked(lock) for lock in project.glob("lock.*"))
        if code != 0:
            tally.wrong.append(f"{project.name}: exit {code}: {_complaint(project)}")
            return
        found = outcome(project)
        for name, wanted in vars(expected).items():
            if getattr(found, name) != wanted:
                tally.wrong.append(f"{project.name}: {name}: {getattr(found, name)} not {wanted}")
        tally.wrong += [f"{project.name}: {one}" for one in anyio.run(_broken_rules, project)]


# -- a project -----------------------------------------------------------------------------------


def _furnish(project: Path, milliseconds: float, keeper: str) -> None:
    registry, work = project / "user" / "agents", project / "work"
    registry.mkdir(parents=True)
    agents = {
        member: {
            "command": sys.executable,
            "baseArgs": ["-S", str(_AGENT), str(project), member, str(milliseconds)],
            "env": {"PYTHONPATH": str(_SOURCES)},
            "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        }
        for member in (MANAGER, *WORKERS)
    }
    config = {"schemaVersion": "1.2", "agents": agents}
    (registry / "config.json").write_text(json.dumps(config))
    (project / "user" / "settings.json").write_text(json.dumps({"keeper": keeper}))
    work.mkdir()
    _git(work, "init", "-q", "-b", "main")
    _git(work, "config", "user.name", "You")
    _git(work, "config", "user.email", "you@example.com")
    (work / PRICES).write_text("".join(f"line {number}\n" for number in range(TICKETS + 2)))
    (work / "notes.txt").write_text("kept\n")
    _git(work, "add", ".")
    _git(work, "commit", "-qm", "begin")
    # What the user is in the middle of: nobody else may take it along or put it away.
    (work / "notes.txt").write_text("changed by the user\n")
    (work / "new.txt").write_text("not added yet\n")


def _start(project: Path) -> subprocess.Popen[bytes]:
    user, work = str(project / "user"), str(project / "work")
    with (project / "stderr").open("wb") as complaint:
        return subprocess.Popen(
            [sys.executable, "-m", "coterie.testing.ticket_run", user, work],
            env={**os.environ, "COTERIE_HOME": user, "HOME": user},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaint,
        )


def _complaint(project: Path) -> str:
    return (project / "stderr").read_text(errors="replace")[-1000:]


def _git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


# -- what came of it -----------------------------------------------------------------------------


def outcome(project: Path) -> Outcome:
    """What a session that has ended came to."""
    work = project / "work"
    session, tickets, said = anyio.run(_kept, work)
    merged = f"coterie/{session}/merged"
    written = work / ".coterie" / "sessions" / session / "final_report.json"
    form = "--format=%(trailers:key=Coterie-Ticket,valueonly)"
    branches = _git(work, "for-each-ref", "--format=%(refname)", "refs/heads").split()
    return Outcome(
        _without_what_varies(json.loads(written.read_text()), session),
        _git(work, "rev-parse", f"{merged}^{{tree}}").strip(),
        sorted(_git(work, "log", "--first-parent", "--merges", form, merged).split()),
        [name.replace(session, "SESSION") for name in branches],
        {one.id: [m.event for m in one.history if m.event in STATES] for one in tickets},
        said,
        [
            _git(work, "symbolic-ref", "HEAD").strip(),
            _git(work, "log", "--format=%s", "HEAD").strip(),
            _git(work, "status", "--porcelain"),
            (work / "notes.txt").read_text(),
        ],
    )


async def _kept(work: Path) -> tuple[str, list[Ticket], dict[str, int]]:
    storage = await SqliteStorage.open(work / ".coterie" / "coterie.db")
    try:
        session = (await storage.events.tasks())[-1].session_id
        said = await storage.tickets.envelopes(session)
        kinds = Counter(f"{one.ticket_id or 'session'} {one.payload_type}" for _, one in said)
        return session, await storage.tickets.tickets(session), dict(sorted(kinds.items()))
    finally:
        await storage.close()


def _without_what_varies(value: object, session: str) -> object:
    match value:
        case dict():
            return {
                key: _without_what_varies(one, session)
                for key, one in value.items()  # pyright: ignore[reportUnknownVariableType]
                if key not in _VARYING
            }
        case list():
            return [_without_what_varies(one, session) for one in value]  # pyright: ignore[reportUnknownVariableType]
        case str():
            return _HASH.sub("HASH", _TIME.sub("TIME", value.replace(session, "SESSION")))
        case _:
            return value


async def _broken_rules(project: Path) -> list[str]:
    """What is wrong with a session whatever other sessions came to."""
    work = project / "work"
    storage = await SqliteStorage.open(work / ".coterie" / "coterie.db")
    try:
        session = (await storage.events.tasks())[-1].session_id
        numbers = [number for number, _ in await storage.tickets.envelopes(session)]
        tickets = await storage.tickets.tickets(session)
        damage = await storage.problems()
    finally:
        await storage.close()
    broken = [*damage]
    if numbers != list(range(1, len(numbers) + 1)):
        broken.append(f"the envelopes are numbered {numbers}")
    if len(tickets) != TICKETS:
        broken.append(f"there are {len(tickets)} tickets")
    broken += [f"{one.id} went {_path(one)}" for one in tickets if not _is_legal(_path(one))]
    lost = [one.id for one in tickets if _lost(work, session, one.id)]
    broken += [f"the work of {one} is not on the branch" for one in lost]
    return broken


def _path(ticket: Ticket) -> list[str]:
    return [moment.event for moment in ticket.history if moment.event in STATES]


def _is_legal(path: Sequence[str]) -> bool:
    """Whether a ticket went only where the table leads, and to its end once."""
    steps = zip(["pending", *path], path, strict=False)
    moves = {(before, after) for before, many in TRANSITIONS.items() for after in many}
    return all(step in moves for step in steps) and path[-1:] == ["done"]


def _lost(work: Path, session: str, ticket: str) -> bool:
    branch = f"coterie/{session}/{ticket}"
    words = ["git", "merge-base", "--is-ancestor", branch, f"coterie/{session}/merged"]
    return subprocess.run(words, cwd=work, check=False).returncode != 0


def _executions(project: Path) -> list[str]:
    lines = (project / "executions").read_text().split()[::2]
    return [line.partition(":")[0] for line in lines]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _begun(project: Path) -> int:
    return _executions(project).count("begin")


def _is_locked(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
