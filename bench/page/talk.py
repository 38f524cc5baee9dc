"""A chat of another process, for the page to follow.

    python -m bench.page.talk FOLDER TURNS PER_SECOND

Members answer `event N`, so many times a second (0: as fast as they can), by the real engine on the
project's own store, from when a line is read: whoever follows the task can be ready by then.
Printed at the end: when each was committed, in milliseconds since 1970.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import anyio
import anyio.to_thread

from coterie.model.conversation import Prompt
from coterie.model.record import MessageRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member
from coterie.testing.scripted import Recorder, ScriptedChannels, stage, team


class _Clock(Recorder):
    """Remembers when a message was known to be kept, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[float] = []

    def saw(self, record: Record) -> None:
        if isinstance(record, MessageRecord) and record.text.startswith("event "):
            self.committed.append(time.time() * 1000)


async def talk(folder: Path, turns: int, per_second: float) -> list[float]:
    """Hold the chat."""
    begun = said = 0

    async def answer(_: Member, __: Prompt) -> str:
        nonlocal begun, said
        said, begun = said + 1, begun or time.monotonic()
        if per_second:
            await anyio.sleep(max(begun + said / per_second - time.monotonic(), 0))
        return f"event {said}"

    async with stage(folder) as it:
        it.recorder = clock = _Clock()
        await it.start(team("ann", "bob"), "hello", Caps(max_turns=turns, max_rounds=None))
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await it.run(ScriptedChannels(answer))
    return clock.committed


if __name__ == "__main__":
    made = anyio.run(talk, Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write(json.dumps(made))
