"""The clocks above a turn: quiet, and the total limit.  They stop while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coterie.model.prompt import Limits


class TurnClock:
    """Watches one attempt.  `touch` is called for every update and costs next to nothing:
    a timer that fires looks whether it is really due and sleeps again if not."""

    def __init__(
        self, limits: Limits, on_quiet: Callable[[float], None], on_total: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._on_quiet = on_quiet
        self._on_total = on_total
        self._left = limits.total
        self._quiet_told = False
        self._timers: list[asyncio.TimerHandle] = []
        self._started = self._touched = 0.0
        self.resume()

    @property
    def is_quiet(self) -> bool:
        """Whether quiet was told and nothing has come since."""
        return self._quiet_told

    def touch(self) -> None:
        """The agent gave a sign of life: whatever was told of its quiet is over."""
        self._touched = self._loop.time()
        if self._quiet_told:
            self._quiet_told = False
            self._timers.append(self._loop.call_later(self._limits.quiet_after, self._look))

    def pause(self) -> None:
        """A person is asked: time does not count."""
        self._left -= self._loop.time() - self._started
        self.stop()

    def resume(self) -> None:
        """Time counts again."""
        self._started = self._touched = self._loop.time()
        self._timers = [
            self._loop.call_later(max(0.0, self._left), self._on_total),
            self._loop.call_later(self._limits.quiet_after, self._look),
        ]

    def stop(self) -> None:
        """The attempt is over."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _look(self) -> None:
        silent = self._loop.time() - self._touched
        if silent + 0.001 < self._limits.quiet_after:
            rest = self._limits.quiet_after - silent
            self._timers.append(self._loop.call_later(rest, self._look))
            return
        self._quiet_told = True  # once per incident: armed again by the next sign of life
        self._on_quiet(silent)
