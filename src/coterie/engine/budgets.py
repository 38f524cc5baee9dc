"""Budgets: what may be used is reserved before work begins; at a limit, the user is asked once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple

import anyio

from coterie.engine.attempt import Attempt
from coterie.engine.limits import sleep_until
from coterie.engine.questions import Questions, close_question
from coterie.engine.task_run import TaskRun
from coterie.model import instant, step_name
from coterie.model.about import BudgetReached, BudgetScope, Measure
from coterie.model.amount import MORE, format_amounts, parse_increase
from coterie.model.budget import Limit
from coterie.model.interaction import COTERIE, Answer, Ask, Question, Validation
from coterie.model.journal import IllegalWrite, Turn
from coterie.model.question_text import MORE_EXAMPLES
from coterie.model.record import ErrorRecord
from coterie.model.task import Stop, Stopped, leased_as, ticket_id_of, ticket_task_of
from coterie.model.team import Allowance, Member, Reservation, Tally, base_of, reports_measure
from coterie.model.update import REHEARSAL_USAGE, End
from coterie.ports import Parked

_COST_MARGIN = 2.0
"""A turn is assumed to cost up to this many times its member's most expensive turn."""
_REMEMBERED = 7 * 86_400.0
"""For how long the cost of a member's turns is taken into account, in seconds."""
_POLL_SECONDS = 0.5
"""Seconds between checks while waiting for what other turns have reserved."""
_MONEY_DECIMALS = 6
"""Decimal places to which sums of money are rounded, so that ten times 0.1 is 1."""


class _Blocked(NamedTuple):
    """Why a turn may not begin."""

    limit: Limit
    by: Sequence[Reservation]
    """The turns for which the rest is reserved; empty if the limit is reached."""


class Budgets:
    """Refuses the next model call when a budget is used up.

    What was used, what turns under way may still use and what was asked is all in the store, as
    other processes share the same budgets: no decision is based on this process's memory.
    """

    def __init__(self, run: TaskRun, questions: Questions) -> None:
        self._run = run
        self._questions = questions
        self._asking = defaultdict[Limit, anyio.Lock](anyio.Lock)
        self._asked = defaultdict[str, int](int)
        """By limit and amount: how often it was asked in this run."""
        self._parked: dict[Limit, Stop] = {}
        self._warned: set[tuple[str, Measure]] = set()
        """The members and measures for which a warning about unreported usage was shown."""
        self._is_new = True

    async def reserved(self, attempt: Attempt, make: Callable[[], Awaitable[End]]) -> End:
        """Make an attempt once what it may use is available; asks at a limit.  Raises Parked.

        One that is stopped or interrupted meanwhile is made at once: it ends before it uses
        anything.
        """
        if attempt.member.type == "human":  # people use no budget, and take their time
            return await make()
        if self._is_new:
            self._is_new = False
            await self._withdraw_old()
        try:
            with self._questions.waiting(attempt.member.id, attempt.interrupts):
                await self._reserve(attempt)
            return await make()
        finally:
            self._run.storage.reservations.drop(attempt.task_id, attempt.name)

    async def check(self, attempt: Attempt) -> None:
        """Ask, before anything more is used, if a limit is reached.  Raises Parked."""
        manages = not step_name.parse(attempt.name).topic
        with self._questions.interruptible(attempt.interrupts) as scope:
            for limit in self._limits(attempt.member, attempt.task_id):
                if limit.scope == "ticket" and manages:
                    continue  # other tickets wait for the manager's turn to end
                await self._ask_while_reached(limit, attempt.member)
        if scope.cancelled_caught:  # it no longer waits
            self._run.keep_state(attempt.member, "working")

    async def check_ticket(self, member: Member, task_id: str) -> None:
        """Ask, before a ticket's next turn, if the ticket's limit is reached.  Raises Parked."""
        for limit in self._limits(member, task_id):
            if limit.scope == "ticket":
                await self._ask_while_reached(limit, member)

    async def _reserve(self, attempt: Attempt) -> None:
        waits, seen = False, 0
        while (blocked := await self._blocked(attempt)) is not None:
            if not blocked.by:
                await self._ask(blocked.limit, attempt.member)
                continue
            if not waits:
                waits = True
                tasks = ", ".join(dict.fromkeys(one.task_id for one in blocked.by))
                reason = f"the rest is reserved for running turns: {tasks}"
                self._run.keep_state(attempt.member, "waiting", "budget", reason)
            with anyio.move_on_after(_POLL_SECONDS):  # a process that dies does not notify us
                seen = await self._run.storage.changed(seen)
        if waits:
            self._run.keep_state(attempt.member, "working")

    async def _blocked(self, attempt: Attempt) -> _Blocked | None:
        """Why a turn may not begin; None if it may, and then what it may use is reserved."""
        run, member = self._run, attempt.member
        fence, store = run.fence, run.storage.reservations
        mine = Reservation(
            attempt.task_id, attempt.name, member.id, instant.now(), fence.task_id, fence.token
        )
        while True:
            # Read before what was used: a turn that ends meanwhile counts twice instead of never.
            made, reserved = await store.all()
            others = await self._under_way(reserved, mine)
            for limit in self._limits(member, attempt.task_id):
                used, allowed = await self._state(limit)
                if used >= allowed:
                    return _Blocked(limit, ())
                by = [one for one in others if limit.counts(one)]
                if by and used + await self._needed(limit, (*by, mine)) > allowed:
                    return _Blocked(limit, by)
            if await store.add(fence, mine, made):
                return None

    async def _under_way(
        self, reserved: Sequence[Reservation], mine: Reservation
    ) -> list[Reservation]:
        """Reservations of turns in living processes, except for this turn's own and those of the
        parent task, which waits for this one."""
        own = (mine.task_id, mine.step), self._run.task.parent_id
        others = [one for one in reserved if one[:2] != own[0] and one.task_id != own[1]]
        if not others:
            return []
        leases = {lease.task_id: lease for lease in await self._run.storage.leases.all()}
        active: list[Reservation] = []
        lives: dict[str, bool] = {}
        for one in others:
            lease = leases.get(one.run)
            if lease is None or lease.token != one.token or lease.state == "parked":
                continue
            if lease.owner not in lives:
                lives[lease.owner] = await self._run.owners.living(lease.owner) is not None
            if lives[lease.owner]:
                active.append(one)
        return active

    async def _needed(self, limit: Limit, turns: Sequence[Reservation]) -> float:
        """How much of a limit turns may use; infinite for a member that has not taken one yet."""
        if limit.measure == "turns":
            return float(len(turns))
        dearest: dict[str, float] = {}
        for turn in await self._run.storage.journal.spending(instant.after(-_REMEMBERED)):
            used, member = turn.used, base_of(turn.member)
            if used == REHEARSAL_USAGE or not (used or turn.outcome == "completed"):
                continue
            amount = Tally().plus(used).of(limit.measure)
            dearest[member] = max(amount, dearest.get(member, 0.0))
        return sum(_COST_MARGIN * dearest.get(base_of(one.member), inf) for one in turns)

    def _limits(self, member: Member, task_id: str) -> Iterator[Limit]:
        task = self._run.task
        team, mine, name = task.team.budget, member.budget, base_of(member.id)
        tickets = {ticket_task_of(one) for one in (task_id, task.parent_id or "")} - {""}
        scopes: tuple[tuple[BudgetScope, Allowance, str], ...] = (
            ("task", team, task.session_id),
            ("day", team.per_day, ""),
            ("member", mine, name),
            ("member's day", mine.per_day, name),
            *(("ticket", team.per_ticket, ticket) for ticket in tickets),
        )
        for scope, allowance, whose in scopes:
            for measure, amount in allowance.limits():
                yield Limit(scope, measure, amount, whose, task.session_id)

    async def _state(self, limit: Limit) -> tuple[float, float]:
        """How much was used, and how much may be used."""
        total = Tally()
        for turn in await self._turns(limit):
            total = total.plus(turn.used, turn.outcome in ("completed", "interrupted"))
            if turn.outcome == "completed" and not reports_measure(turn.used, limit.measure):
                self._warn_of(limit, base_of(turn.member))
        used = round(total.of(limit.measure), _MONEY_DECIMALS)
        return used, round(limit.amount + await self._granted(limit), _MONEY_DECIMALS)

    def _warn_of(self, limit: Limit, member: str) -> None:
        """Warn, once, that a limit has no effect on a member whose agent reports no usage."""
        key = member, limit.measure
        if key in self._warned or self._run.task.team.instance(member) is None:
            return
        self._warned.add(key)
        what = "what its turns cost" if limit.measure == "usd" else "how many tokens it uses"
        self._run.observer.saw(
            ErrorRecord(
                code="budget_untold",
                message=f"{member}'s agent does not report {what}: the limit of "
                f"{format_amounts(limit.measure, limit.amount)} does not apply to it.",
                hint="Limit its turns instead, which are always counted.",
                member=member,
                task=self._run.task.task_id,
            )
        )

    async def _turns(self, limit: Limit) -> Sequence[Turn]:
        """The turns that count towards a limit: for a task, also those of all tasks below it."""
        journal = self._run.storage.journal
        if limit.is_of_day:
            turns = await journal.spending(limit.since)
        else:
            task = limit.whose if limit.scope == "ticket" else limit.session
            turns = await journal.spending(task_id=task)
        one = limit.whose if limit.is_of_member else None
        return [
            turn
            for turn in turns
            if one in (None, base_of(turn.member)) and turn.used != REHEARSAL_USAGE
        ]

    async def _granted(self, limit: Limit) -> float:
        inbox, session = self._run.storage.inbox, None if limit.is_of_day else limit.session
        return limit.granted(await inbox.budget_answers(limit.since, session))

    async def _ask_while_reached(self, limit: Limit, member: Member) -> None:
        while True:
            used, allowed = await self._state(limit)
            if used < allowed:
                return
            await self._ask(limit, member)

    async def _ask(self, limit: Limit, member: Member) -> None:
        """Ask about a limit that is reached; other turns that reach it wait for the same answer."""
        async with self._asking[limit]:
            if limit in self._parked:
                raise Parked(self._parked[limit])
            used, allowed = await self._state(limit)
            if used < allowed:
                return
            # A daily limit ends with the day, whether or not it was answered by then.
            until = instant.end_of_day() if limit.is_of_day else None
            reason = format_amounts(limit.measure, used, allowed)
            self._run.keep_state(member, "waiting", "budget", reason, until)
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    if until:
                        group.start_soon(_cancel_at, until, scope)
                    try:
                        await self._answered(limit, used, allowed)
                    except Parked as parked:
                        self._parked[limit] = parked.stop
                    group.cancel_scope.cancel()
            if limit in self._parked:
                raise Parked(self._parked[limit])
            if scope.cancelled_caught:
                await self._withdraw_old()
            self._run.keep_state(member, "working")

    async def _answered(self, limit: Limit, used: float, allowed: float) -> None:
        """Wait for the answer to the one question about a limit; asks it unless it is open.

        Raises Parked if the answer is to stop.  The question may already have been answered or
        closed: the caller checks what may be used after that.
        """
        while True:
            open_question = await self._open_question(limit)
            if open_question is not None:
                answer = await self._questions.follow(open_question)
            else:
                try:
                    answer = await self._put(limit, used, allowed)
                except IllegalWrite:  # another process was first
                    continue
            response = answer.response
            increase = parse_increase(response.input_value or "stop")
            if increase is not None or not response.by_person:
                return
            if answer.fresh:  # a later run finds the answer and asks again
                raise Parked(Stopped("budget"))

    async def _open_question(self, limit: Limit) -> Question | None:
        questions = await self._run.storage.inbox.questions()
        recent = (one for one in questions if one.asked_at >= limit.since)
        return next((one for one in recent if limit.is_asked_about(one.interaction)), None)

    async def _put(self, limit: Limit, used: float, allowed: float) -> Answer:
        example = MORE_EXAMPLES[limit.measure]
        question = Ask(
            author=COTERIE,
            kind="Input",
            about=BudgetReached(
                scope=limit.scope,
                measure=limit.measure,
                used=used,
                limit=allowed,
                member=limit.whose,
                ticket=ticket_id_of(limit.whose) or None,
            ),
            validation=Validation(
                regex=MORE,
                required=True,
                meaning=f"an amount such as {example}, or stop",
                example=example,
            ),
            intent=[limit.scope, limit.measure, allowed],
            once=f"{limit.since or limit.session} {limit.scope} {limit.measure} {limit.whose}",
        )
        key = f"{limit.scope} {limit.measure} {limit.whose} {allowed}"
        self._asked[key] += 1
        name = step_name.budget(limit.scope, limit.measure, limit.whose, allowed, self._asked[key])
        return await self._questions.ask(name, question)

    async def _withdraw_old(self) -> None:
        """Close this task's questions about a day that is over."""
        inbox = self._run.storage.inbox
        for question in await inbox.questions():
            interaction, about = question.interaction, question.interaction.about
            if not isinstance(about, BudgetReached):
                continue
            mine = leased_as(interaction.task_id) == self._run.task.task_id
            limit = Limit(about.scope, about.measure, about.limit, about.member, "")
            if mine and limit.is_of_day and question.asked_at < limit.since:
                await close_question(inbox, interaction, "the day is over")


async def _cancel_at(moment: str, scope: anyio.CancelScope) -> None:
    await sleep_until(moment)
    scope.cancel()
