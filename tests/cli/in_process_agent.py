"""An agent from another package whose turns are functions of the test: `coterie` runs in this
process, with no child process for a turn.

Its replies are those of a `Say` of tests/flow/ticket_harness.py, or the updates of a turn.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest

import coterie
from tests.cli.command import CommandResult, InProcessCli
from tests.cli.ticket_project import MEMBERS, git
from tests.conftest import IsolatedUser, init_project
from tests.flow.ticket_harness import Say, block, obedient

POINTS = f"[coterie.agents]\ninprocess = {__name__}:InProcessAdapter\n"
METADATA = "Metadata-Version: 2.1\nName: inprocess\nVersion: 1.0\n"


class CurrentScript:
    """What the agents of this process currently reply."""

    say: Say = staticmethod(obedient)


@dataclass
class _Channel:
    member: coterie.Member
    thread: str | None = None
    holds_past: bool = False
    pid: None = None
    alive: bool = True

    def __post_init__(self) -> None:
        self.broken_off = anyio.Event()

    async def take_turn(self, prompt: coterie.Prompt) -> AsyncGenerator[coterie.Update]:
        said = await anyio.to_thread.run_sync(
            CurrentScript.say, self.member, prompt.text, abandon_on_cancel=True
        )
        if said is None:
            await anyio.sleep_forever()  # the turn hangs
        updates = (
            cast("Sequence[coterie.Update]", said) if isinstance(said, list) else [_ended(said)]
        )
        for update in updates:
            yield update
        if not isinstance(updates[-1], coterie.TurnCompleted | coterie.TurnFailed):
            await self.broken_off.wait()
            self.broken_off = anyio.Event()
            text = "".join(one.text for one in updates if isinstance(one, coterie.TextDelta))
            yield coterie.TurnInterrupted(text)

    async def answer(self, key: str, response: coterie.Response) -> None: ...

    async def interrupt(self) -> None:
        self.broken_off.set()

    async def close(self) -> None:
        self.alive = False


def _ended(said: object) -> coterie.Update:
    if isinstance(said, coterie.TurnFailed):
        return said
    return coterie.TurnCompleted(said if isinstance(said, str) else block(said))


class InProcessAdapter:
    """The adapter of these agents."""

    def __init__(self, *registered: object) -> None: ...

    def limits(self, member: coterie.Member) -> coterie.Limits:
        """Leave out the member's own time limit, which applies whatever an adapter says."""
        return coterie.Limits(60.0, (member.quiet_after_ms or 30_000) / 1000)

    async def open(
        self, member: coterie.Member, workspace: coterie.Workspace, thread: str | None
    ) -> _Channel:
        place = {"execution_dir": str(workspace.execution_dir)}
        return _Channel(member.model_copy(update=place))


def install_adapter(user: IsolatedUser, patch: pytest.MonkeyPatch) -> None:
    """Install the package and register it as three agents."""
    info = user.home / "site" / "inprocess-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(POINTS)
    patch.syspath_prepend(str(info.parent))
    agent = {"command": sys.executable, "adapter": "inprocess", "capabilities": {}}
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = dict.fromkeys(MEMBERS.values(), agent)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))


@dataclass
class Session:
    """A project with a manager and two workers, and the session that was last run in it."""

    cli: InProcessCli
    patch: pytest.MonkeyPatch

    @property
    def root(self) -> Path:
        return self.cli.user.project

    def __call__(self, *words: str) -> CommandResult:
        return self.cli(*words)

    def set_up(self, *, in_git: bool = True, **limits: Any) -> Session:
        (self.root / "cart.py").write_text("total = 0\n")
        if in_git:
            git(self.root, "init", "-q", "-b", "main")
            git(self.root, "add", "cart.py")
            git(self.root, "commit", "-qm", "begin")
        self.team()
        config = {"concurrency": 1, **limits}
        (self.root / ".coterie" / "scheduler_config.json").write_text(json.dumps(config))
        return self

    def team(self, **more: Any) -> None:
        """Write the team, with the settings in `more` for single members."""
        folder = init_project(self.root) / "teams" / "crew"
        folder.mkdir(parents=True, exist_ok=True)
        members = [
            {"id": name, "agent": agent, **more.get(name, {})} for name, agent in MEMBERS.items()
        ]
        (folder / "team.json").write_text(json.dumps({"members": members}))

    def run(self, say: Say, *words: str) -> CommandResult:
        """Run a goal with automatic approval, or the given command."""
        self.patch.setattr(CurrentScript, "say", staticmethod(say))
        return self.cli(*(words or ("run", "--yes", "Add coupons")), "--json")

    @property
    def task(self) -> str:
        return str(self.cli("tasks", "--json").of("task")[-1]["id"])

    def answer(self, choice: str, *more: str) -> str:
        """Answer the only open question and return its title."""
        (asked,) = self.cli("inbox", "--json").of("interaction")
        assert self.cli("answer", str(asked["id"]), choice, *more).code == 0
        return str(asked["title"])

    @property
    def logs(self) -> Path:
        return self.root / ".coterie" / "logs" / self.task

    def envelopes(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The envelopes, as stored in their files."""
        found = [json.loads(path.read_text()) for path in sorted(self.logs.glob("*.json"))]
        return [one for one in found if kind in (None, one["payload_type"])]

    @property
    def errors(self) -> list[str]:
        return [one["payload"]["code"] for one in self.envelopes("error")]

    @property
    def tickets(self) -> dict[str, dict[str, Any]]:
        """The current state of every ticket, by id."""
        return {
            str(one["payload"]["ticket_id"]): one["payload"] for one in self.envelopes("ticket")
        }

    def moves(self, ticket: str) -> list[str]:
        return [line["event"] for line in self.tickets[ticket]["history"]]


LEGAL_MOVES = {
    "pending": {"discussing", "in_progress"},
    "discussing": {"in_progress"},
    "in_progress": {"blocked", "awaiting_review"},
    "blocked": {"in_progress", "error"},
    "awaiting_review": {"in_progress", "done"},
    "done": set[str](),
    "error": {"pending"},
}
"""All state changes that the design allows."""


def has_only_legal_moves(session: Session) -> bool:
    """Whether each ticket of the last session moved only as the design allows."""
    if not session("tasks", "--json").of("task"):
        return True
    for ticket in session.tickets:
        states = ["pending", *(one for one in session.moves(ticket) if one in LEGAL_MOVES)]
        if any(after not in LEGAL_MOVES[before] for before, after in itertools.pairwise(states)):
            return False
    return True


def in_turn(*said: object) -> Say:
    """Give each answer once, then repeat the last one."""
    left = [*said]
    return lambda member, text: left.pop(0) if len(left) > 1 else left[0]
