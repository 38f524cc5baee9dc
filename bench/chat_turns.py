"""What durability costs: a chat on an in-process agent compared with a bare loop of commits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.bare import TEXT, Cost, bare_loop, interleaved
from coterie.model.task import Caps
from coterie.testing.scripted import ScriptedChannels, scripted_project, team


def chat(folder: Path, turns: int) -> Cost:
    """Run a durable chat of this many turns with members that answer at once."""
    return asyncio.run(_chat(folder, turns))


async def _chat(folder: Path, turns: int) -> Cost:
    channels = ScriptedChannels(lambda *_: TEXT)
    async with scripted_project(folder) as it:
        await it.start(team("ann", "bob", "cat"), TEXT, Caps(max_turns=turns, max_rounds=None))
        cpu, wall = time.process_time(), time.perf_counter()
        result = await it.run(channels)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert (result.turns, result.reason) == (turns, "max_turns")
    return Cost(cpu / turns * 1e6, wall / turns * 1e6, (folder / "coterie.db").stat().st_size)


def characters_sent(folder: Path, turns: int) -> list[int]:
    """Return how many characters a member with its own memory is sent, turn by turn."""
    channels = ScriptedChannels(lambda *_: TEXT)

    async def run() -> None:
        async with scripted_project(folder) as it:
            await it.start(team("ann", "bob", "cat"), TEXT, Caps(max_turns=turns, max_rounds=None))
            await it.run(channels)

    asyncio.run(run())
    return [len(prompt.text) for prompt in channels.opened[0].sent]


def compare(turns: int) -> tuple[Cost, Cost]:
    """Measure the bare loop and the chat."""
    return interleaved(bare_loop, chat, turns)
