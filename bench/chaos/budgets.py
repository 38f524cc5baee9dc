"""Chats in several terminals under one daily limit: killed, resumed and given more at random."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from bench.chaos.chats import AGENT, is_locked
from bench.chaos.stores import Stores, rows
from coterie.config.project import Project, make_project
from coterie.model.amount import parse_increase

_LIMIT = 2
_GIVEN = 4
"""Turns per day at first, and how many are added whenever a question asks for more."""
_ANSWERED = 0.2
"""Probability of answering an open question, in each iteration without a kill."""
_TIMEOUT = 180.0
"""Seconds before a project times out."""
_WAITS = 3
"""Exit code of a chat that waits for its user."""


@dataclass
class BudgetTally:
    """The results of a series of killed chats under one limit."""

    kills: int = 0
    projects: int = 0
    turns: int = 0
    executions: int = 0
    checks: int = 0
    """How often the limit was checked."""
    questions: int = 0
    overlaps: int = 0
    survivors: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def clean(self) -> bool:
        """Whether no limit was exceeded, and nothing was lost, duplicated or left running."""
        few = self.executions <= self.turns + self.kills
        return few and not (self.wrong or self.overlaps or self.survivors)


@dataclass
class BudgetChaos:
    """Projects with several concurrent chats, all of whose turns count for the same day."""

    folder: Path
    chats: int = 3
    turns: int = 4
    milliseconds: float = 60
    keeper: str = "auto"
    seed: int = 1
    kills_each: int = 6
    """After this many kills a project is left alone."""
    stores: Stores = field(default_factory=Stores)
    tally: BudgetTally = field(default_factory=BudgetTally)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(
        self, kills: int, progress: Callable[[BudgetTally], None] = lambda _: None
    ) -> BudgetTally:
        """Run projects until this many kills have happened."""
        while self.tally.kills < kills and not self.tally.wrong:
            project = self.folder / f"day{self.tally.projects}"
            self._create_project(project)
            self._run_to_completion(project, min(self.kills_each, kills - self.tally.kills))
            self._count(project)
            progress(self.tally)
        return self.tally

    def _run_to_completion(self, project: Path, kills: int) -> None:
        """Keep every chat running until it is done; kill one, or answer, every now and then."""
        running: dict[int, subprocess.Popen[bytes]] = {}
        left, until = set(range(self.chats)), monotonic() + _TIMEOUT
        while left and monotonic() < until:
            for number in list(left):
                process = running.get(number) or self._start(project, number)
                running[number] = process
                code = process.poll()
                if code is not None:
                    del running[number]
                    self._ended(project, number, code, left)
            self._look(project)
            sleep(self._random.uniform(0.02, 0.25))
            if kills and (victim := self._victim(project, list(running))) is not None:
                kills -= 1
                self.tally.kills += 1
                _kill(running.pop(victim))
            elif self._random.random() < _ANSWERED:
                _answer(project)
        for process in running.values():
            _kill(process)
        if left:
            self.tally.wrong.append(f"{project.name}: chats {left} did not end")

    def _victim(self, project: Path, running: list[int]) -> int | None:
        """Choose a chat to kill, if any: mostly one in a turn, sometimes one that is starting,
        waits for what others have reserved, or asks."""
        if not running:
            return None
        number = self._random.choice(running)
        words = (project / f"agent{number}" / "executions").read_text().split()[::2]
        is_at_work = words.count("begin") > words.count("end")
        return number if self._random.random() < (0.5 if is_at_work else 0.05) else None

    def _start(self, project: Path, number: int) -> subprocess.Popen[bytes]:
        known = _task(project, number)
        new = ["chat", "-t", f"team{number}", "--max-turns", str(self.turns), f"{number} turn 0"]
        return _coterie(project, number, *(["resume", known] if known else new), "--wait", "1s")

    def _ended(self, project: Path, number: int, code: int, left: set[int]) -> None:
        if code == 0:
            left.discard(number)
        elif code != _WAITS:
            output = (project / f"output{number}").read_text(errors="replace")[-1000:]
            self.tally.wrong.append(f"{project.name}: chat {number} ended with {code}: {output}")
            left.clear()

    def _look(self, project: Path) -> None:
        """Check that no more was used than allowed, and that at most one question is open."""
        self.tally.checks += 1
        used, allowed, is_open = _day(project)
        if used > allowed:
            self.tally.wrong.append(f"{project.name}: {used} turns of {allowed}")
        if is_open > 1:
            self.tally.wrong.append(f"{project.name}: {is_open} open questions for one limit")

    def _count(self, project: Path) -> None:
        tally = self.tally
        tally.projects += 1
        tally.turns += self.turns * self.chats
        for number in range(self.chats):
            own = project / f"agent{number}"
            words = (own / "executions").read_text().split()[::2]
            tally.executions += words.count("begin")
            tally.overlaps += words.count("overlap")
            tally.survivors += is_locked(own / "lock")
            messages = _messages(project, _task(project, number) or "")
            if messages != [f"{number} turn 0", *(f"turn {n}" for n in range(1, self.turns + 1))]:
                tally.wrong.append(f"{project.name}: chat {number} has messages {messages}")
        for about in _budget_questions(project):
            tally.questions += 1
            if about["used"] != about["limit"]:
                tally.wrong.append(f"{project.name}: asked at {about}")

    def _create_project(self, project: Path) -> None:
        registry, work = project / "user" / "agents", project / "work"
        registry.mkdir(parents=True)
        work.mkdir()
        make_project(Project(work, project / "user"))
        agents: dict[str, object] = {}
        for number in range(self.chats):
            own = project / f"agent{number}"
            own.mkdir()
            (own / "executions").touch()
            (own / "lock").touch()
            words = ["-I", "-S", str(AGENT), str(own), str(self.milliseconds)]
            ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
            agents[f"a{number}"] = {
                "command": sys.executable,
                "baseArgs": words,
                "capabilities": ends,
            }
            team = work / ".coterie" / "teams" / f"team{number}"
            team.mkdir(parents=True)
            members = [{"id": f"m{number}{one}", "agent": f"a{number}"} for one in "ab"]
            budget = {"perDay": {"turns": _LIMIT}}
            (team / "team.json").write_text(json.dumps({"budget": budget, "members": members}))
        config = {"schemaVersion": "1.2", "agents": agents}
        (registry / "config.json").write_text(json.dumps(config))
        self.stores.settle(project, self.keeper)


def _coterie(project: Path, number: int | None, *words: str) -> subprocess.Popen[bytes]:
    user = str(project / "user")
    output = project / f"output{'' if number is None else number}"
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "coterie", "-C", str(project / "work"), *words, "--json"],
            env={**os.environ, "COTERIE_HOME": user, "HOME": user},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def _answer(project: Path) -> None:
    """Give more, from another terminal, if a question asks for it."""
    for identity, _ in rows(project, "SELECT id, state FROM questions WHERE state = 'open'"):
        _coterie(project, None, "answer", identity, f"+{_GIVEN}").wait()


# -- what is recorded, read without Coterie ------------------------------------------------------


def _task(project: Path, number: int) -> str | None:
    found = rows(project, f"SELECT id, title FROM tasks WHERE title = '{number} turn 0'")
    return found[0][0] if found else None


def _messages(project: Path, task: str) -> list[str]:
    found = rows(project, f"SELECT text, seq FROM messages WHERE task_id = '{task}' ORDER BY seq")
    return [text for text, _ in found]


def _day(project: Path) -> tuple[int, float, int]:
    """Return how many turns were taken and are allowed, and how many questions are open."""
    found = rows(
        project,
        "SELECT 'turn', step FROM turns WHERE outcome IN ('completed', 'interrupted')",
        "SELECT 'open', id FROM questions WHERE state = 'open'",
        "SELECT type, data FROM events WHERE type = 'UserInteractionResponded'",
    )
    kinds = [kind for kind, _ in found]
    answers = (json.loads(data) for kind, data in found if kind == "UserInteractionResponded")
    given = (
        parse_increase(str(one["response"].get("inputValue") or "stop")) or 0 for one in answers
    )
    return kinds.count("turn"), _LIMIT + sum(given), kinds.count("open")


def _budget_questions(project: Path) -> Iterator[dict[str, object]]:
    asked = "SELECT data, task_id FROM events WHERE type = 'UserInteractionRequested'"
    for data, _ in rows(project, asked):
        yield json.loads(data)["interaction"]["about"]
