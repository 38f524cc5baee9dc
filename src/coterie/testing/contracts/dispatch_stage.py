"""What the `ports.Dispatch` suites share; `dispatch.py` is the whole suite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator

import anyio
import pytest

from coterie.model.machine import Offer, Pool, queues_of
from coterie.ports import Dispatch

TASK = "k3f9"
OFFER = Offer(TASK, "seat", ("claude",))
AGENTS = ("claude", "codex")
TIMEOUT = 30.0
HOUR = 3600.0


class DispatchHarness(ABC):
    """What an implementation provides, and helpers that the suites share."""

    @abstractmethod
    async def open(self) -> Dispatch:
        """Open a dispatch with nothing on offer yet."""

    @abstractmethod
    async def create(self, task_id: str, parent: str | None = None) -> None:
        """Create a task."""

    @abstractmethod
    async def answer(self, task_id: str) -> None:
        """Have a task ask a question, and answer it."""

    @abstractmethod
    async def send_message(self, task_id: str) -> None:
        """Send a task a message."""

    @abstractmethod
    async def end(self, task_id: str) -> None:
        """Complete a task."""

    @abstractmethod
    async def register_owner(self, owner: str, machine: str) -> None:
        """Register a living owner."""

    @abstractmethod
    async def die(self, owner: str) -> None:
        """Declare an owner dead."""

    @abstractmethod
    async def lose_jobs(self) -> None:
        """Make the queue forget all its jobs."""

    @abstractmethod
    async def later(self, seconds: float) -> None:
        """Let this much time pass."""

    @pytest.fixture
    async def dispatch(self) -> AsyncGenerator[Dispatch]:
        """A dispatch with two owners, on two machines."""
        opened = await self.open()
        await self.register_owner("one", "gpu1")
        await self.register_owner("two", "gpu2")
        yield opened
        await opened.close()

    async def handed_out(
        self,
        dispatch: Dispatch,
        machine: str = "gpu1",
        has: tuple[str, ...] = AGENTS,
        pool: Pool = "seat",
    ) -> list[str]:
        """Return what the queue hands to a machine now, in order; nothing is taken."""
        seen: list[str] = []

        async def run(task_id: str) -> None:
            seen.append(task_id)

        with anyio.fail_after(TIMEOUT):
            queues = queues_of(pool, has, machine)
            await dispatch.serve(pool, queues, 1, run, once=True)
        return seen

    async def taken(self, dispatch: Dispatch, owner: str) -> Offer:
        """Have the offer handed out and taken; returns it."""
        assert TASK in await self.handed_out(dispatch)
        offer = await dispatch.take(TASK, owner)
        assert offer is not None
        return offer
