"""Random plans of 200 tickets: all done, in order, never too many at once, nobody doubled.

The engine, the store and the workflow are real; there is no git, so that a plan takes seconds.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

from coterie.model.envelope import Envelope, TicketPayload
from coterie.model.team import Member, Team, base_of
from coterie.model.ticket import SchedulerConfig
from coterie.model.update import TurnFailed
from coterie.testing.scripted import TASK
from tests.flow.ticket_harness import Say, TicketHarness, part, plan, replying, session, team

TICKETS = 200


def random_plan(dice: random.Random) -> dict[str, object]:
    """Return a plan whose parts depend on a few earlier ones; most name a file of their own."""
    names = [f"p{number}" for number in range(TICKETS)]
    shape = dice.choice(["wide", "deep", "mixed"])
    parts: list[dict[str, object]] = []
    for number, name in enumerate(names):
        before = names[max(0, number - (3 if shape == "deep" else TICKETS)) : number]
        many = dice.randint(0, {"wide": 1, "deep": 3, "mixed": 4}[shape])
        after = dice.sample(before, min(many, len(before)))
        files = [f"{name}.py"] if dice.random() < 0.9 else [f"shared{dice.randint(0, 2)}.py"]
        parts.append(part(name, *after, expected_outputs=files))
    dice.shuffle(parts)  # a plan need not be in any particular order
    return plan(*parts)


class ObservedWorkers:
    """Workers that are observed while they work, and fail or are sent back now and then."""

    def __init__(self, dice: random.Random, who: Team) -> None:
        self._dice = dice
        self._lock = threading.Lock()
        self._single = {m.id for m in who.members if not m.supports_multiple_instances}
        self._at_work: list[str] = []
        self.doubled: list[str] = []
        self.most = 0

    @contextmanager
    def _seen(self, member: Member) -> Iterator[None]:
        with self._lock:
            self._at_work.append(member.id)
            self.most = max(self.most, len(self._at_work))
            alone = [base_of(one) if base_of(one) in self._single else one for one in self._at_work]
            self.doubled += [one for one in set(alone) if alone.count(one) > 1]
        yield
        with self._lock:
            self._at_work.remove(member.id)

    def works(self, member: Member, text: str) -> object:
        with self._seen(member):
            time.sleep(self._dice.random() * 0.01)  # work takes time; nothing relies on how much
            chance = self._dice.random()
            if chance < 0.03:
                return TurnFailed("exit", "it broke", exit_code=1)
            if chance < 0.05:
                return {"status": "blocked", "issues": ["a word"]}
            return {"status": "completed"}

    def reviews(self, member: Member, text: str) -> object:
        again = self._dice.random() < 0.05
        return {"decision": "changes_requested" if again else "approved", "notes": "so"}

    def say(self, planned: dict[str, object]) -> Say:
        return replying(
            Split_the_goal=planned,
            Do_the_work_now=self.works,
            **{"Is_it_done?": self.reviews, "cannot_continue:": {"summary": "around it"}},
        )


def broken_rules(envelopes: Iterable[Envelope], limit: int) -> list[str]:
    """Check the envelopes in the order they were recorded; return the broken rules."""
    states: dict[str, str] = {}
    wrong: list[str] = []
    for one in envelopes:
        ticket = one.payload
        if not isinstance(ticket, TicketPayload):
            continue
        begins = states.get(ticket.ticket_id) == "pending" != ticket.status
        late = [other for other in ticket.dependencies if states.get(other) != "done"]
        if begins and late:
            wrong.append(f"{ticket.ticket_id} began before {late}")
        states[ticket.ticket_id] = ticket.status
        going = [name for name, state in states.items() if state not in ("pending", "done")]
        if len(going) > limit:
            wrong.append(f"{going} at once")
    return wrong


@pytest.mark.parametrize(("seed", "limit"), [(1, 1), (2, 3), (3, 8)])
async def test_a_random_plan_is_carried_out(tmp_path: Path, seed: int, limit: int) -> None:
    (tmp_path / ".coterie").mkdir()
    dice = random.Random(seed)
    planned = random_plan(dice)
    single = team("wren", "finn")
    more = team("robin", supports_multiple_instances=True)
    who = single.model_copy(update={"members": (*single.members, more.members[1])})
    watched = ObservedWorkers(dice, who)
    config = SchedulerConfig(concurrency=limit, retries=20, rework=20)
    async with session(tmp_path, who, config) as harness:
        assert await harness.run(watched.say(planned)) == f"completed done {TICKETS} done"
        assert broken_rules(await harness.envelopes(), limit) == []
    assert watched.doubled == []
    assert watched.most <= limit
    assert (watched.most > 1) == (limit > 1)


def speaking(harness: TicketHarness, *answers: object) -> Say:
    """Say something during the first answer to a prompt, and wait until it was heard."""
    left = list(answers)

    async def speak() -> None:
        storage, known = (
            harness.scripted.storage,
            len(await harness.scripted.storage.conversation.messages(TASK)),
        )
        await storage.inbox.request(TASK, "say", "you", "b first")
        with anyio.fail_after(30):
            while len(await storage.conversation.messages(TASK)) == known:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    def say(member: Member, text: str) -> object:
        if len(left) == len(answers):
            anyio.from_thread.run(speak)
        return left.pop(0) if len(left) > 1 else left[0]

    return say


BROKEN = TurnFailed("exit", "it broke", retry=False)


async def test_what_is_said_while_the_manager_replans_outlives_the_run(tmp_path: Path) -> None:
    (tmp_path / ".coterie").mkdir()
    one, prompts = plan(part("a")), list[str]()
    async with session(tmp_path) as harness:
        answers = speaking(harness, one, BROKEN, one)

        def replanned(member: Member, text: str) -> object:
            prompts.append(text.partition("said: ")[2].partition("\n")[0])
            return answers(member, text)

        await harness.scripted.storage.inbox.request(TASK, "say", "you", "in blue")
        say = replying(Split_the_goal=one, The_plan_has_to_change=replanned)
        assert await harness.run(say) == "waiting question"
        await harness.answer("retry")
        assert await harness.run(say) == "completed done 1 done"
    assert prompts == ["in blue", "b first", "b first"]


async def test_a_ticket_that_is_being_prepared_waits_for_what_a_new_plan_puts_before_it(
    tmp_path: Path,
) -> None:
    (tmp_path / ".coterie").mkdir()
    async with session(tmp_path) as harness:
        say = replying(
            Split_the_goal=plan(part("a")),
            Write_the_instruction=speaking(harness, BROKEN, {"summary": "Do it."}),
            The_plan_has_to_change=plan(part("a", "b"), part("b")),
        )
        assert await harness.run(say) == "waiting question"
        await harness.answer("retry")
        assert await harness.run(say) == "completed done 2 done"
        assert broken_rules(await harness.envelopes(), 1) == []
        assert [one.dependencies for one in await harness.tickets()] == [("T2",), ()]
