"""A member whose account is used up: its task parks until the time that the real CLI reports."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.model import instant
from coterie.model.record import MemberRecord, MessageRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.model_api import Answer, CompletionRequest, ErrorReply, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 60
HOUR = 3600
ONE_TURN = Caps(max_turns=1, max_rounds=None)


@dataclass
class LimitedModel:
    """A model that gives these answers in order."""

    answers: list[Answer]

    async def answer(self, request: CompletionRequest) -> Answer:
        return self.answers.pop(0)


@dataclass
class WatchingObserver:
    """Keeps all records."""

    records: list[Record] = field(default_factory=list[Record])

    def saw(self, record: Record) -> None:
        self.records.append(record)

    @property
    def waits(self) -> list[MemberRecord]:
        """What members waited for."""
        told = (record for record in self.records if isinstance(record, MemberRecord))
        return [record for record in told if record.state == "waiting"]

    @property
    def replies(self) -> list[str]:
        return [record.text for record in self.records if isinstance(record, MessageRecord)]


def plain(user: IsolatedUser, cli: str) -> Path:
    return BINS / cli


def subscribed(user: IsolatedUser, cli: str) -> Path:
    """Claude with a subscription, whose limits have an end; those of an API key have none."""
    program = user.home / cli
    token = "CLAUDE_CODE_OAUTH_TOKEN=rehearsal"
    program.write_text(f'#!/bin/sh\nexec env -u ANTHROPIC_API_KEY {token} {BINS / cli} "$@"\n')
    program.chmod(0o700)
    return program


def team_of(user: IsolatedUser, cli: str, program: Path) -> Team:
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = {"schemaVersion": "1.2", "agents": {cli: {"command": str(program)}}}
    registry.write_text(json.dumps(agents))
    ann = Member(id="ann", name="ann", display_name="Ann", agent=cli)
    return Team(name="solo", members=(ann,))


@asynccontextmanager
async def opened(user: IsolatedUser, server: RehearsalServer) -> AsyncGenerator[App]:
    with anyio.fail_after(SLOWEST):
        async with App.open(user.project, None, server.url) as app:
            yield app


@pytest.mark.parametrize(
    ("cli", "program"), [("claude", subscribed), ("codex", plain), ("gemini", plain)]
)
async def test_the_task_parks_until_the_limit_ends(
    user: IsolatedUser, cli: str, program: Callable[[IsolatedUser, str], Path]
) -> None:
    team = team_of(user, cli, program(user, cli))
    model = LimitedModel([ErrorReply(429, "No more.", resets_in=HOUR)])
    watching = WatchingObserver()
    async with RehearsalServer(model) as server, opened(user, server) as app:
        task = await app.create(StartRequest(team, "Hello?", ONE_TURN, rehearsal=True))
        result = await app.run(task, watching, wait=0)
        assert await app.questions() == []
    assert (result.status, result.reason) == ("waiting", "rate_limit")
    assert len(server.turns) == 1, "it was asked again before the end of the limit"
    [wait] = watching.waits
    assert wait.waits_for == "limit"
    assert 58 * 60 < instant.seconds_until(wait.until or "") <= HOUR


async def test_the_task_goes_on_by_itself_when_the_limit_ends(user: IsolatedUser) -> None:
    team = team_of(user, "codex", BINS / "codex")
    model = LimitedModel([ErrorReply(429, "No more.", resets_in=5), reply("Here I am.")])
    watching = WatchingObserver()
    async with RehearsalServer(model) as server, opened(user, server) as app:
        task = await app.create(StartRequest(team, "Hello?", ONE_TURN, rehearsal=True))
        result = await app.run(task, watching, wait=0, at_reset=True)
    assert result.status == "completed"
    assert watching.replies == ["Here I am."]
    assert len(watching.waits) == 1
