"""The contract of every `coterie.Adapter` and its channels.

Subclass `AgentContract`, implement `agent`, and pytest runs the whole suite.  It needs anyio's
plugin in auto mode and a fixture `anyio_backend` that returns "asyncio".
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import anyio
import psutil

from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import (
    Asked,
    End,
    ThreadAppended,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
)
from coterie.model.workspace import Workspace
from coterie.ports import Adapter, Channel
from coterie.testing.scripted import ChildRecorder

Behaviour = Literal["reply", "ask", "fail", "hang"]
"""What an agent does in its turn: reply; ask for one permission, then reply; fail; or emit
something and then go silent."""
SLOWEST = 30.0
"""No call of an adapter may take longer than this many seconds in the suite."""
SILENCE = 0.5
"""After this many seconds a hanging agent has emitted all it ever will."""


@dataclass(frozen=True)
class AgentUnderTest:
    """An adapter whose agent always behaves in one way, and what its channels are opened with."""

    adapter: Adapter
    member: Member
    workspace: Workspace
    answers: Callable[[], int] = lambda: 1
    """Returns how many answers the agent has received so far."""
    keep: Callable[[ThreadAppended], object] = lambda update: None
    """Stores what an agent of Coterie's own adds to its thread."""


class AgentContract(ABC):
    """The whole suite."""

    behaviours: ClassVar[frozenset[Behaviour]] = frozenset({"reply", "ask", "fail", "hang"})
    """What the agent can do; anything else is not tested."""

    @abstractmethod
    def agent(
        self, folder: Path, behaviour: Behaviour, children: ChildRecorder
    ) -> AbstractAsyncContextManager[AgentUnderTest]:
        """Open an adapter whose agent behaves this way in every turn."""
        ...

    @asynccontextmanager
    async def opened(
        self, folder: Path, behaviour: Behaviour
    ) -> AsyncGenerator[tuple[AgentUnderTest, Channel]]:
        """Open a channel; whatever was done with it, closing it twice must leave no process."""
        children = ChildRecorder()
        async with self.agent(folder, behaviour, children) as agent:
            with anyio.fail_after(SLOWEST):
                channel = await agent.adapter.open(agent.member, agent.workspace, None)
            assert channel.alive
            try:
                yield agent, channel
            finally:
                with anyio.CancelScope(shield=True), anyio.fail_after(SLOWEST):
                    await channel.close()
                    await channel.close()
                assert (channel.alive, channel.pid, children.living) == (False, None, {})
                assert [pid for pid in children.pids if psutil.pid_exists(pid)] == []

    async def test_turns_end_with_one_end(self, tmp_path: Path) -> None:
        """Two turns on one channel, each with updates and then exactly one `End`."""
        async with self.opened(tmp_path, "reply") as (agent, channel):
            limits = agent.adapter.limits(agent.member)
            assert limits.total > 0 < limits.quiet_after
            known = channel.holds_past, channel.thread
            for _ in range(2):
                assert isinstance(await self._end(agent, channel), TurnCompleted)
                assert channel.alive
            assert known[0] is channel.holds_past
            assert known[1] in (None, channel.thread)  # once known, it stays

    async def test_an_answer_reaches_the_agent_once(self, tmp_path: Path) -> None:
        """The agent continues once answered, and does not receive the answer twice."""
        if "ask" not in self.behaviours:
            return
        async with self.opened(tmp_path, "ask") as (agent, channel):
            assert isinstance(await self._end(agent, channel), TurnCompleted)
            assert agent.answers() == 1

    async def test_what_an_agent_does_is_not_raised(self, tmp_path: Path) -> None:
        """A turn that fails ends with a TurnFailed that says why."""
        if "fail" not in self.behaviours:
            return
        async with self.opened(tmp_path, "fail") as (agent, channel):
            end = await self._end(agent, channel)
            assert isinstance(end, TurnFailed)
            assert end.message

    async def test_an_interrupt_ends_the_turn(self, tmp_path: Path) -> None:
        """An interrupt while no turn runs ends nothing."""
        if "hang" not in self.behaviours:
            return
        async with self.opened(tmp_path, "hang") as (agent, channel):
            await channel.interrupt()
            end = await self._end(agent, channel, channel.interrupt)
            assert isinstance(end, TurnInterrupted | TurnCompleted)

    async def test_a_turn_may_be_cancelled(self, tmp_path: Path) -> None:
        """A channel whose turn was cancelled midway can still be closed."""
        if "hang" not in self.behaviours:
            return
        async with self.opened(tmp_path, "hang") as (agent, channel):
            with anyio.CancelScope() as scope:

                async def cancel() -> None:
                    scope.cancel()

                await self._end(agent, channel, cancel)
            assert scope.cancelled_caught

    async def test_an_unused_channel_is_closed(self, tmp_path: Path) -> None:
        """Closing works without any turn taken."""
        async with self.opened(tmp_path, "reply"):
            pass

    async def _end(
        self,
        agent: AgentUnderTest,
        channel: Channel,
        disturb: Callable[[], Awaitable[None]] | None = None,
    ) -> End:
        """Take a turn and approve its questions; `disturb` is called once it has fallen silent."""
        ends: list[End] = []
        with anyio.fail_after(SLOWEST):
            async with anyio.create_task_group() as group:
                if disturb is not None:
                    group.start_soon(_later, disturb)
                prompt = Prompt("hello", turn=f"turn/{secrets.token_hex(4)}", newest="hello")
                async with aclosing(channel.take_turn(prompt)) as updates:
                    async for update in updates:
                        assert ends == [], f"{update} after the end"
                        if isinstance(update, Asked):
                            await channel.answer(update.key, _approval())
                        elif isinstance(update, ThreadAppended):
                            agent.keep(update)
                        elif isinstance(update, End):
                            ends.append(update)
        assert len(ends) == 1
        return ends[0]


async def _later(disturb: Callable[[], Awaitable[None]]) -> None:
    await anyio.sleep(SILENCE)
    await disturb()


def _approval() -> Response:
    return Response(
        interaction_id="q1",
        task_id="k3f9",
        author_actor_id="you",
        selected_option_id="approve",
        input_value="yes",
    )
