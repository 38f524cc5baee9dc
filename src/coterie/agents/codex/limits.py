"""The account's limits, as Codex tells them: windows of time, each used up to so many percent."""

from __future__ import annotations

from coterie.agents import resets
from coterie.agents.fields import mapping, number, text
from coterie.agents.wire import Object

UPDATED = "account/rateLimits/updated"
_WINDOWS = ("primary", "secondary")
_ALL = 100
_BY_TIME = "rate_limit_reached"
"""What is reached, if it is not the credits, or a limit that somebody in the company has set."""


class Limits:
    """What is known of them; what an update does not speak of stays as it was."""

    def __init__(self) -> None:
        self._waiting_helps = True
        self._used_up: dict[tuple[str, str], int | float] = {}
        """By limit and window: when that begins anew, in seconds since 1970."""

    def hear(self, params: Object) -> None:
        """Take an update in."""
        told = mapping(params.get("rateLimits"))
        reached = text(told.get("rateLimitReachedType"))
        if reached:
            self._waiting_helps = reached == _BY_TIME
        for name in _WINDOWS:
            window = mapping(told.get(name))
            place = (text(told.get("limitId")), name)
            if number(window.get("usedPercent")) >= _ALL:
                self._used_up[place] = number(window.get("resetsAt"))
            elif window:
                self._used_up.pop(place, None)

    @property
    def until(self) -> str | None:
        """When the last of those that are used up ends; None where nobody knows."""
        last = max(self._used_up.values(), default=0)
        return resets.at(last) if self._waiting_helps else None
