"""A member whose model or CLI fails: it says what happened and what to do; the others go on."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from coterie.app import App
from coterie.engine.turns import TRIES
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MessageRecord,
    Record,
    ResultRecord,
)
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.dialogue import Answer, Asked, Refusal, Reply, Silence, in_pieces, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import House

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 60
FAULTY = "Your word is OKAPI."


@dataclass
class Failing:
    """A model that has one answer for the member that is to fail, and a word for the others."""

    fault: Answer

    async def answer(self, asked: Asked) -> Answer:
        if FAULTY in asked.instructions:
            return self.fault
        return reply("I go on.")


@dataclass
class Watching:
    """Keeps what it is told, and wakes who waits for a question."""

    records: list[Record] = field(default_factory=list[Record])
    question: anyio.Event = field(default_factory=anyio.Event)

    def saw(self, record: Record) -> None:
        self.records.append(record)
        if isinstance(record, InteractionRecord):
            self.question.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


Entry = dict[str, Any]


def register(house: House, entries: Mapping[str, Entry]) -> None:
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))


def member(name: str, agent: str, **more: Any) -> Member:
    return Member(id=name, name=name, display_name=name.capitalize(), agent=agent, **more)


async def goes_on(
    house: House, cli: str, entry: Entry, fault: Answer, seconds: float
) -> list[ErrorRecord]:
    """Ann fails in every way she is tried; Bob, on another CLI, has his turn all the same."""
    other = "claude" if cli == "codex" else "codex"
    for name in (cli, other):
        if not (BINS / name).exists():
            pytest.skip(f"{name} is not installed: scripts/real-clis")
    register(house, {cli: entry, other: {"command": str(BINS / other)}})
    ann = member("ann", cli, order=1, system_instruction=FAULTY, timeout_ms=round(seconds * 1000))
    bob = member("bob", other, order=2)
    team = Team(name="pair", members=(ann, bob))
    async with (
        RehearsalServer(Failing(fault)) as server,
        App.open(house.project, None, server.url) as app,
    ):
        return await skipped(app, team, rehearsal=True)


async def skipped(app: App, team: Team, *, rehearsal: bool) -> list[ErrorRecord]:
    """A task of two turns: Ann cannot speak and is skipped, Bob has his turn."""
    watching = Watching()
    results: list[ResultRecord] = []
    with anyio.fail_after(SLOWEST):
        async with anyio.create_task_group() as group:
            task = await app.start(team, "Hello?", Caps(max_turns=2), rehearsal=rehearsal)

            async def skip() -> None:
                await watching.question.wait()
                [asked] = await app.questions()
                options = [option.id for option in asked.interaction.options]
                assert options == ["retry", "skip", "replace-bob", "stop"]
                await app.answer(
                    asked.interaction.interaction_id, choice="skip", text=None, author="you"
                )

            group.start_soon(skip)
            results.append(await app.run(task, watching, patience=None))
    assert [result.status for result in results] == ["completed"]
    opened = [one for one in watching.of(InteractionRecord) if one.state == "open"]
    assert [one.member for one in opened] == ["ann"]
    said = [(one.member, one.text) for one in watching.of(MessageRecord)]
    assert said == [("bob", "I go on.")]
    errors: list[ErrorRecord] = watching.of(ErrorRecord)
    assert {one.member for one in errors} == {"ann"}
    failed, _, hint = opened[0].interaction.display.description.rpartition("\n")
    assert errors[-1].message.endswith(failed)
    assert errors[-1].hint == hint
    return errors


# -- its model ---------------------------------------------------------------------------------

HALF = in_pieces("one two three four five six")
LONG = 20
WAIT = "Wait, then try again."


@dataclass(frozen=True)
class Case:
    """A fault of one CLI's model, and what is to be told of it."""

    cli: str
    name: str
    fault: Answer
    kind: str
    words: str
    hint: str
    tries: int = 1
    seconds: float = LONG
    """Seconds that a turn may take; all but those that hang end long before."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    most: int = TRIES
    """So often it may be tried, where three times would only be slow."""


LIMIT, BOOM = Refusal(429, "Slow down.", retry_after=0.1), Refusal(500, "Boom.")
QUOTA = Refusal(429, "Quota exceeded for this day.", quota=True)
CUT, STALL = Reply(HALF, breaks="cut"), Reply(HALF, breaks="stall")
KEY, MODEL = Refusal(401, "Bad key."), Refusal(404, "The model x does not exist.")
ONCE = {"CLAUDE_CODE_MAX_RETRIES": "1"}
STUCK = "no end within 1 s: stuck"
TIME = "Try again, or give the member more time in the team file: timeoutMs."
OTHER_MODEL = "another model"

CASES = [
    Case("claude", "429", LIMIT, "rate_limit", "rate limit is reached (429)", WAIT, 3, env=ONCE),
    Case("codex", "429", LIMIT, "rate_limit", "rate limit is reached", WAIT, 3),
    Case("gemini", "429", LIMIT, "rate_limit", "rate limit is reached", WAIT, 1, most=1),
    Case("gemini", "quota", QUOTA, "rate_limit", "nothing is left of the model's quota", "Wait"),
    Case("claude", "500", BOOM, "model", "the model service is failing (500)", WAIT, 3, env=ONCE),
    Case("codex", "500", BOOM, "model", "the model service is failing", WAIT, 3),
    Case("gemini", "500", BOOM, "model", "the model service is failing", WAIT, 1, most=1),
    Case("claude", "silent", Silence(), "timeout", STUCK, TIME, 3, 1),
    Case("codex", "silent", Silence(), "timeout", STUCK, TIME, 1, 1, most=1),
    Case("gemini", "silent", Silence(), "timeout", STUCK, TIME, 1, 1, most=1),
    Case("claude", "stalled", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case("codex", "stalled", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case("gemini", "stalled", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case("claude", "slow", LIMIT, "timeout", "it waited for model: 429, retry", TIME, 1, 4, most=1),
    Case("codex", "cut", CUT, "model", "the connection to the model was cut", "the network", 3),
    Case("gemini", "cut", CUT, "model", "the connection to the model was cut", "Try again.", 3),
    Case("claude", "cut", CUT, "model", "cannot be reached", "then try again.", 3, env=ONCE),
    Case("claude", "401", KEY, "signed_out", "is refused (401)", "claude auth login"),
    Case("codex", "401", KEY, "signed_out", "is refused", "codex login, or mend CODEX_API_KEY"),
    Case("gemini", "401", KEY, "signed_out", "is refused", "set GEMINI_API_KEY"),
    Case("claude", "404", MODEL, "model", "the model is not known", OTHER_MODEL),
    Case("codex", "404", MODEL, "model", "the model is not known", OTHER_MODEL),
    Case("gemini", "404", MODEL, "model", "the model is not known", OTHER_MODEL),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cli}-{case.name}")
async def test_a_model_that_fails(
    house: House, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.engine.turns.TRIES", case.most)
    entry = {"command": str(BINS / case.cli), "env": dict(case.env)}
    errors = await goes_on(house, case.cli, entry, case.fault, case.seconds)
    assert len(errors) == case.tries
    for error in errors:
        assert error.code == f"turn_{case.kind}"
        assert case.words in error.message
        assert error.hint
        assert case.hint in error.hint


# -- its login ---------------------------------------------------------------------------------

AT_ONCE = 10
"""Seconds: without a network, to which nothing is sent, Codex would try for half a minute."""


@pytest.mark.parametrize(
    ("cli", "hint"),
    [
        ("claude", "In another terminal: claude auth login (it serves every claude member)."),
        ("codex", "In another terminal: codex login (it serves every codex member)."),
        ("gemini", "Start gemini in a terminal and sign in, or set GEMINI_API_KEY."),
    ],
    ids=["claude", "codex", "gemini"],
)
async def test_nobody_signed_in(
    house: House, monkeypatch: pytest.MonkeyPatch, cli: str, hint: str
) -> None:
    """No rehearsal: the real CLI in an empty home, beside a member that needs no login."""
    if not (BINS / cli).exists():
        pytest.skip(f"{cli} is not installed: scripts/real-clis")
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_AUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    scripted = """cat > /dev/null; echo '{"type": "result", "result": "I go on."}'"""
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    other = {"command": "/bin/sh", "baseArgs": ["-c", scripted], "capabilities": ends}
    register(house, {cli: {"command": str(BINS / cli)}, "scripted": other})
    members = (member("ann", cli, order=1), member("bob", "scripted", order=2))
    team = Team(name="pair", members=members)
    async with App.open(house.project) as app:
        with anyio.fail_after(AT_ONCE):
            [error] = await skipped(app, team, rehearsal=False)
    assert error.code == "turn_signed_out"
    assert error.message.startswith(f"ann failed turn 1 (try 1): {cli} is not signed in")
    assert error.hint is not None
    assert error.hint.startswith(hint)


# -- its program -------------------------------------------------------------------------------


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
async def test_a_program_that_is_missing(house: House, cli: str) -> None:
    entry = {"command": str(house.home / "nowhere" / cli)}
    [error] = await goes_on(house, cli, entry, Silence(), LONG)
    assert error.code == "turn_missing"
    assert f"ann cannot start: {entry['command']}: " in error.message
    assert error.hint == "coterie doctor"
    assert error.where == str(house.project / ".coterie" / "teams" / "pair" / "ann")


OLD = {
    "claude": "error: unknown option '--input-format=stream-json'",
    "codex": "error: unrecognized option 'app-server'",
    "gemini": "Invalid values: argument acp",
}


@pytest.mark.parametrize("cli", list(OLD))
async def test_a_program_of_an_old_version(house: House, cli: str) -> None:
    """It knows nothing of what we say to it, whatever we say."""
    program = house.home / f"old-{cli}"
    program.write_text(
        '#!/bin/sh\ncase "$*" in --version) echo 0.0.1; exit 0;; esac\n'
        f"echo {shlex.quote(OLD[cli])} >&2\nexit 1\n"
    )
    program.chmod(0o755)
    [error] = await goes_on(house, cli, {"command": str(program)}, Silence(), LONG)
    assert error.code == "turn_missing"
    assert OLD[cli] in error.message
    assert error.hint == "coterie doctor"
