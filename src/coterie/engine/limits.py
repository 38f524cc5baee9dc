"""How often members may take turns: so many a minute, and none before a limit ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

import anyio

from coterie.engine.questions import Questions
from coterie.engine.task_run import TaskRun
from coterie.model import instant
from coterie.model.journal import Turn
from coterie.model.team import Member, base_of

MINUTE = 60.0
_LONGEST_SLEEP = 30.0
"""So much later than asked does a wait for an instant end if the machine was suspended meanwhile:
timers stand still then."""


async def sleep_until(moment: str, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
    """Sleep until an instant, by the clock on the wall."""
    while (left := instant.seconds_until(moment)) > 0:
        await sleep(min(left, _LONGEST_SLEEP))


class RateLimiter:
    """Delays turns until their member's limit allows them; instances of a member share it."""

    def __init__(
        self,
        run: TaskRun,
        questions: Questions,
        now: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._run = run
        self._questions = questions
        self._now = now
        self._sleep = sleep
        self._begun: dict[str, deque[float]] = {}
        """By member: when its turns in the last minute began."""

    async def wait_for_reset(self, member: Member, past: Sequence[Turn]) -> None:
        """Wait for the end of a limit that an earlier run hit, if that was asked for: until then
        calls would fail."""
        run, interrupts = self._run, self._questions.interrupts
        if not (run.services.at_reset and past and past[-1].outcome == "limited"):
            return
        for kept in await run.storage.member_states(run.task.task_id):
            is_limit = kept.member == member.id and kept.waits_for == "limit"
            if is_limit and kept.until and instant.seconds_until(kept.until) > 0:
                run.keep_state(member, "waiting", "limit", until=kept.until)
                await self.sleep_until(kept.until, member, interrupts)

    async def sleep_until(self, moment: str, member: Member, interrupts: float) -> None:
        """Sleep until an instant, or until the member is stopped or its turn interrupted."""
        with self._questions.waiting(member.id, interrupts):
            await sleep_until(moment, self._sleep)

    async def begin(self, member: Member, interrupts: float) -> None:
        """Wait until the member may begin a turn, and count it; stop or interrupt end the wait."""
        if member.turns_per_minute is not None:
            with self._questions.waiting(member.id, interrupts):
                await self._begin(member, member.turns_per_minute)

    async def _begin(self, member: Member, most: int) -> None:
        begun = self._begun.setdefault(base_of(member.id), deque())
        while True:
            while begun and begun[0] <= self._now() - MINUTE:
                begun.popleft()
            if len(begun) < most:
                begun.append(self._now())
                return
            left = begun[0] + MINUTE - self._now()
            turns = "1 turn a minute is" if most == 1 else f"{most} turns a minute are"
            allowed = f"{turns} allowed"
            self._run.keep_state(member, "waiting", "limit", allowed, instant.after(left))
            await self._sleep(left)
