"""The open channels of all sessions: one per session, agent and member, opened when needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio

from coterie.errors import CoterieError
from coterie.ports import Channel

Opener = Callable[[], Awaitable[Channel]]


class ChannelKey(NamedTuple):
    """Whose channel it is.  Compared as a tuple; the label is for people and is never parsed."""

    session: str
    agent: str
    member: str

    @property
    def label(self) -> str:
        """How it is shown."""
        return f"{self.agent}-{self.member}"


class RunningChannel(NamedTuple):
    """A channel whose process runs now."""

    key: ChannelKey
    pid: int


class _Place:
    """Where the channel of one key is kept; the lock is held while it is opened or closed."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.channel: Channel | None = None
        self.closing = 0

    async def empty(self) -> None:
        """Close what is there; a channel whose end was not proven stays."""
        if self.channel is not None:
            await self.channel.close()
            self.channel = None


class ChannelPool:
    """Gives out channels, and sees to it that there are never two at once for one key."""

    def __init__(self) -> None:
        self._places: dict[ChannelKey, _Place] = {}

    async def get(self, key: ChannelKey, opener: Opener) -> Channel:
        """The open channel of a key, or a new one if there is none or its agent has died.

        Raises what the opener raises, and ClosedResourceError when the channel was closed by
        someone else while it was being opened.
        """
        place = self._places.setdefault(key, _Place())
        async with place.lock:
            if place.channel is not None and place.channel.alive:
                return place.channel
            await place.empty()
            place.channel = await opener()
            if place.closing:
                await place.empty()
                raise anyio.ClosedResourceError(f"{key.label} was closed while it was opened")
            return place.channel

    def running(self, session: str | None = None) -> list[RunningChannel]:
        """What runs now, of one session or of all, in the order it was opened in."""
        channels = [(key, place.channel) for key, place in self._places.items()]
        return [
            RunningChannel(key, channel.pid)
            for key, channel in channels
            if channel is not None and channel.pid is not None and session in (None, key.session)
        ]

    async def close(self, key: ChannelKey) -> None:
        """Close one; returns when its agent is proven gone."""
        place = self._places.get(key)
        if place is None:
            return
        place.closing += 1
        with anyio.CancelScope(shield=True):
            try:
                async with place.lock:
                    await place.empty()
            finally:
                place.closing -= 1

    async def close_all(self, session: str | None = None) -> None:
        """Close all of a session, or all there are, side by side.

        Takes as long as the slowest of them, which is bounded.  One that cannot be closed does
        not keep the others from being; its error is raised when all have been tried.
        """
        keys = [key for key in self._places if session in (None, key.session)]
        failed: list[CoterieError] = []
        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(self._try_to_close, key, failed)
        if failed:
            raise failed[0]

    async def _try_to_close(self, key: ChannelKey, failed: list[CoterieError]) -> None:
        try:
            await self.close(key)
        except CoterieError as error:
            failed.append(error)
