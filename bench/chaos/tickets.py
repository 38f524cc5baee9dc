"""Killing sessions with tickets at random instants, and comparing them with one left alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from bench.chaos import ticket_agent
from bench.chaos.chats import Popen, Process, is_locked
from bench.chaos.stores import Stores, has_begun, rows
from bench.chaos.ticket_agent import PRICES, TICKETS, WORKERS
from bench.chaos.ticket_outcome import Outcome, broken_rules, git, outcome, read_session
from coterie.config.project import Project, make_project

MANAGER = "mira"
_TEAM = "--agents " + ",".join(f"{member}={member}" for member in (MANAGER, *WORKERS))
_MORE = "+5"
"""What is added when a budget is used up."""
_AGENT = Path(ticket_agent.__file__)
_ROOT = _AGENT.parents[2]
_AT_ONCE = 1 + len(WORKERS)
"""How many executions one kill can interrupt."""
_EARLY = 0.2
"""Share of kills timed from the start of the process, which may hit its takeover."""
_SPAN = 0.7
"""A kill comes within this many seconds, so that a session lives through several."""
_TIMEOUT = 120.0
WAITS = 3
"""Exit code of a session that waits for its user."""


@dataclass
class TicketTally:
    """The results of a series of killed sessions."""

    kills: int = 0
    sessions: int = 0
    executions: int = 0
    needed: int = 0
    """Executions that are needed without any kill."""
    overlaps: int = 0
    survivors: int = 0
    alongside: dict[str, int] = field(default_factory=dict[str, int])
    """How often each command was run alongside."""
    wrong: list[str] = field(default_factory=list[str])

    @property
    def repeated(self) -> int:
        """Executions that a kill interrupted, or whose end was not recorded."""
        return self.executions - self.needed

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, duplicated or left running."""
        few = 0 <= self.repeated <= self.kills * _AT_ONCE
        return few and not (self.wrong or self.overlaps or self.survivors)


@dataclass(frozen=True)
class Baseline:
    """The outcome of a session that nobody kills, on whatever store, and how many executions it
    takes."""

    outcome: Outcome
    executions: int


@dataclass
class TicketChaos:
    """Sessions of twelve tickets in projects of their own, killed at random until each is done."""

    folder: Path
    milliseconds: float = 40
    keeper: str = "auto"
    seed: int = 1
    kills_each: int = 10
    """After this many kills a session is left alone."""
    team: str = _TEAM
    """The arguments that name the team."""
    stores: Stores = field(default_factory=Stores)
    baseline: Baseline | None = None
    popen: Popen = subprocess.Popen
    tally: TicketTally = field(default_factory=TicketTally)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(
        self, kills: int, progress: Callable[[TicketTally], None] = lambda _: None
    ) -> TicketTally:
        """Run a session undisturbed, if not yet done, then others until there were enough kills."""
        self.baseline = self.baseline or self.run_baseline()
        while self.baseline is not None and self.tally.kills < kills:
            project = self._project(f"session{self.tally.sessions}")
            self._run_to_completion(project, min(self.kills_each, kills - self.tally.kills))
            self._count(project, self.baseline)
            progress(self.tally)
        return self.tally

    def run_baseline(self) -> Baseline | None:
        """Run a session that nobody kills; None if it does not come to its end."""
        project = self._project("alone")
        self._run_to_completion(project, 0)
        found = self._ended(project)
        return None if found is None else Baseline(found, _executions(project).count("begin"))

    def _project(self, name: str) -> Path:
        project = self.folder / name
        create_project(project, self.milliseconds)
        self.stores.settle(project, self.keeper)
        return project

    def _run_to_completion(self, project: Path, kills: int) -> None:
        """Start and kill this often; then start and leave alone."""
        killed, goes_on = 0, True
        while goes_on and killed <= kills and not is_over(project):
            process = start(project, self.team, self.popen)
            if killed < kills:
                self.wait(process, project)
            try:
                code = process.wait(0.0 if killed < kills else _TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed += 1
            else:
                goes_on = self.goes_on(project, code)
        self.tally.kills += min(killed, kills)

    def goes_on(self, project: Path, code: int) -> bool:
        """Whether to start it again after it has ended by itself: it waited for approval of its
        plan or its report, which is now given."""
        return code == WAITS and answered(project, self.popen)

    def wait(self, process: Process, project: Path) -> None:
        """Wait until it is to be killed: mostly when agents are at work, sometimes earlier."""
        if self._random.random() > _EARLY:
            before = _size(project / "executions")
            while process.poll() is None and _size(project / "executions") == before:
                sleep(0.005)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self._random.uniform(0.0, _SPAN))

    def _ended(self, project: Path) -> Outcome | None:
        """Return the outcome of the session; None if it did not come to its end."""
        work = project / "work"
        kept = read_session(project)
        # The report exists before it is confirmed: only after that is the session over.
        if kept.tasks[kept.session] != "completed":
            output = (project / "output").read_text(errors="replace")
            self.tally.wrong.append(f"{project.name}: it did not end: {output[-1000:]}")
            return None
        self.tally.wrong += [f"{project.name}: {one}" for one in broken_rules(work, kept)]
        return outcome(work, kept)

    def _count(self, project: Path, baseline: Baseline) -> None:
        tally = self.tally
        words = _executions(project)
        tally.sessions += 1
        tally.needed += baseline.executions
        tally.executions += words.count("begin")
        tally.overlaps += words.count("overlap")
        tally.survivors += sum(is_locked(lock) for lock in project.glob("lock.*"))
        found = self._ended(project)
        if found is not None:
            tally.wrong += [f"{project.name}: {one}" for one in found.differences(baseline.outcome)]


def create_project(project: Path, milliseconds: float) -> None:
    """Create a repository, and a registry with our manager and workers."""
    registry, work = project / "user" / "agents", project / "work"
    registry.mkdir(parents=True)
    agents = {
        member: {
            "command": sys.executable,
            "baseArgs": ["-S", str(_AGENT), str(project), member, str(milliseconds)],
            "env": {"PYTHONPATH": str(_ROOT)},
            "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        }
        for member in (MANAGER, *WORKERS)
    }
    config = {"schemaVersion": "1.2", "agents": agents}
    (registry / "config.json").write_text(json.dumps(config))
    work.mkdir(parents=True)
    make_project(Project(work, project / "user"))
    checks = {"checks": [f"test -s {PRICES}"]}
    (work / ".coterie" / "scheduler_config.json").write_text(json.dumps(checks))
    (work / ".gitignore").write_text(".coterie\n")
    (work / PRICES).write_text("".join(f"line {number}\n" for number in range(TICKETS + 2)))
    (work / "notes.txt").write_text("kept\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "You")
    git(work, "config", "user.email", "you@example.com")
    git(work, "add", ".")
    git(work, "commit", "-qm", "begin")
    # The user's own uncommitted changes: nobody else may commit them or remove them.
    (work / "notes.txt").write_text("changed by the user\n")
    (work / "new.txt").write_text("not added yet\n")


def start(project: Path, team: str, popen: Popen = subprocess.Popen) -> Process:
    """Start or resume the session; its output goes to `output`."""
    begin = ["run", *team.split(), "Twelve parts"]
    return _started(project, ["resume", "last"] if has_begun(project) else begin, "output", popen)


def _started(project: Path, words: Sequence[str], output: str, popen: Popen) -> Process:
    with (project / output).open("wb") as file:
        return popen(
            command(project, *words),
            env=environment(project),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


def command(project: Path, *words: str) -> list[str]:
    """Return a command line in the project."""
    return [sys.executable, "-m", "coterie", "-C", str(project / "work"), *words, "--json"]


def environment(project: Path) -> dict[str, str]:
    """Return the environment of the project's user."""
    user = str(project / "user")
    return {**os.environ, "COTERIE_HOME": user, "HOME": user}


def is_over(project: Path) -> bool:
    """Whether the session has ended."""
    return rows(project, "SELECT status FROM tasks WHERE parent_id IS NULL") == [("completed",)]


def answered(project: Path, popen: Popen = subprocess.Popen) -> bool:
    """Answer whatever waits for the user, unless somebody else did; False if nothing waits."""
    asked = open_questions(project, popen)
    for name, kind in asked.items():
        answer = _MORE if kind == "budget" else "approve"
        _started(project, ["answer", name, answer], "answer", popen).wait()
    return bool(asked)


def open_questions(project: Path, popen: Popen = subprocess.Popen) -> dict[str, str]:
    """Return what waits for the user: by id, what it is about."""
    code = _started(project, ["inbox"], "inbox", popen).wait()
    printed = (project / "inbox").read_text()
    if code != 0:
        raise RuntimeError(f"coterie inbox failed: {printed}")
    asked = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return {one["id"]: one["about"]["kind"] for one in asked if one["type"] == "interaction"}


def _executions(project: Path) -> list[str]:
    lines = (project / "executions").read_text().split()[::2]
    return [line.partition(":")[0] for line in lines]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
