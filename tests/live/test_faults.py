"""A member whose model or CLI fails: it says what happened and what to do; the others go on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from coterie.app import App
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
    asked: int = 0

    async def answer(self, asked: Asked) -> Answer:
        if FAULTY in asked.instructions:
            self.asked += 1
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


@dataclass(frozen=True)
class Told:
    """What came of it."""

    errors: list[ErrorRecord]
    asked: int


def register(house: House, commands: Mapping[str, str]) -> None:
    registry = house.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    entries = {name: {"command": command} for name, command in commands.items()}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))


def member(name: str, agent: str, **more: Any) -> Member:
    return Member(id=name, name=name, display_name=name.capitalize(), agent=agent, **more)


async def goes_on(house: House, cli: str, command: str, fault: Answer, timeout: float) -> Told:
    """Ann fails in every way she is tried; Bob, on another CLI, has his turn all the same."""
    other = "claude" if cli == "codex" else "codex"
    for name in (cli, other):
        if not (BINS / name).exists():
            pytest.skip(f"{name} is not installed: scripts/real-clis")
    register(house, {cli: command or str(BINS / cli), other: str(BINS / other)})
    ann = member(
        "ann", cli, order=1, system_instruction=FAULTY, timeout_ms=round(timeout * 1000)
    )
    bob = member("bob", other, order=2)
    team = Team(name="pair", members=(ann, bob))
    brain, watching = Failing(fault), Watching()
    with anyio.fail_after(SLOWEST):
        async with (
            RehearsalServer(brain) as server,
            App.open(house.project, None, server.url) as app,
            anyio.create_task_group() as group,
        ):
            task = await app.start(team, "Hello?", Caps(max_turns=2), rehearsal=True)

            async def skip() -> None:
                await watching.question.wait()
                [asked] = await app.questions()
                options = [option.id for option in asked.interaction.options]
                assert options == ["retry", "skip", "replace-bob", "stop"]
                await app.answer(
                    asked.interaction.interaction_id, choice="skip", text=None, author="you"
                )

            group.start_soon(skip)
            result: ResultRecord = await app.run(task, watching, patience=None)
    assert result.status == "completed"
    opened = [one for one in watching.of(InteractionRecord) if one.state == "open"]
    assert [one.member for one in opened] == ["ann"]
    said = [(one.member, one.text) for one in watching.of(MessageRecord)]
    assert said == [("bob", "I go on.")]
    errors: list[ErrorRecord] = watching.of(ErrorRecord)
    assert {one.member for one in errors} == {"ann"}
    description = opened[0].interaction.display.description
    assert description in errors[-1].message
    return Told(errors, brain.asked)


FAULTS: dict[str, tuple[Answer, float]] = {
    "429": (Refusal(429, "Slow down.", retry_after=0.1), 20),
    "500": (Refusal(500, "Boom."), 20),
    "silence": (Silence(), 1),
    "stall": (Reply(in_pieces("one two three four five six"), breaks="stall"), 1),
    "cut": (Reply(in_pieces("one two three four five six"), breaks="cut"), 20),
    "401": (Refusal(401, "Bad key."), 20),
    "404": (Refusal(404, "The model x does not exist."), 20),
}


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
@pytest.mark.parametrize("fault", list(FAULTS))
async def test_a_model_that_fails(house: House, cli: str, fault: str) -> None:
    began = time.monotonic()
    told = await goes_on(house, cli, "", *FAULTS[fault])
    print(f"\n## {cli} {fault}: {time.monotonic() - began:.1f} s, {told.asked} requests")
    for error in told.errors:
        print("   ", error.code, "|", error.message, "|", error.hint)
