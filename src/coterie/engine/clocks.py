"""The clocks above a turn: quiet, and the total limit.  They stop while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from coterie.model.prompt import Limits

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

    def stop(self) -> None:
        """The attempt is over."""
        self._total.stop()
        self._quiet.stop()

    def _is_silent(self) -> None:
        self.is_quiet = True
        self._on_quiet(self._loop.time() - self._touched)
