"""A Codex manager and Claude workers: one goal, ten kinds of messages, all of them on disk."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.streams.memory import MemoryObjectSendStream
from jsonschema import Draft202012Validator

from coterie.agents.table import KNOWN_AGENTS
from coterie.app.demo import DemoProject, check_demo, tickets_demo
from coterie.app.project import App
from coterie.config.registry_edit import by_hand
from coterie.config.schemas import FOLDER
from coterie.model import instant
from coterie.model.envelope import PAYLOADS
from coterie.model.record import InteractionRecord, Record, ResultRecord
from coterie.rehearsal.demo_shop import DemoShop
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
AGENTS = ("codex", "claude")
SLOWEST = 120
QUESTION = "May a coupon be used twice?"

Envelope = dict[str, Any]


class Diagram(DemoShop):
    """The manager asks first, and its first plan is invalid."""

    async def answer(self, request: CompletionRequest) -> Answer:
        if "Is anything unclear" in request.newest and QUESTION not in request.newest:
            question = {"status": "open", "questions": [QUESTION], "intent_summary": "Coupons."}
            return reply(json.dumps(question))
        if request.newest.startswith("You are the manager") and "Split the goal" in request.newest:
            return reply("I would begin with the coupons.")
        return await super().answer(request)


@dataclass(frozen=True)
class AskingObserver:
    """Passes on every question."""

    questions: MemoryObjectSendStream[str]

    def saw(self, record: Record) -> None:
        if isinstance(record, InteractionRecord) and record.state == "open":
            self.questions.send_nowait(record.interaction.interaction_id)


@pytest.fixture
def demo(user: IsolatedUser, tmp_path: Path) -> DemoProject:
    missing = [name for name in AGENTS if not (BINS / name).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: scripts/real-clis")
    known = [by_hand(KNOWN_AGENTS, name, [str(BINS / name)], instant.now(), {}) for name in AGENTS]
    return tickets_demo(tmp_path / "demo", AGENTS, known)


async def answered_run(app: App, task_id: str) -> tuple[ResultRecord, list[str]]:
    """Run a task, giving every question the same answer; also return the questions."""
    send, questions = anyio.create_memory_object_stream[str](10)
    answered: list[str] = []

    async def answer() -> None:
        async for question in questions:
            await app.answer(question, choice=None, text="No, once.", author="you")
            answered.append(question)

    async with questions, anyio.create_task_group() as group:
        group.start_soon(answer)
        with send:
            return await app.run(task_id, AskingObserver(send), wait=None), answered
    raise AssertionError("the run has an end")


def read(folder: Path) -> list[Envelope]:
    """The envelopes in order of their numbers, which have no gaps, each named after its type."""
    paths = sorted(folder.glob("*.json"))
    found = [json.loads(path.read_bytes()) for path in paths]
    assert [path.name for path in paths] == [
        f"{number:06d}-{one['payload_type']}.json" for number, one in enumerate(found, 1)
    ]
    assert len((folder / "events.log").read_text().splitlines()) == len(found)
    return found


def mistakes(envelopes: Iterable[Envelope]) -> list[str]:
    """The errors that an independent validator finds."""
    schema = json.loads((FOLDER / "envelope.schema.json").read_text())
    judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [error.message for one in envelopes for error in judge.iter_errors(one)]


async def test_the_whole_diagram_with_real_clis(demo: DemoProject) -> None:
    root = demo.project.root
    async with (
        RehearsalServer(Diagram()) as server,
        App.open(root, demo.home, server.url) as app,
    ):
        task = await app.create(demo.start)
        with anyio.fail_after(SLOWEST):
            result, answered = await answered_run(app, task)
        assert (result.status, result.reason, answered) == ("completed", "done", ["q1"])
        checks = await check_demo(app, task)
        assert [one for one in checks if not one.passed] == []
        assert {one.asked.client for one in server.turns if one.asked} == set(AGENTS)
    session = root / ".coterie"
    said = await anyio.to_thread.run_sync(read, session / "logs" / task)
    assert {one["payload_type"] for one in said} == set(PAYLOADS)
    assert await anyio.to_thread.run_sync(mistakes, said) == []
    compare_session(said)
    compare_tickets(said)
    artifacts = [one["payload"] for one in said if one["payload_type"] == "artifact_ref"]
    check = partial(digests, session / "sessions" / task / "artifacts", artifacts)
    assert await anyio.to_thread.run_sync(check) == [one["digest"] for one in artifacts]


def digests(folder: Path, artifacts: list[dict[str, Any]]) -> list[str]:
    return [f"sha256:{sha256((folder / a['uri']).read_bytes()).hexdigest()}" for a in artifacts]


def compare_session(said: list[Envelope]) -> None:
    """What precedes the tickets, in the diagram's order; the plan is only sent once it is valid."""
    begin = [(one["source"], one["target"], one["payload_type"]) for one in said[:6]]
    assert begin == [
        ("mira", "you", "clarification"),
        ("you", "mira", "clarification_response"),
        ("mira", "you", "clarification"),
        ("coterie", "mira", "error"),
        ("mira", "coterie", "plan"),
        ("coterie", "coterie", "ticket"),
    ]
    assert said[1]["payload"]["answers"] == ["No, once."]
    assert said[3]["payload"]["code"] == "validation_failed"


WORKED = ["report", "artifact_ref", "review"]


def compare_tickets(said: list[Envelope]) -> None:
    """By ticket: its messages and its states."""
    types: defaultdict[str, list[str]] = defaultdict(list)
    states: defaultdict[str, list[str]] = defaultdict(list)
    for one in said:
        ticket: str = one.get("ticket_id", "")
        if one["payload_type"] == "ticket":
            states[ticket].append(one["payload"]["status"])
        else:
            types[ticket].append(one["payload_type"])
    for each in types.values():
        if each[-1] == "artifact_ref":  # another ticket landed first: checked again, on top of it
            each.pop()
    once, twice = ["instruction", *WORKED], ["instruction", *WORKED, *WORKED]
    # Whichever of the two landed first, the other had to resolve the conflict.
    settled = ["instruction", *WORKED, "error", *WORKED]
    assert sorted([types["T1"], types["T2"]]) == [once, settled]
    assert types["T3"] == ["instruction_proposal", "report", *once]
    assert types["T4"] == twice
    assert list(dict.fromkeys(states["T3"])) == [
        "pending",
        "discussing",
        "in_progress",
        "awaiting_review",
        "done",
    ]
    decisions = [one["payload"]["decision"] for one in said if one["payload_type"] == "review"]
    assert sorted(decisions) == ["approved"] * 5 + ["changes_requested"]
