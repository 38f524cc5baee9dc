"""Sessions with tickets and budgets that are killed while other terminals work on the same task.

What others do at the same time must not change the outcome: they look (`attach`, `ps`, `show`),
answer, take the session over (`resume`), park it (`stop`) and remove what ended tasks left
(`clean`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.chats import Process
from bench.chaos.stores import rows
from bench.chaos.ticket_agent import WORKERS
from bench.chaos.tickets import (
    MANAGER,
    TicketChaos,
    answered,
    command,
    environment,
    is_over,
)

BUDGET = {"perTicket": {"turns": 4}, "perDay": {"turns": 30}}
"""Some tickets need more, and so does the day."""
_TEAM = "crew"
_ALONGSIDE: Mapping[str, Sequence[str]] = {
    "attach": ("attach", "last"),
    "clean": ("clean", "--yes"),
    "ps": ("ps",),
    "resume": ("resume", "last"),
    "show": ("show", "last"),
    "stop": ("stop", "last"),
    "answer": ("answer",),
}
_CODES = (0, 2, 3, 130)
"""Exit codes that other commands may have: done, refused with a reason, waiting for the user,
interrupted."""
_LINGERS = 60.0
"""Seconds that a command which has taken the session over may need to finish it."""
_MOST = 100
"""How often a session is started at most."""


@dataclass
class TerminalChaos(TicketChaos):
    """Sessions that several terminals work on at once."""

    team: str = f"-t {_TEAM}"
    _starts: int = 0
    _others: list[tuple[str, Path, subprocess.Popen[bytes]]] = field(
        default_factory=list[tuple[str, Path, subprocess.Popen[bytes]]]
    )

    def _project(self, name: str) -> Path:
        project = super()._project(name)
        team = project / "work" / ".coterie" / "teams" / _TEAM
        team.mkdir(parents=True)
        members = [{"id": one, "agent": one} for one in (MANAGER, *WORKERS)]
        (team / "team.json").write_text(json.dumps({"budget": BUDGET, "members": members}))
        return project

    def wait(self, process: Process, project: Path) -> None:
        """Wait until it is to be killed; meanwhile start other commands; some outlive the kill."""
        super().wait(process, project)
        if process.poll() is None:
            self._run_alongside(project, self._random.choice(list(_ALONGSIDE)))
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._random.uniform(0.0, 0.6))

    def goes_on(self, project: Path, code: int) -> bool:
        """Whether it ended in an acceptable way, as others may answer, park it or take it over."""
        self._starts += 1
        answered(project)
        if code in _CODES and self._starts < _MOST:
            return True
        output = (project / "output").read_text(errors="replace")[-1000:]
        self.tally.wrong.append(f"{project.name}: it ended with {code}: {output}")
        return False

    def _run_to_completion(self, project: Path, kills: int) -> None:
        self._starts = 0
        super()._run_to_completion(project, kills)
        self._settle()
        if not is_over(project):  # whoever had taken it over has ended
            super()._run_to_completion(project, 0)
        for problem in _budget_faults(project):
            self.tally.wrong.append(f"{project.name}: {problem}")

    def _run_alongside(self, project: Path, name: str) -> None:
        if name == "answer":
            answered(project)
        else:
            number = sum(self.tally.alongside.values())
            path = project / f"{name}{number}"
            with path.open("wb") as output:
                words, env = command(project, *_ALONGSIDE[name]), environment(project)
                other = subprocess.Popen(
                    words, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            self._others.append((name, path, other))
        self.tally.alongside[name] = self.tally.alongside.get(name, 0) + 1

    def _settle(self) -> None:
        """Wait for all other commands, and check that none failed because of a bug in Coterie."""
        others, self._others = self._others, []
        for name, path, process in others:
            try:
                code = process.wait(_LINGERS)
            except subprocess.TimeoutExpired:
                process.terminate()
                code = process.wait()
                self.tally.wrong.append(f"{path}: it did not end")
            output = path.read_text(errors="replace")
            if code not in _CODES or "Traceback" in output or "a bug in Coterie" in output:
                self.tally.wrong.append(f"{name} ended with {code}: {output[-1000:]}")


def _budget_faults(project: Path) -> Iterator[str]:
    """Yield what is wrong with the questions about budgets: a limit in turns must never be
    exceeded, and must not be asked about twice at once."""
    asked: dict[str, tuple[str, str, str]] = {}
    for kind, data in rows(project, "SELECT type, data FROM events ORDER BY sequence"):
        event = json.loads(data)
        if kind == "UserInteractionResponded":
            asked.pop(event["response"]["interactionId"], None)
        elif kind == "UserInteractionRequested":
            about = event["interaction"]["about"]
            if about["kind"] != "budget":
                continue
            limit = (about["scope"], about["measure"], about["member"])
            if limit in asked.values():
                yield f"asked twice at once: {limit}"
            asked[event["interaction"]["interactionId"]] = limit
            if about["used"] > about["limit"]:
                yield f"passed: {about}"
