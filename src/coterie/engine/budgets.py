"""Budgets: what may be used, reserved before work begins, and asked about at a limit, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from math import inf
from typing import NamedTuple

import anyio

from coterie.engine.attempt import Attempt
from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import BudgetReached, BudgetScope, Measure
from coterie.model.interaction import Ask, Validation
from coterie.model.journal import Turn
from coterie.model.question_text import MORE_EXAMPLES
from coterie.model.task import Stop, Stopped, run_with, ticket_in
from coterie.model.team import MORE, Allowance, Tally, base_of, more
from coterie.model.update import REHEARSED
from coterie.ports import Parked

_CAREFUL = 2.0
"""A turn is taken to cost up to so many times what the dearest of its member did."""
_RESERVED = "what is left of the budget is reserved for turns under way"
_LOOK = 0.5
"""Whoever waits for what others have reserved looks again after so many seconds."""


class Limit(NamedTuple):
    """One limit that holds for a turn."""

    scope: BudgetScope
    measure: Measure
    amount: float
    whose: str
    """The task, the ticket or the member; empty: everybody, today."""

    @property
    def is_of_day(self) -> bool:
        return self.scope in ("day", "member's day")


class Budgets:
    """Refuses the next call of a model where a budget is used up.

    What was used is asked of the store every time: other processes use the day's budget too, and a
    day ends.  What turns under way may still use counts as used for those that have not begun.
    """

    def __init__(self, run: TaskRun, questions: Questions) -> None:
        self._run = run
        self._questions = questions
        self._open: dict[str, Attempt] = {}
        """By step: turns that have begun, or are about to."""
        self._reserving = anyio.Lock()
        self._asking = anyio.Lock()
        self._asked: dict[str, int] = {}
        """By name: how often it was asked in this run."""
        self._parked: dict[Limit, Stop] = {}

    @asynccontextmanager
    async def reserved(self, attempt: Attempt) -> AsyncGenerator[None]:
        """A turn, begun only when what it may use is left; asks at a limit.  Raises Parked."""
        while (blocked := await self._blocked(attempt)) is not None:
            limit, is_reached = blocked
            if is_reached:
                await self._ask(limit)
            else:
                self._run.show_state(attempt.member, "waiting", _RESERVED)
                await anyio.sleep(_LOOK)
        try:
            yield
        finally:
            self._open.pop(attempt.name, None)

    async def check(self, attempt: Attempt) -> None:
        """Ask, before anything more is used, where a limit is reached.  Raises Parked."""
        for limit in self._limits(attempt):
            while True:
                used, allowed = await self._state(limit)
                if used < allowed:
                    break
                await self._ask(limit)

    async def _blocked(self, attempt: Attempt) -> tuple[Limit, bool] | None:
        """A limit that a turn may not begin for, and whether it is reached; else it has begun."""
        async with self._reserving:
            for limit in self._limits(attempt):
                # Before what was used is read: a turn that ends meanwhile counts twice, not never.
                others = [one for one in self._open.values() if limit in self._limits(one)]
                used, allowed = await self._state(limit)
                if used >= allowed:
                    return limit, True
                if others:
                    turns = await self._turns(limit)
                    needed = sum(_needed(limit, one, turns) for one in (*others, attempt))
                    if used + needed > allowed:
                        return limit, False
            self._open[attempt.name] = attempt
        return None

    def _limits(self, attempt: Attempt) -> Iterator[Limit]:
        team, mine = self._run.task.team.budget, attempt.member.budget
        member, session = base_of(attempt.member.id), self._run.task.session_id
        ticket = attempt.task_id if ticket_in(attempt.task_id) else ""
        scopes: tuple[tuple[BudgetScope, Allowance, str], ...] = (
            ("task", team, session),
            ("day", team.per_day, ""),
            ("member", mine, member),
            ("member's day", mine.per_day, member),
            *((("ticket", team.per_ticket, ticket),) if ticket else ()),
        )
        for scope, allowance, whose in scopes:
            for measure, amount in allowance.limits():
                yield Limit(scope, measure, amount, whose)

    async def _state(self, limit: Limit) -> tuple[float, float]:
        """How much was used, and how much may be."""
        total = Tally()
        for turn in await self._turns(limit):
            total = total.plus(turn.used, turn.outcome in ("completed", "interrupted"))
        return total.of(limit.measure), float(limit.amount) + await self._granted(limit)

    async def _turns(self, limit: Limit) -> Sequence[Turn]:
        """The turns that count for a limit: those of a task with all that are below it."""
        journal = self._run.storage.journal
        if limit.is_of_day:
            turns = await journal.spending(_midnight())
        else:
            task = limit.whose if limit.scope == "ticket" else self._run.task.session_id
            turns = await journal.spending(task_id=task)
        one = limit.whose if limit.scope in ("member", "member's day") else None
        return [
            turn for turn in turns if one in (None, base_of(turn.member)) and turn.used != REHEARSED
        ]

    async def _granted(self, limit: Limit) -> float:
        """How much more was given: for a day that is over, nothing."""
        session, since = self._run.task.session_id, _midnight()
        amounts: list[float] = []
        for question in await self._run.storage.inbox.questions(only_open=False):
            asked, given = question.interaction, question.response
            if not isinstance(asked.about, BudgetReached) or given is None:
                continue
            same = asked.about.scope == limit.scope and asked.about.measure == limit.measure
            counts = (
                (question.answered_at or "") >= since
                if limit.is_of_day
                else run_with(asked.task_id).partition(".")[0] == session
            )
            if same and counts and asked.about.member in (limit.whose, asked.task_id):
                amounts.append(more(given.input_value or "stop") or 0.0)
        return sum(amounts, 0.0)

    async def _ask(self, limit: Limit) -> None:
        """Ask about a limit that is reached; whoever else meets it waits for the same answer."""
        async with self._asking:
            if limit in self._parked:
                raise Parked(self._parked[limit])
            used, allowed = await self._state(limit)
            if used < allowed:
                return
            try:
                await self._put(limit, used, allowed)
            except Parked as parked:
                self._parked[limit] = parked.stop
                raise

    async def _put(self, limit: Limit, used: float, allowed: float) -> None:
        example = MORE_EXAMPLES[limit.measure]
        question = Ask(
            author="coterie",
            kind="Input",
            about=BudgetReached(
                scope=limit.scope,
                measure=limit.measure,
                used=used,
                limit=allowed,
                member=limit.whose,
                ticket=ticket_in(limit.whose) or None,
            ),
            validation=Validation(
                regex=MORE,
                required=True,
                meaning=f"an amount such as {example}, or stop",
                example=example,
            ),
            intent=[limit.scope, limit.measure, allowed],
        )
        for number in count(self._asked.get(key := f"{limit.scope}{limit.whose}{allowed}", 0) + 1):
            self._asked[key] = number
            name = step_name.budget(limit.scope, limit.measure, limit.whose, allowed, number)
            answer = await self._questions.ask(name, question)
            if more(answer.response.input_value or "stop") is not None:
                return
            if answer.fresh:  # a later run finds the answer and asks again
                raise Parked(Stopped("budget"))


def _needed(limit: Limit, attempt: Attempt, turns: Iterable[Turn]) -> float:
    """What a turn may use of a limit: nobody knows before a member has taken its first."""
    if limit.measure == "turns":
        return 1.0
    whose = base_of(attempt.member.id)
    seen = [Tally().plus(turn.used).of(limit.measure) for turn in turns if turn.used]
    mine = [
        amount
        for turn, amount in zip([turn for turn in turns if turn.used], seen, strict=True)
        if base_of(turn.member) == whose and turn.outcome is not None
    ]
    return _CAREFUL * max(mine) if mine else inf


def _midnight() -> str:
    return f"{instant.now()[:10]}T00:00:00"
