"""How often a member may be asked: by the rate limit that its metadata gives it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic

import anyio

from coterie.engine.desk import Desk
from coterie.model.team import Member, base_of

MINUTE = 60.0


class Pace:
    """Holds turns back until their member's limit allows them; its instances share it."""

    def __init__(
        self,
        desk: Desk,
        now: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._desk = desk
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
            self._desk.tell_state(member, "waiting", reason)
            await self._sleep(left)
