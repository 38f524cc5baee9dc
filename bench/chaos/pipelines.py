"""Killing pipelines at random instants from plan to commit; each must end like one left alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos import pipeline_agent
from bench.chaos.chats import Popen, Process, is_locked
from bench.chaos.stores import Stores, has_begun
from bench.chaos.ticket_outcome import git
from coterie.config.project import Project, make_project

MEMBERS = ("ada", "rex")
_AGENT = Path(pipeline_agent.__file__)
_ROOT = _AGENT.parents[2]
_TIMEOUT = 120.0
_MESSAGE = "Add coupons"


@dataclass
class PipelineTally:
    """The results of a series of killed pipelines."""

    kills: int = 0
    pipelines: int = 0
    executions: int = 0
    needed: int = 0
    """Executions that are needed without any kill."""
    overlaps: int = 0
    survivors: int = 0
    wrong: list[str] = field(default_factory=list[str])

    @property
    def repeated(self) -> int:
        """Executions that a kill interrupted, or whose end was not recorded."""
        return self.executions - self.needed

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, duplicated or left running."""
        few = 0 <= self.repeated <= self.kills * len(MEMBERS)
        return few and not (self.wrong or self.overlaps or self.survivors)


@dataclass
class PipelineChaos:
    """Pipelines in projects of their own, killed at random until each has its commit."""

    folder: Path
    milliseconds: float = 20
    keeper: str = "auto"
    seed: int = 1
    kills_each: int = 10
    """After this many kills a pipeline is left alone."""
    span: float = 3.0
    """A kill comes within this many seconds, so that a pipeline lives through several."""
    stores: Stores = field(default_factory=Stores)
    popen: Popen = subprocess.Popen
    tally: PipelineTally = field(default_factory=PipelineTally)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def run(
        self, kills: int, progress: Callable[[PipelineTally], None] = lambda _: None
    ) -> PipelineTally:
        """Run a pipeline undisturbed, then others until this many kills have happened."""
        alone = self._project("alone")
        self._run_to_completion(alone, 0)
        expected, needed = outcome(alone), executions(alone).count("begin")
        self.tally.wrong += _broken(alone)
        while not self.tally.wrong and self.tally.kills < kills:
            project = self._project(f"pipeline{self.tally.pipelines}")
            self._run_to_completion(project, min(self.kills_each, kills - self.tally.kills))
            self._count(project, expected, needed)
            progress(self.tally)
        return self.tally

    def _project(self, name: str) -> Path:
        project = self.folder / name
        _create_project(project, self.milliseconds)
        self.stores.settle(project, self.keeper)
        return project

    def _run_to_completion(self, project: Path, kills: int) -> None:
        """Start and kill this often; then start and leave alone."""
        for _ in range(kills):
            process = _start(project, self.popen)
            try:
                process.wait(self._random.uniform(0.3, self.span))
                return
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.tally.kills += 1
        with suppress(subprocess.TimeoutExpired):
            _start(project, self.popen).wait(_TIMEOUT)

    def _count(self, project: Path, expected: object, needed: int) -> None:
        tally, words = self.tally, executions(project)
        tally.pipelines += 1
        tally.needed += needed
        tally.executions += words.count("begin")
        tally.overlaps += words.count("overlap")
        tally.survivors += sum(is_locked(lock) for lock in project.glob("lock.*"))
        tally.wrong += _broken(project)
        found = outcome(project)
        if found != expected:
            tally.wrong.append(f"{project.name}: {found} is not {expected}")


def outcome(project: Path) -> dict[str, object]:
    """Return what must not depend on when a pipeline was killed."""
    work = project / "work"
    folders = list((work / ".coterie" / "sessions").iterdir())
    state = json.loads((folders[0] / "state.json").read_text())
    lines = (folders[0] / "artifacts" / "trajectory.jsonl").read_text().splitlines()
    task = folders[0].name
    names = sorted(
        str(one.relative_to(folders[0])).replace(task, "TASK")
        for one in folders[0].rglob("*")
        if one.is_file() and "checks" not in one.parts
    )
    return {
        "phase": (state["phase"], state["meta"]["status"]),
        "rounds": {name: actor["round"] for name, actor in state["actors"].items()},
        "actions": [(one["action"], one["outcome"]) for one in map(json.loads, lines)],
        "artifacts": names,
    }


def _broken(project: Path) -> Iterator[str]:
    """Yield what is wrong with the user's own repository in the end."""
    work = project / "work"
    output = (project / "output").read_text(errors="replace")[-800:]
    if git(work, "log", "--format=%s").splitlines() != [_MESSAGE, "begin"]:
        yield f"{project.name}: not one commit: {output}"
        return
    if git(work, "diff", "--name-only", "HEAD~1", "HEAD").split() != [
        "cart.py",
        "tests/test_cart.py",
    ]:
        yield f"{project.name}: other files than planned"
    if git(work, "show", "HEAD:cart.py") != "total = 0\nmended\n":
        yield f"{project.name}: cart.py is {git(work, 'show', 'HEAD:cart.py')!r}"
    if git(work, "status", "--porcelain").split() != ["M", "notes.txt", "??", "new.txt"]:
        yield f"{project.name}: the user's own changes: {git(work, 'status', '--porcelain')}"
    if (work / "notes.txt").read_text() != "changed by the user\n":
        yield f"{project.name}: the user's own file was changed"


def executions(project: Path) -> list[str]:
    """Return what the agents recorded: `begin`, `end`, `overlap`."""
    lines = (project / "executions").read_text().split()[::2]
    return [line.partition(":")[0] for line in lines]


def _create_project(project: Path, milliseconds: float) -> None:
    registry, work = project / "user" / "agents", project / "work"
    registry.mkdir(parents=True)
    agents = {
        member: {
            "command": sys.executable,
            "baseArgs": ["-S", str(_AGENT), str(project), member, str(milliseconds)],
            "env": {"PYTHONPATH": str(_ROOT)},
            "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        }
        for member in MEMBERS
    }
    config = {"schemaVersion": "1.2", "agents": agents}
    (registry / "config.json").write_text(json.dumps(config))
    work.mkdir(parents=True)
    make_project(Project(work, project / "user"))
    (work / ".coterie" / "eval.conf").write_text("unit = grep -q mended cart.py\n")
    (work / ".gitignore").write_text(".coterie\n")
    (work / "cart.py").write_text("total = 0\n")
    (work / "notes.txt").write_text("kept\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "You")
    git(work, "config", "user.email", "you@example.com")
    git(work, "add", ".")
    git(work, "commit", "-qm", "begin")
    # The user's own uncommitted changes: nobody else may commit them or remove them.
    (work / "notes.txt").write_text("changed by the user\n")
    (work / "new.txt").write_text("not added yet\n")


def _start(project: Path, popen: Popen) -> Process:
    team = ",".join(f"{member}={member}" for member in MEMBERS)
    begin = ["build", "--agents", team, "--yes", "--accept", _MESSAGE, "Add coupons"]
    words = ["resume", "last"] if has_begun(project) else begin
    user = str(project / "user")
    with (project / "output").open("wb") as output:
        return popen(
            [sys.executable, "-m", "coterie", "-C", str(project / "work"), *words],
            env={**os.environ, "COTERIE_HOME": user, "HOME": user},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
