"""A member whose model or CLI fails: it reports the cause and a remedy; the others continue."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from coterie.app.project import App
from coterie.app.run import StartRequest
from coterie.engine.turns import ATTEMPTS
from coterie.model.interaction import Interaction
from coterie.model.record import (
    ErrorRecord,
    InteractionRecord,
    MessageRecord,
    Record,
    ResultRecord,
)
from coterie.model.task import Caps
from coterie.model.team import Member, Team
from coterie.rehearsal.model_api import (
    Answer,
    CompletionRequest,
    ErrorReply,
    ModelReply,
    NoReply,
    in_pieces,
    reply,
)
from coterie.rehearsal.server import RehearsalServer
from tests.conftest import IsolatedUser

ROOT = Path(__file__).parents[2]
BINS = Path(os.environ.get("COTERIE_CLIS", ROOT / ".cache" / "clis")) / "node_modules" / ".bin"
SLOWEST = 110
FAULTY = "Your word is OKAPI."


@dataclass
class FailingModel:
    """A model that fails one member in one way after the other, and replies to all others."""

    faults: list[Answer]

    async def answer(self, request: CompletionRequest) -> Answer:
        if FAULTY in request.instructions:
            return self.faults[0]
        return reply("I go on.")


@dataclass
class WatchingObserver:
    """Keeps all records, and signals every question."""

    questions: MemoryObjectSendStream[None]
    records: list[Record] = field(default_factory=list[Record])

    def saw(self, record: Record) -> None:
        self.records.append(record)
        if isinstance(record, InteractionRecord) and record.state == "open":
            self.questions.send_nowait(None)

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


Entry = dict[str, Any]


def register(user: IsolatedUser, entries: Mapping[str, Entry]) -> None:
    registry = user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": entries}))


def member(name: str, agent: str, **more: Any) -> Member:
    return Member(id=name, name=name, display_name=name.capitalize(), agent=agent, **more)


def installed(*names: str) -> None:
    for name in names:
        if not (BINS / name).exists():
            pytest.skip(f"{name} is not installed: scripts/real-clis")


def nothing() -> None:
    pass


async def skipped(
    app: App, team: Team, rounds: int = 1, *, rehearsal: bool, then: Callable[[], None] = nothing
) -> list[list[ErrorRecord]]:
    """Run rounds in which Bob, the last member, has his turn although nobody before him can speak.

    Each of the others is skipped, with a call of `then`; return the errors that led to each skip.
    """
    send, questions = anyio.create_memory_object_stream[None](1)
    watching = WatchingObserver(send)
    others = [one.id for one in team.members[:-1]]
    failures: list[list[ErrorRecord]] = []
    results: list[ResultRecord] = []

    async def skip(questions: MemoryObjectReceiveStream[None]) -> None:
        async with questions:
            async for _ in questions:
                [asked] = await app.questions()
                assert asked.member is not None
                failures.append(watching.of(ErrorRecord)[sum(map(len, failures)) :])
                check_the_question(asked.interaction, asked.member.id, team, failures[-1])
                then()
                await app.answer(
                    asked.interaction.interaction_id, choice="skip", text=None, author="you"
                )

    with anyio.fail_after(SLOWEST):
        async with anyio.create_task_group() as group:
            group.start_soon(skip, questions)
            caps = Caps(max_turns=rounds * len(team.members), max_rounds=None)
            task = await app.create(StartRequest(team, "Hello?", caps, rehearsal=rehearsal))
            results.append(await app.run(task, watching, wait=None))
            send.close()
    assert [result.status for result in results] == ["completed"]
    assert [errors[0].member for errors in failures] == others * rounds
    said = [(one.member, one.text) for one in watching.of(MessageRecord)]
    assert said == [("bob", "I go on.")] * rounds
    return failures


def check_the_question(asked: Interaction, who: str, team: Team, errors: list[ErrorRecord]) -> None:
    """Check that it repeats the last of the errors and offers the options."""
    replacing = [f"replace-{one.id}" for one in team.members if one.id != who]
    assert [option.id for option in asked.options] == ["retry", "skip", *replacing, "stop"]
    assert {one.member for one in errors} == {who}
    failed, _, hint = asked.display.description.rpartition("\n")
    assert errors[-1].message.endswith(failed)
    assert errors[-1].hint == hint


# -- its model ---------------------------------------------------------------------------------

HALF = in_pieces("one two three four five six")
LONG, SLOW = 20, 4
WAIT = "Wait, then try again."


@dataclass(frozen=True)
class Case:
    """A fault of one CLI's model, and what should be reported about it."""

    cli: str
    fault: Answer
    kind: str
    words: str
    hint: str
    tries: int = 1
    seconds: float = LONG
    """The time limit of a turn; all but those that hang end long before."""
    most: int = 2
    """The maximum of tries: one where two would only be slow."""


LIMIT, BOOM = ErrorReply(429, "Slow down.", retry_after=0.1), ErrorReply(500, "Boom.")
CUT, STALL = ModelReply(HALF, breaks="cut"), ModelReply(HALF, breaks="stall")
KEY, MODEL = ErrorReply(401, "Bad key."), ErrorReply(404, "The model x does not exist.")
ONCE = {"CLAUDE_CODE_MAX_RETRIES": "1"}
"""How often Claude itself retries, which by default would take minutes."""
STUCK = "no reply within 1 s: stuck"
TIME = "Try again, or give the member more time in the team file: timeoutMs."
OTHER_MODEL = "another model"

CASES = [
    Case("claude", LIMIT, "rate_limit", "rate limit is reached (429)", WAIT, 2),
    Case("codex", LIMIT, "rate_limit", "rate limit is reached", WAIT, 3, most=ATTEMPTS),
    Case("gemini", LIMIT, "rate_limit", "rate limit is reached", WAIT, 1, most=1),
    Case("claude", BOOM, "model", "the model service is failing (500)", WAIT, 2),
    Case("codex", BOOM, "model", "the model service is failing", WAIT, 2),
    Case("gemini", BOOM, "model", "the model service is failing", WAIT, 1, most=1),
    Case("claude", NoReply(), "timeout", STUCK, TIME, 2, 1),
    Case("codex", NoReply(), "timeout", STUCK, TIME, 1, 1, most=1),
    Case("gemini", NoReply(), "timeout", STUCK, TIME, 1, 1, most=1),
    Case("claude", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case("codex", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case("gemini", STALL, "timeout", STUCK, TIME, 1, 1, most=1),
    Case(
        "claude",
        LIMIT,
        "timeout",
        "it was waiting for the model: 429, retry",
        TIME,
        1,
        SLOW,
        most=1,
    ),
    Case("codex", CUT, "model", "the connection to the model was cut", "the network", 2),
    Case("gemini", CUT, "model", "the connection to the model was cut", "Try again.", most=1),
    Case("claude", CUT, "model", "cannot be reached", "then try again.", 2),
    Case("claude", KEY, "signed_out", "was rejected (401)", "claude auth login"),
    Case("codex", KEY, "signed_out", "was rejected", "codex login, or fix CODEX_API_KEY"),
    Case("gemini", KEY, "signed_out", "was rejected", "set GEMINI_API_KEY"),
    Case("claude", MODEL, "model", "the model is unknown", OTHER_MODEL),
    Case("codex", MODEL, "model", "the model is unknown", OTHER_MODEL),
    Case("gemini", MODEL, "model", "the model is unknown", OTHER_MODEL),
]


GROUPS = sorted({(case.cli, case.seconds) for case in CASES})


@pytest.mark.parametrize(("cli", "seconds"), GROUPS)
async def test_a_model_that_fails(
    user: IsolatedUser, cli: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann fails in one way after the other; each time Bob, on another CLI, gets his turn."""
    other = "claude" if cli == "codex" else "codex"
    installed(cli, other)
    env = {} if seconds == SLOW else ONCE
    entry = {"command": str(BINS / cli), "env": env}
    register(user, {cli: entry, other: {"command": str(BINS / other)}})
    ann = member("ann", cli, order=1, system_instruction=FAULTY, timeout_ms=round(seconds * 1000))
    team = Team(name="pair", members=(ann, member("bob", other, order=2)))
    cases = [case for case in CASES if (case.cli, case.seconds) == (cli, seconds)]
    model = FailingModel([case.fault for case in cases])
    tries = iter([case.most for case in cases] + [0])

    def next_fault() -> None:
        monkeypatch.setattr("coterie.engine.turns.ATTEMPTS", next(tries))

    def heal() -> None:
        model.faults.pop(0)
        next_fault()

    next_fault()
    async with (
        RehearsalServer(model) as server,
        App.open(user.project, None, server.url) as app,
    ):
        failures = await skipped(app, team, len(cases), rehearsal=True, then=heal)
    for case, errors in zip(cases, failures, strict=True):
        assert len(errors) == case.tries, case
        for error in errors:
            assert error.code == f"turn_{case.kind}"
            assert case.words in error.message
            assert error.hint
            assert case.hint in error.hint


# -- its login ---------------------------------------------------------------------------------

AT_ONCE = 10
"""Seconds, as nothing is sent: without a network, Codex would retry for half a minute."""


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
    user: IsolatedUser, monkeypatch: pytest.MonkeyPatch, cli: str, hint: str
) -> None:
    """Without a rehearsal: the real CLI in an empty home, beside a member that needs no login."""
    installed(cli)
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_AUTH_TOKEN"))]:
        monkeypatch.delenv(name)
    scripted = """cat > /dev/null; echo '{"type": "result", "result": "I go on."}'"""
    ends = {"completionDetection": "jsonl", "completionTypes": ["result"]}
    other = {"command": "/bin/sh", "baseArgs": ["-c", scripted], "capabilities": ends}
    register(user, {cli: {"command": str(BINS / cli)}, "scripted": other})
    members = (member("ann", cli, order=1), member("bob", "scripted", order=2))
    team = Team(name="pair", members=members)
    async with App.open(user.project) as app:
        with anyio.fail_after(AT_ONCE):
            [[error]] = await skipped(app, team, rehearsal=False)
    assert error.code == "turn_signed_out"
    assert error.message.startswith(f"ann failed turn 1 (try 1): {cli} is not signed in")
    assert error.hint is not None
    assert error.hint.startswith(hint)


# -- its program -------------------------------------------------------------------------------

OLD = {
    "claude": "error: unknown option '--input-format=stream-json'",
    "codex": "error: unrecognized option 'app-server'",
    "gemini": "Invalid values: argument acp",
}


def old(user: IsolatedUser, cli: str) -> str:
    """A program that rejects all our arguments, except `--version`."""
    program = user.home / f"old-{cli}"
    program.write_text(
        '#!/bin/sh\ncase "$*" in --version) echo 0.0.1; exit 0;; esac\n'
        f"echo {shlex.quote(OLD[cli])} >&2\nexit 1\n"
    )
    program.chmod(0o755)
    return str(program)


def broken(user: IsolatedUser, cli: str) -> str:
    """A program that exists but cannot be started; a missing one is simulated in a rehearsal."""
    program = user.home / f"no-{cli}"
    program.write_text("#!/nowhere/node\n")
    program.chmod(0o755)
    return str(program)


async def test_programs_that_are_missing_and_of_an_old_version(user: IsolatedUser) -> None:
    installed("codex")
    missing = {f"no-{cli}": broken(user, cli) for cli in OLD}
    outdated = {f"old-{cli}": old(user, cli) for cli in OLD}
    entries = {
        name: {"command": command, "adapter": name.partition("-")[2]}
        for name, command in (missing | outdated).items()
    }
    register(user, {**entries, "codex": {"command": str(BINS / "codex")}})
    members = [member(name, name, order=place) for place, name in enumerate(entries, 1)]
    bob = member("bob", "codex", order=len(entries) + 1)
    team = Team(name="all", members=(*members, bob))
    async with (
        RehearsalServer(FailingModel([])) as server,
        App.open(user.project, None, server.url) as app,
    ):
        failures = await skipped(app, team, rehearsal=True)
    for name, [error] in zip(entries, failures, strict=True):
        assert (error.code, error.hint) == ("turn_missing", "coterie doctor")
        if name in missing:
            assert f"{name} cannot start: {missing[name]}: " in error.message
            assert error.where == str(user.project / ".coterie" / "teams" / "all" / name)
        else:
            assert OLD[name.partition("-")[2]] in error.message
