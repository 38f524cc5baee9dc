"""Limits: budgets, asked about before every model call, and the rate limits of members."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import monotonic

import anyio

from coterie.engine.attempt import Attempt
from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import BudgetReached, BudgetScope, Measure
from coterie.model.interaction import Ask, Validation
from coterie.model.journal import Turn
from coterie.model.question_text import MORE_EXAMPLES
from coterie.model.step_name import BudgetKey
from coterie.model.task import Stopped
from coterie.model.team import MORE, Allowance, Member, Tally, base_of, more
from coterie.model.update import REHEARSED, Usage
from coterie.ports import Parked


@dataclass
class Spending:
    """What was used so far, in every scope that a budget can have."""

    by_member: dict[str, Tally] = field(default_factory=dict[str, Tally])
    of_day: dict[str, Tally] = field(default_factory=dict[str, Tally])
    """By member, of all tasks, today."""

    def add(self, member: str, usage: Usage | None, turns: int, *, here: bool, today: bool) -> None:
        """Count something; the instances of a member share its budget."""
        whose = base_of(member)
        for tallies, counts in ((self.by_member, here), (self.of_day, today)):
            if counts:
                tallies[whose] = tallies.get(whose, Tally()).plus(usage, turns)

    def of(self, scope: BudgetScope, member: str) -> Tally:
        """The tally of one scope."""
        tallies = self.by_member if scope in ("task", "member") else self.of_day
        if scope in ("member", "member's day"):
            return tallies.get(base_of(member), Tally())
        total = Tally()
        for one in tallies.values():
            total = Tally(total.tokens + one.tokens, total.usd + one.usd, total.turns + one.turns)
        return total


class Budgets:
    """Refuses the next call of a model where a budget is used up."""

    def __init__(self, run: TaskRun, questions: Questions) -> None:
        self._run = run
        self._questions = questions
        self._granted: dict[BudgetKey, float] = {}
        for name, _, response in run.journal.answers():
            if isinstance(name.subject, BudgetKey) and response.input_value:
                self._grant(name.subject, response.input_value)
        self._spending: Spending | None = None

    def spent(self, member: Member, usage: Usage | None, *, turns: int = 0) -> None:
        """Count what a call or a turn cost."""
        if self._spending is not None:
            self._spending.add(member.id, usage, turns, here=True, today=True)

    async def check(self, attempt: Attempt) -> None:
        """Ask, before anything more is used, where a limit is reached.  Raises Parked."""
        if self._spending is None:
            self._spending = await self._past()
        for scope, measure, limit in self._limits(attempt.member):
            key = BudgetKey(scope, measure)
            used = self._spending.of(scope, attempt.member.id).of(measure)
            while used >= limit + self._granted.get(key, 0.0):
                allowed = limit + self._granted.get(key, 0.0)
                await self._ask(attempt, key, used, allowed)

    async def _ask(self, attempt: Attempt, key: BudgetKey, used: float, allowed: float) -> None:
        scope, measure = key.scope, key.measure
        whose = {"task": attempt.task_id, "day": ""}.get(scope, attempt.member.id)
        example = MORE_EXAMPLES[measure]
        question = Ask(
            author="coterie",
            kind="Input",
            about=BudgetReached(
                scope=scope, measure=measure, used=used, limit=allowed, member=whose
            ),
            validation=Validation(
                regex=MORE,
                required=True,
                meaning=f"an amount such as {example}, or stop",
                example=example,
            ),
            intent=[scope, measure, allowed],
        )
        for number in count(1):
            name = step_name.budget(attempt.name, key, allowed, number)
            answer = await self._questions.ask(name, question)
            if self._grant(key, answer.response.input_value or "stop"):
                return
            if answer.fresh:  # a later run finds the answer and asks again
                raise Parked(Stopped("budget"))

    def _grant(self, key: BudgetKey, said: str) -> bool:
        amount = more(said)
        if amount is not None:
            self._granted[key] = self._granted.get(key, 0.0) + amount
        return amount is not None

    def _limits(self, member: Member) -> Iterator[tuple[BudgetScope, Measure, float]]:
        team = self._run.task.team.budget
        mine = member.budget
        scopes: tuple[tuple[BudgetScope, Allowance], ...] = (
            ("task", team),
            ("day", team.per_day),
            ("member", mine),
            ("member's day", mine.per_day),
        )
        for scope, allowance in scopes:
            for measure, limit in allowance.limits():
                yield scope, measure, limit

    async def _past(self) -> Spending:
        """What this task used, and all tasks today."""
        spending, task_id = Spending(), self._run.task.task_id
        journal, midnight = self._run.storage.journal, f"{instant.now()[:10]}T00:00:00"
        for turn in await journal.turns(task_id):
            spending.add(turn.member, turn.used, _one(turn), here=True, today=False)
        for turn in await journal.spending(midnight):
            if turn.used == REHEARSED:
                continue
            spending.add(turn.member, turn.used, _one(turn), here=False, today=True)
        return spending


def _one(turn: Turn) -> int:
    return 1 if turn.outcome in ("completed", "interrupted") else 0


MINUTE = 60.0


class RateLimiter:
    """Holds turns back until their member's limit allows them; its instances share it."""

    def __init__(
        self,
        run: TaskRun,
        now: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._run = run
        self._now = now
        self._sleep = sleep
        self._begun: dict[str, deque[float]] = {}
        """By member: when its turns of the last minute began."""

    async def wait_for_reset(self, member: Member, past: Sequence[Turn]) -> None:
        """Wait for the end of a limit that an earlier run met, where that was asked for: until
        then a call is in vain."""
        run = self._run
        if not (run.services.at_reset and past and past[-1].outcome == "limited"):
            return
        for kept in await run.storage.member_states(run.task.task_id):
            is_limit = kept.member == member.id and kept.waits_for == "limit"
            left = instant.seconds_until(kept.until) if is_limit and kept.until else 0.0
            if left > 0:
                run.keep_state(member, "waiting", "limit", until=kept.until)
                with run.stops.stoppable(member.id):
                    await self._sleep(left)

    async def begin(self, member: Member) -> None:
        """Wait until the member may begin a turn, and count it."""
        most = member.turns_per_minute
        if most is None:
            return
        begun = self._begun.setdefault(base_of(member.id), deque())
        while True:
            while begun and begun[0] <= self._now() - MINUTE:
                begun.popleft()
            if len(begun) < most:
                begun.append(self._now())
                return
            left = begun[0] + MINUTE - self._now()
            allowed = f"{most} turns a minute are allowed"
            self._run.keep_state(member, "waiting", "limit", allowed, instant.after(left))
            await self._sleep(left)
