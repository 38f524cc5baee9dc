"""Timeouts and rate limits of turns.  Timeouts stop while a person is asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from math import inf
from time import monotonic

import anyio

from coterie.engine.task_run import TaskRun
from coterie.model.prompt import Limits
from coterie.model.team import Member, base_of

_EARLY = 0.001
"""Timers may fire this much too soon, in seconds."""


class Alarm:
    """Calls back when it is due.  It may be put off for every update of an agent, so that costs
    next to nothing: a timer that fires looks whether it is really due and sleeps again if not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._due = inf
        self._timer: asyncio.TimerHandle | None = None

    def put_off(self, due: float) -> None:
        """Ring at this time of the loop, not before; `inf` is never."""
        self._due = due
        if self._timer is None and due != inf:
            self._timer = self._loop.call_at(due, self._look)

    def stop(self) -> None:
        """Never ring again."""
        self._due = inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() + _EARLY < self._due:
            self.put_off(self._due)
        else:
            self._due = inf
            self._ring()


class TurnClock:
    """Watches one attempt."""

    def __init__(
        self, limits: Limits, on_quiet: Callable[[float], None], on_total: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._on_quiet = on_quiet
        self._left = limits.total
        self._quiet = Alarm(self._loop, self._is_silent)
        self._total = Alarm(self._loop, on_total)
        self._started = self._touched = 0.0
        self.is_quiet: bool = False
        """Whether quiet was told and nothing has come since."""
        self.resume()

    def touch(self) -> None:
        """The agent gave a sign of life: whatever was told of its quiet is over."""
        self.is_quiet = False  # told once per incident
        self._touched = self._loop.time()
        self._quiet.put_off(self._touched + self._limits.quiet_after)

    def pause(self) -> None:
        """A person is asked: time does not count."""
        self._left -= self._loop.time() - self._started
        self._total.put_off(inf)
        self._quiet.put_off(inf)

    def resume(self) -> None:
        """Time counts again."""
        self.touch()
        self._started = self._touched
        self._total.put_off(self._started + max(0.0, self._left))

    @contextmanager
    def paused(self, wanted: bool) -> Generator[None]:
        """Time does not count in the block, if that is wanted."""
        if not wanted:
            yield
            return
        self.pause()
        yield
        self.resume()

    def stop(self) -> None:
        """The attempt is over."""
        self._total.stop()
        self._quiet.stop()

    def _is_silent(self) -> None:
        self.is_quiet = True
        self._on_quiet(self._loop.time() - self._touched)


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
            reason = f"{most} turns a minute are allowed; the next in {left:.0f} s"
            self._run.show_state(member, "waiting", reason)
            await self._sleep(left)
