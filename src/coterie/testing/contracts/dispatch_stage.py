"""What the suites of a `ports.Dispatch` share; `dispatch.py` is the whole suite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

import anyio
import pytest

from coterie.model.machine import Offer, Pool, queues_of
from coterie.ports import Dispatch

TASK = "k3f9"
OFFER = Offer(TASK, "seat", ("claude",))
HAS = ("claude", "codex")
PATIENCE = 30.0
HOUR = 3600.0


class DispatchStage(ABC):
    """What an implementation fills in, and what the suites of a dispatch share."""

    @abstractmethod
    async def open(self) -> Dispatch:
        """Nothing is on offer yet."""

    @abstractmethod
    async def create(self, task_id: str, parent: str | None = None) -> None:
        """There is a task."""

    @abstractmethod
    async def answer(self, task_id: str) -> None:
        """A question of it is asked and answered."""

    @abstractmethod
    async def say(self, task_id: str) -> None:
        """Something is said to it."""

    @abstractmethod
    async def end(self, task_id: str) -> None:
        """It is completed."""

    @abstractmethod
    async def live(self, owner: str, machine: str) -> None:
        """There is an owner."""

    @abstractmethod
    async def die(self, owner: str) -> None:
        """It is declared dead."""

    @abstractmethod
    async def lose_jobs(self) -> None:
        """The queue forgets all that was queued."""

    @abstractmethod
    async def later(self, seconds: float) -> None:
        """So much time goes by."""

    @pytest.fixture
    async def dispatch(self) -> AsyncGenerator[Dispatch]:
        """With two owners, of two machines."""
        opened = await self.open()
        await self.live("one", "gpu1")
        await self.live("two", "gpu2")
        yield opened
        await opened.close()

    async def handed_out(
        self,
        dispatch: Dispatch,
        machine: str = "gpu1",
        has: tuple[str, ...] = HAS,
        pool: Pool = "seat",
    ) -> list[str]:
        """What the queue hands to a machine now, in this order; it takes nothing."""
        seen: list[str] = []

        async def run(task_id: str) -> None:
            seen.append(task_id)

        with anyio.fail_after(PATIENCE):
            queues = queues_of(pool, has, machine)
            await dispatch.serve(pool, queues, 1, run, until_empty=True)
        return seen

    async def taken(self, dispatch: Dispatch, owner: str) -> Offer:
        """The offer, handed out and in hand."""
        assert TASK in await self.handed_out(dispatch)
        offer = await dispatch.take(TASK, owner)
        assert offer is not None
        return offer
