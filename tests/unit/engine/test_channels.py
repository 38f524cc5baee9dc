from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import anyio
import pytest

from coterie.engine.channels import ChannelKey, ChannelPool
from coterie.errors import AgentMissing
from coterie.model.conversation import Prompt
from coterie.model.interaction import Response
from coterie.model.update import TurnCompleted, Update

ANN = ChannelKey("s1", "cat", "ann")


@dataclass
class FakeChannel:
    """A channel that only knows whether it is open."""

    pid: int | None = 1
    alive: bool = True
    thread: str | None = None
    holds_past: bool = True
    problem: AgentMissing | None = None
    closing: anyio.Event = field(default_factory=anyio.Event)
    may_close: anyio.Event | None = None

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        yield TurnCompleted("")

    async def answer(self, key: str, response: Response) -> None: ...

    async def interrupt(self) -> None: ...

    async def close(self) -> None:
        self.closing.set()
        if self.may_close is not None:
            await self.may_close.wait()
        if self.problem is not None:
            raise self.problem
        self.alive, self.pid = False, None


@dataclass
class ChannelOpener:
    """Open lines and remember them."""

    pool: ChannelPool = field(default_factory=ChannelPool)
    channels: list[FakeChannel] = field(default_factory=list[FakeChannel])

    async def open(self) -> FakeChannel:
        await anyio.lowlevel.checkpoint()
        self.channels.append(FakeChannel(pid=len(self.channels) + 1))
        return self.channels[-1]


async def test_a_channel_is_opened_once_and_used_again() -> None:
    exchange = ChannelOpener()
    first = await exchange.pool.get(ANN, exchange.open)
    assert await exchange.pool.get(ANN, exchange.open) is first
    assert len(exchange.channels) == 1


async def test_many_at_once_get_one_channel() -> None:
    exchange = ChannelOpener()
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(exchange.pool.get, ANN, exchange.open)
    assert len(exchange.channels) == 1


async def test_sessions_agents_and_members_never_share() -> None:
    exchange = ChannelOpener()
    keys = [
        ANN,
        ChannelKey("s2", "cat", "ann"),
        ChannelKey("s1", "dog", "ann"),
        ChannelKey("s1", "cat", "ann#2"),
    ]
    opened = [await exchange.pool.get(key, exchange.open) for key in keys]
    assert len(set(map(id, opened))) == len(keys)
    assert [await exchange.pool.get(key, exchange.open) for key in keys] == opened
    # Equal labels do not make equal keys.
    assert ChannelKey("s", "a-b", "c").label == ChannelKey("s", "a", "b-c").label == "a-b-c"
    assert ChannelKey("s", "a-b", "c") != ChannelKey("s", "a", "b-c")


async def test_a_dead_channel_is_closed_and_replaced() -> None:
    exchange = ChannelOpener()
    first = await exchange.pool.get(ANN, exchange.open)
    exchange.channels[0].alive = False
    assert await exchange.pool.get(ANN, exchange.open) is not first
    assert exchange.channels[0].closing.is_set()


async def test_no_new_one_while_the_old_one_cannot_be_ended() -> None:
    exchange = ChannelOpener()
    await exchange.pool.get(ANN, exchange.open)
    exchange.channels[0].problem = AgentMissing("ann", "f", "cat", "would not die")
    exchange.channels[0].alive = False
    with pytest.raises(AgentMissing):
        await exchange.pool.get(ANN, exchange.open)
    assert len(exchange.channels) == 1


async def test_a_new_one_waits_for_the_end_of_the_old_one() -> None:
    exchange = ChannelOpener()
    await exchange.pool.get(ANN, exchange.open)
    old = exchange.channels[0]
    old.may_close = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(exchange.pool.close, ANN)
        await old.closing.wait()
        group.start_soon(exchange.pool.get, ANN, exchange.open)
        await anyio.wait_all_tasks_blocked()
        assert len(exchange.channels) == 1
        old.may_close.set()
    assert len(exchange.channels) == 2


async def test_one_that_is_closed_while_it_is_opened_is_not_kept() -> None:
    exchange = ChannelOpener()
    may_open, opening = anyio.Event(), anyio.Event()

    async def open_late() -> FakeChannel:
        opening.set()
        await may_open.wait()
        return await exchange.open()

    async def get() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await exchange.pool.get(ANN, open_late)

    async with anyio.create_task_group() as group:
        group.start_soon(get)
        await opening.wait()
        group.start_soon(exchange.pool.close_all)
        await anyio.wait_all_tasks_blocked()
        may_open.set()
    assert [line.alive for line in exchange.channels] == [False]
    assert await exchange.pool.get(ANN, exchange.open) is exchange.channels[1]


async def test_all_are_closed_side_by_side_even_if_one_fails() -> None:
    exchange = ChannelOpener()
    members = [ChannelKey("s1", "cat", name) for name in ("ann", "bob", "cyd")]
    for key in members:
        await exchange.pool.get(key, exchange.open)
    exchange.channels[1].problem = AgentMissing("bob", "f", "cat", "would not die")
    exchange.channels[2].may_close = exchange.channels[
        0
    ].closing  # waits until the first is closing too
    exchange.channels[0].may_close = exchange.channels[2].closing
    with pytest.raises(AgentMissing):
        await exchange.pool.close_all("s1")
    assert [line.alive for line in exchange.channels] == [False, True, False]
    assert (
        await exchange.pool.get(members[1], exchange.open) is exchange.channels[1]
    )  # still pooled


async def test_closing_is_not_cancelled_half_way() -> None:
    exchange = ChannelOpener()
    await exchange.pool.get(ANN, exchange.open)
    exchange.channels[0].may_close = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(exchange.pool.close, ANN)
        await exchange.channels[0].closing.wait()
        group.cancel_scope.cancel()
        exchange.channels[0].may_close.set()
    assert not exchange.channels[0].alive
