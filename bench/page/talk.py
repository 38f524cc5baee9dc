"""A chat in another process, for the page to follow.

    python -m bench.page.talk FOLDER TURNS PER_SECOND

Members answer `event N`, this often per second (0: as fast as they can), using the real engine on
the project's own store.  They begin when a line is read, so that whoever follows the task can be
ready.  Printed at the end: when each was committed, in milliseconds since 1970.
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
from coterie.testing.scripted import Recorder, ScriptedChannels, scripted_project, team


class _Clock(Recorder):
    """Records only when a message was known to be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[float] = []

    def saw(self, record: Record) -> None:
        if isinstance(record, MessageRecord) and record.text.startswith("event "):
            self.committed.append(time.time() * 1000)


async def talk(folder: Path, turns: int, per_second: float) -> list[float]:
    """Hold the chat; return when each message was committed."""
    begun = sent = 0

    async def answer(_: Member, __: Prompt) -> str:
        nonlocal begun, sent
        sent, begun = sent + 1, begun or time.monotonic()
        if per_second:
            await anyio.sleep(max(begun + sent / per_second - time.monotonic(), 0))
        return f"event {sent}"

    async with scripted_project(folder) as it:
        it.recorder = clock = _Clock()
        await it.start(team("ann", "bob"), "hello", Caps(max_turns=turns, max_rounds=None))
        await anyio.to_thread.run_sync(sys.stdin.readline)
        await it.run(ScriptedChannels(answer))
    return clock.committed


if __name__ == "__main__":
    made = anyio.run(talk, Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write(json.dumps(made))
