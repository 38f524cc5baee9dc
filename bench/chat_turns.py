"""What durability costs: a chat on an in-process agent beside a bare loop of commits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.bare import TEXT, Cost, bare_loop, side_by_side
from coterie.model.task import Caps
from coterie.testing.scripted import ScriptedChannels, stage, team


def chat(folder: Path, turns: int) -> Cost:
    """A durable chat of so many turns on members that answer at once."""
    return asyncio.run(_chat(folder, turns))


async def _chat(folder: Path, turns: int) -> Cost:
    channels = ScriptedChannels(lambda *_: TEXT)
    async with stage(folder) as it:
        await it.start(team("ann", "bob", "cat"), TEXT, Caps(max_turns=turns, max_rounds=None))
        cpu, wall = time.process_time(), time.perf_counter()
        result = await it.run(channels)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert (result.turns, result.reason) == (turns, "max_turns")
    return Cost(cpu / turns * 1e6, wall / turns * 1e6, (folder / "coterie.db").stat().st_size)


def characters_sent(folder: Path, turns: int) -> list[int]:
    """How much a member with a memory of its own is sent, turn by turn."""
    channels = ScriptedChannels(lambda *_: TEXT)

    async def run() -> None:
        async with stage(folder) as it:
            await it.start(team("ann", "bob", "cat"), TEXT, Caps(max_turns=turns, max_rounds=None))
            await it.run(channels)

    asyncio.run(run())
    return [len(prompt.text) for prompt in channels.opened[0].sent]


def compared(turns: int) -> tuple[Cost, Cost]:
    """The bare loop and the chat."""
    return side_by_side(bare_loop, chat, turns)
