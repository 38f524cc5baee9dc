"""The journal at any crash point: a chat that dies anywhere, any number of times."""

from __future__ import annotations

import itertools
import re
import tempfile
from pathlib import Path

import anyio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from coterie.engine import steering
from coterie.model.conversation import Prompt
from coterie.model.task import ENDED, Caps, fold
from coterie.model.team import Member
from coterie.model.update import TurnFailed, Update
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import TASK, ScriptedChannels, ScriptedProject, scripted_project, team

TURNS = 7
deaths = st.builds(CrashPoint, st.integers(1, 40), st.booleans(), st.booleans())


def newest(prompt: Prompt) -> str:
    return prompt.text.rpartition("[MESSAGE]\n")[2]


class CrashingChat(RuleBasedStateMachine):
    """Ada, Bob and a human; every reply says what it replies to, so a wrong prompt shows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.executions: list[str] = []
        self.kills = 0
        self.said: list[str] = []
        self.status = "created"

    def script(self, member: Member, prompt: Prompt) -> str | list[Update]:
        heard = newest(prompt)
        self.executions.append(f"{member.id}<{heard}")
        if member.id == "bob" and len(self.executions) % 5 == 0:
            return [TurnFailed("exit", "exit code 1", 1)]
        depth = int((re.findall(r"\d+", heard) or ["0"])[-1])
        return f"{member.id} {depth + 1}"

    async def with_project(self, death: CrashPoint | None) -> None:
        real = await SqliteStorage.open(self.folder / "coterie.db")
        try:
            async with scripted_project(self.folder, CrashingStorage(real, death)) as it:
                try:
                    result = await it.run(ScriptedChannels(self.script), wait=0.0)
                    self.status = result.status
                except Crashed:
                    self.kills += 1
        finally:
            await real.close()

    async def answer_from_outside(self, *words: str) -> None:
        async with scripted_project(self.folder) as it:
            for word in words:
                await self._say(it, word)

    async def _say(self, it: ScriptedProject, word: str) -> None:
        for question in await it.look.questions():
            asked = question.interaction
            choice = "retry" if asked.kind == "Select" else None
            text = None if asked.kind == "Select" else word
            await steering.answer(it.look, asked.interaction_id, choice, text, "max")
            if text is not None:
                self.said.append(text)

    @initialize()
    def create(self) -> None:
        async def start() -> None:
            async with scripted_project(self.folder) as it:
                caps = Caps(max_turns=TURNS, max_rounds=None)
                await it.start(team("ada", "bob", human="max"), goal="word 0", caps=caps)

        anyio.run(start)

    @rule(death=deaths)
    def die(self, death: CrashPoint) -> None:
        if self.status not in ENDED:
            anyio.run(self.with_project, death)

    @rule(number=st.integers(0, 99))
    def answer(self, number: int) -> None:
        if self.status not in ENDED:
            anyio.run(self.answer_from_outside, f"word {number}")

    def teardown(self) -> None:
        async def check() -> None:
            while self.status not in ENDED:
                await self.with_project(None)
                if self.status not in ENDED:
                    await self.answer_from_outside("word 50")
            async with scripted_project(self.folder) as it:
                await self.check(it)

        if (self.folder / "coterie.db").exists():
            anyio.run(check)

    async def check(self, it: ScriptedProject) -> None:
        messages = await it.storage.conversation.messages(TASK)
        assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
        assert [message.turn for message in messages] == [0, *range(1, TURNS + 1)]
        names = [message.member for message in messages]
        assert names == (["max", "ada", "bob"] * 3)[: TURNS + 1]
        # No message is lost or doubled, and every reply was made for the message before it.
        assert [m.text for m in messages if m.member == "max"][1:] == self.said
        for before, reply in itertools.pairwise(messages):
            if reply.member != "max":
                depth = int(before.text.rpartition(" ")[2])
                assert reply.text == f"{reply.member} {depth + 1}"
        turns = await it.storage.journal.turns(TASK)
        assert sum(turn.outcome == "completed" for turn in turns) == TURNS
        failed = sum(turn.outcome == "failed" for turn in turns)
        spoken = sum(name != "max" for name in names[1:])
        assert len(self.executions) <= spoken + failed + self.kills
        assert fold(await it.storage.events.of_task(TASK)).reason == "max_turns"


CrashingChat.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
test_a_chat_survives_every_crash_point = CrashingChat.TestCase
