"""A spent budget refuses the next call and asks once; a rate limit is waited out, or parks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import anyio
import pytest

from coterie.engine import steering
from coterie.engine.questions import request_of
from coterie.engine.stored_result import stored_result
from coterie.engine.task_run import RunServices
from coterie.errors import AnswerRefused
from coterie.model import instant
from coterie.model.about import BudgetReached
from coterie.model.amount import format_amounts, parse_increase
from coterie.model.conversation import Message, Prompt
from coterie.model.interaction import Ask
from coterie.model.record import InteractionRecord, MemberRecord
from coterie.model.task import Caps
from coterie.model.team import Allowance, Budget, Member, Team
from coterie.model.update import (
    Spent,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    Update,
    Usage,
)
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import TASK, ScriptedChannels, ScriptedProject, scripted_project, team
from tests.conftest import init_project
from tests.flow import ticket_harness

TURNS = Caps(max_turns=4, max_rounds=None)
TWO = Caps(max_turns=2, max_rounds=None)


def costs(tokens: int) -> Callable[[Member, Prompt], list[Update]]:
    usage = Usage(input_tokens=tokens, output_tokens=0, source="test")
    return lambda member, prompt: [TurnCompleted("said", usage)]


def limited(budget: Budget, *names: str, of_member: bool = False) -> Team:
    who = team(*names)
    if not of_member:
        return who.model_copy(update={"budget": budget})
    first, *rest = who.members
    mine = first.model_copy(update={"budget": budget})
    return who.model_copy(update={"members": (mine, *rest)})


async def titles(it: ScriptedProject) -> list[str]:
    return [one.interaction.display.title for one in await it.storage.inbox.questions()]


@pytest.mark.parametrize(
    ("budget", "of_member", "said"),
    [
        (Budget(tokens=250), False, "k3f9 used 300 of 250 tokens"),
        (Budget(turns=3), False, "k3f9 used 3 of 3 turns"),
        (Budget(per_day=Allowance(tokens=150)), False, "200 of 150 tokens used today"),
        (Budget(tokens=100), True, "ada used 100 of 100 tokens"),
        (Budget(per_day=Allowance(turns=1)), True, "ada used 1 of 1 turns today"),
    ],
)
async def test_at_its_limit_the_next_call_is_not_made(
    tmp_path: Path, budget: Budget, of_member: bool, said: str
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(limited(budget, "ada", "rex", of_member=of_member), caps=TURNS)
        result = await it.run(ScriptedChannels(costs(100)))
        assert (result.status, await titles(it)) == ("waiting", [said])
        calls = len(await it.conversation()) - 1
        again = await it.run(ScriptedChannels(costs(100)))
        assert (again.status, await titles(it)) == ("waiting", [said])
        assert len(await it.conversation()) - 1 == calls


async def test_more_is_given_and_counts_after_a_restart(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(limited(Budget(tokens=100), "ada"), caps=TURNS)
        await it.run(ScriptedChannels(costs(100)))
        with pytest.raises(AnswerRefused, match="needs an amount"):
            await steering.answer(it.look, "q1", None, "a lot", "you")
        await steering.answer(it.look, "q1", None, "+150", "you")
    async with scripted_project(tmp_path) as it:
        result = await it.run(ScriptedChannels(costs(100)))
        assert result.status == "waiting"
        assert await titles(it) == ["k3f9 used 300 of 250 tokens"]
        await steering.answer(it.look, "q2", None, "stop", "you")
        result = await it.run(ScriptedChannels(costs(100)))
        assert (result.status, result.reason) == ("waiting", "question")
        await steering.answer(it.look, "q3", None, "+1k", "you")
        assert (await it.run(ScriptedChannels(costs(100)))).status == "completed"


async def test_a_reply_that_passes_a_limit_is_given_and_the_next_turn_is_not(
    tmp_path: Path,
) -> None:
    usage = Usage(input_tokens=60, output_tokens=0, source="model")

    def twice(member: Member, prompt: Prompt) -> list[Update]:
        return [Spent(usage), Spent(usage, is_last=True), TurnCompleted("done")]

    async with scripted_project(tmp_path) as it:
        await it.start(limited(Budget(tokens=100), "ada"), caps=TWO)
        result = await it.run(ScriptedChannels(twice))
        assert (result.status, result.turns) == ("waiting", 1)
        assert await titles(it) == ["k3f9 used 120 of 100 tokens"]


async def test_a_turn_of_many_calls_is_held_in_its_middle(tmp_path: Path) -> None:
    usage = Usage(input_tokens=60, output_tokens=0, source="model")

    def many(member: Member, prompt: Prompt) -> list[Update]:
        return [Spent(usage), Spent(usage), Spent(usage), TurnCompleted("done")]

    async with scripted_project(tmp_path) as it:
        await it.start(limited(Budget(tokens=100), "ada"))
        assert (await it.run(ScriptedChannels(many))).status == "waiting"
        assert await titles(it) == ["k3f9 used 120 of 100 tokens"]


async def test_a_rate_limit_parks_and_counts_as_no_failure(tmp_path: Path) -> None:
    later = instant.of(datetime.now(UTC) + timedelta(minutes=50))
    failure = TurnFailed("rate_limit", "codex says: too many", until=later)
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        for _ in range(5):
            result = await it.run(ScriptedChannels(lambda member, prompt: [failure]))
            assert (result.status, result.reason) == ("waiting", "rate_limit")
            assert result.next == ("coterie resume k3f9 --at-reset",)
        assert await titles(it) == []
        assert (await it.run(ScriptedChannels(costs(1)))).status == "completed"


LIMITED = TurnFailed("rate_limit", "too many", until=instant.after(3600))


@pytest.mark.parametrize(
    ("end", "answer", "reason"),
    [
        (LIMITED, None, "rate_limit"),
        (TurnCompleted("said"), None, "question"),
        (TurnCompleted("said"), "stop", "budget"),
        (TurnFailed("exit", "", retry=False), "stop", "stopped"),
    ],
)
async def test_the_stored_result_of_a_stopped_run_is_the_same_as_its_own(
    tmp_path: Path, end: TurnCompleted | TurnFailed, answer: str | None, reason: str
) -> None:
    async with scripted_project(tmp_path) as it:

        async def reply() -> None:
            while not (asked := await it.storage.inbox.questions()):
                await anyio.lowlevel.checkpoint()
            typed = asked[0].interaction.kind == "Input"
            choice, text = (None, answer) if typed else (answer, None)
            await steering.answer(it.look, "q1", choice, text, "you")

        await it.start(limited(Budget(turns=1), "ada", "rex"))
        async with anyio.create_task_group() as group:
            if answer is not None:
                group.start_soon(reply)
            wait = 0.0 if answer is None else None
            result = await it.run(ScriptedChannels(lambda *_: [end]), wait)
            assert (result.reason, await stored_result(it.look, TASK)) == (reason, result)


async def test_a_rate_limit_that_is_over_is_tried_again_at_once(tmp_path: Path) -> None:
    past = instant.of(datetime.now(UTC) - timedelta(seconds=1))
    tries: list[int] = []
    told: list[bool] = []

    def once(member: Member, prompt: Prompt) -> list[Update]:
        tries.append(prompt.tries)
        told.append("make install" in prompt.text)
        if len(tries) == 1:
            ran = ToolCallStarted("c1", "shell", {"command": "make install"}, "run")
            ended = ToolCallFinished("c1", is_error=False)
            return [ran, ended, TurnFailed("rate_limit", "too many", until=past)]
        return [TurnCompleted("said")]

    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        assert (await it.run(ScriptedChannels(once, threads=True))).status == "completed"
    assert (tries, told) == ([1, 2], [False, True])


async def test_a_run_that_waits_for_the_reset_calls_nobody_before_it(tmp_path: Path) -> None:
    calls: list[str] = []

    def limit(member: Member, prompt: Prompt) -> list[Update]:
        calls.append(instant.now())
        return [TurnFailed("rate_limit", "too many", until=reset)]

    def fine(member: Member, prompt: Prompt) -> list[Update]:
        calls.append(instant.now())
        return [TurnCompleted("said")]

    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        reset = instant.after(0.5)
        assert (await it.run(ScriptedChannels(limit))).reason == "rate_limit"
        it.engine = replace(it.engine, services=RunServices(at_reset=True))
        assert (await it.run(ScriptedChannels(fine))).status == "completed"
        waited = [r for r in it.recorder.records if isinstance(r, MemberRecord) and r.until]
    assert (len(calls), calls[1] >= reset, waited[-1].until) == (2, True, reset)


@pytest.mark.parametrize(
    ("said", "amount"),
    [("+200k", 200_000), ("1.5M", 1_500_000), ("$0.50", 0.5), ("+ 12", 12), ("stop", None)],
)
def test_how_much_more(said: str, amount: float | None) -> None:
    assert parse_increase(said) == amount


def test_amounts_as_people_read_them() -> None:
    assert [
        format_amounts("tokens", 500_000),
        format_amounts("usd", 3.7),
        format_amounts("turns", 12),
    ] == [
        "500k tokens",
        "$3.70",
        "12 turns",
    ]


def ticketed(budget: Budget, *workers: str) -> Team:
    return ticket_harness.team(*workers).model_copy(update={"budget": budget})


def expensive(
    tokens: int, running: list[int]
) -> Callable[[Member, Prompt], Awaitable[list[Update]]]:
    """Answer every prompt obediently at a fixed cost, and record how many turns ran at once."""
    usage = Usage(input_tokens=tokens, output_tokens=0, source="test")
    now: list[str] = []

    async def play(member: Member, prompt: Prompt) -> list[Update]:
        now.append(member.id)
        running.append(len(now))
        await anyio.sleep(0.01)
        now.remove(member.id)
        said = await anyio.to_thread.run_sync(ticket_harness.obedient, member, prompt.text)
        return [TurnCompleted(ticket_harness.block(said), usage)]

    return play


@pytest.mark.parametrize(
    ("budget", "said", "most"),
    [
        (Budget(tokens=450), ["k3f9 used 500 of 450 tokens"], 500),
        (Budget(turns=5), ["k3f9 used 5 of 5 turns"], 500),
        (Budget(per_day=Allowance(tokens=450)), ["500 of 450 tokens used today"], 500),
        (
            Budget(per_ticket=Allowance(tokens=150)),
            ["k3f9/T1 used 200 of 150 tokens", "k3f9/T2 used 200 of 150 tokens"],
            800,
        ),
    ],
)
async def test_work_side_by_side_passes_a_limit_by_one_turn_and_asks_once(
    tmp_path: Path, budget: Budget, said: list[str], most: int
) -> None:
    running: list[int] = []
    init_project(tmp_path)
    async with ticket_harness.session(tmp_path, ticketed(budget, "wren", "finn", "ana")) as harness:
        result = await harness.scripted.run(ScriptedChannels(expensive(100, running)))
        assert result.status == "waiting"
        assert sorted(await titles(harness.scripted)) == said, (
            "each limit once, and no ticket for another"
        )
        turns = await harness.scripted.storage.journal.turns("k3f9")
        assert sum(turn.used.input_tokens or 0 for turn in turns if turn.used) <= most


async def test_a_day_has_one_sum_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of agents that report no usage count, and an increase for a day expires with it."""
    budget = Budget(per_day=Allowance(turns=2))
    async with scripted_project(tmp_path) as it:
        await it.start(limited(budget, "ada"), caps=TURNS)
        silent = ScriptedChannels(lambda member, prompt: "said")
        assert (await it.run(silent)).status == "waiting"
        assert await titles(it) == ["2 of 2 turns used today"]
        await steering.answer(it.look, "q1", None, "+1", "you")
        assert (await it.run(ScriptedChannels(lambda m, p: "said"))).status == "waiting"
        assert await titles(it) == ["3 of 3 turns used today"]
        tomorrow = instant.of(datetime.now(UTC) + timedelta(days=1))
        monkeypatch.setattr(instant, "now", lambda: tomorrow)
        assert (await it.run(ScriptedChannels(lambda m, p: "said"))).status == "completed"


@pytest.mark.parametrize("of_member", [False, True])
@pytest.mark.parametrize(("said", "waits"), [("stop", True), ("+1", False)])
async def test_a_parked_member_waits_until_its_own_limit_is_raised(
    tmp_path: Path, said: str, waits: bool, of_member: bool
) -> None:
    own = limited(Budget(per_day=Allowance(turns=1)), "ada", of_member=of_member)
    task = BudgetReached(scope="task", measure="tokens", used=1, limit=1, member=TASK)
    rex = BudgetReached(scope="member's day", measure="turns", used=1, limit=1, member="rex")
    async with scripted_project(tmp_path) as it:
        await it.start(own, caps=TURNS)
        await it.run(ScriptedChannels(costs(1)))
        for about in (task, rex):
            name = await it.storage.inbox.allocate()
            asked = request_of(name, TASK, Ask(author="coterie", kind="Input", about=about))
            await it.storage.commit(None, asked)
            await steering.answer(it.look, name, None, "+1k", "you")
        assert [one.member for one in await it.look.parked()] == ["ada"]
        await steering.answer(it.look, "q1", None, said, "you")
        assert [one.member for one in await it.look.parked()] == (["ada"] if waits else [])


async def test_a_run_that_waits_at_a_days_limit_goes_on_at_midnight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_project(tmp_path) as it:
        seen = it.recorder.records

        def now() -> str:  # midnight passes as soon as a question is asked
            asked = any(isinstance(one, InteractionRecord) for one in seen)
            return "2031-01-02T00:00:01.000Z" if asked else "2031-01-01T23:59:59.700Z"

        monkeypatch.setattr(instant, "now", now)
        await it.start(limited(Budget(per_day=Allowance(turns=1)), "ada"), caps=TWO)
        with anyio.fail_after(30):
            result = await it.run(ScriptedChannels(costs(1)), wait=None)
        assert (result.status, result.turns) == ("completed", 2)
        [question] = await it.storage.inbox.questions(only_open=False)
        assert (question.state, question.interaction.about) == (
            "closed",
            BudgetReached(scope="day", measure="turns", used=1, limit=1),
        )


async def test_what_one_ticket_is_given_is_not_given_to_all(tmp_path: Path) -> None:
    init_project(tmp_path)
    budget = Budget(per_ticket=Allowance(tokens=150))
    async with ticket_harness.session(tmp_path, ticketed(budget, "wren", "finn")) as harness:
        assert (
            await harness.scripted.run(ScriptedChannels(expensive(100, [])))
        ).status == "waiting"
        asked = {
            one.interaction.task_id: one for one in await harness.scripted.storage.inbox.questions()
        }
        first = asked["k3f9/T1"].interaction.interaction_id
        await steering.answer(harness.scripted.look, first, None, "+1k", "you")
        await harness.scripted.run(ScriptedChannels(expensive(100, [])))
        assert await titles(harness.scripted) == ["k3f9/T2 used 200 of 150 tokens"]


OTHER = "b222"


async def after_death_at(folder: Path, call: int) -> bool:
    """Kill a run at one of its storage calls, then run a turn of another task under the same
    limit.  Return whether the run came to that call."""
    budget = limited(Budget(per_day=Allowance(tokens=150)), "ada")
    async with scripted_project(folder) as it:
        await it.start(budget, caps=Caps(max_turns=1))
    real = await SqliteStorage.open(folder / "coterie.db")
    died = False
    try:
        async with scripted_project(
            folder, CrashingStorage(real, CrashPoint(call, True, True))
        ) as it:
            try:
                await it.run(ScriptedChannels(costs(100)))
            except Crashed:
                died = True
    finally:
        await real.close()
    async with scripted_project(folder) as it:
        task = (await it.look.state("k3f9")).created
        other = task.model_copy(update={"task_id": OTHER, "session_id": OTHER})
        assert await it.storage.create(
            other, it.owners.me, Message(OTHER, 1, "you", "hi", other.at)
        )
        with anyio.fail_after(30):
            channels = ScriptedChannels(costs(100))
            result = await it.engine.run(OTHER, lambda *_: channels, it.recorder, 0.0)
        assert result.status == "completed"
    return died


async def test_what_a_dead_process_reserved_is_free_whenever_it_died(tmp_path: Path) -> None:
    deaths = 0
    for call in count(1):
        folder = tmp_path / str(call)
        folder.mkdir()
        if not await after_death_at(folder, call):
            break
        deaths += 1
    assert deaths > 10
