"""The contract of every `coterie.Workflow`: reach the same end wherever its process dies.

Subclass `WorkflowContract`, define what its members reply, and pytest runs the whole suite.  It
needs anyio's plugin in auto mode and a fixture `anyio_backend` that returns "asyncio".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import product
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread

from coterie.engine import steering
from coterie.model.conversation import Prompt
from coterie.model.interaction import Interaction
from coterie.model.step_name import parse
from coterie.model.task import ENDED, Caps, fold
from coterie.model.team import Member, Team
from coterie.ports import Workflow
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import (
    TASK,
    ScriptedChannels,
    ScriptedProject,
    TurnScript,
    scripted_project,
    team,
)

LONGEST = 60.0
"""No run of a workflow may take longer than this many seconds in the suite."""


class WorkflowContract(ABC):
    """The whole suite."""

    goal: ClassVar[str] = "hello"
    caps: ClassVar[Caps] = Caps()
    stride: ClassVar[int] = 1
    """The process dies at every n-th call of the store; 1 means at each of them."""

    @abstractmethod
    def workflow(self) -> Workflow:
        """Create the workflow."""
        ...

    @abstractmethod
    def reply(self, member: Member, prompt: Prompt) -> TurnScript | Awaitable[TurnScript]:
        """Return a member's reply, always the same for the same prompt."""
        ...

    def team(self) -> Team:
        return team("ada", "bob")

    def answer(self, question: Interaction) -> str:
        """Return the user's answer: an option's id, or text."""
        return question.options[0].id if question.options else "go on"

    def prepare(self, root: Path) -> None:
        """Set up what the project needs."""
        (root / ".coterie").mkdir(parents=True)

    async def outcome(self, ended: ScriptedProject) -> object:
        """Return what every run must agree on: its end, the conversation, the names of steps."""
        names = [step.name for step in await ended.storage.journal.steps(TASK)]
        own = [name for name in names if parse(name).is_own]
        state = fold(await ended.storage.events.of_task(TASK))
        conversation = await ended.conversation()
        return state.status, state.reason, state.summary, conversation, own

    async def test_it_ends_the_same_in_every_run(self, tmp_path: Path) -> None:
        """It takes the same steps, each with a name of its own."""
        one, other = tmp_path / "one", tmp_path / "other"
        async with self._ended(one) as first, self._ended(other) as second:
            same, expected = await self.outcome(first), await self.outcome(second)
            assert same == expected, f"{same}\n{expected}"

    async def test_it_ends_the_same_wherever_its_process_dies(self, tmp_path: Path) -> None:
        """It dies before each store call, losing what was queued, or after it, keeping that."""
        async with self._ended(tmp_path / "alive") as alive:
            assert isinstance(alive.storage, CrashingStorage)
            calls = alive.storage.calls
            expected = await self.outcome(alive)
        for call, survives in product(range(1, calls + 1, self.stride), (False, True)):
            death = CrashPoint(call, took_effect=survives, queued_kept=survives)
            async with self._ended(tmp_path / f"{call}-{survives}", death) as again:
                outcome = await self.outcome(again)
                assert outcome == expected, f"{death}\n{outcome}\n{expected}"

    async def test_what_has_ended_stays_so(self, tmp_path: Path) -> None:
        """A task that is run again after its end stays as it was, and opens no channel."""
        async with self._ended(tmp_path) as ended:
            expected = await self.outcome(ended)
            channels = ScriptedChannels(self.reply)
            await ended.run(channels)
            assert channels.opened == []
            assert await self.outcome(ended) == expected

    @asynccontextmanager
    async def _ended(
        self, root: Path, death: CrashPoint | None = None
    ) -> AsyncGenerator[ScriptedProject]:
        """Run a task to its end, answering all questions; its process may die on the way."""
        await anyio.to_thread.run_sync(self.prepare, root)
        real = await SqliteStorage.in_memory()  # outlives the processes that die
        storage = CrashingStorage(real, None)
        try:
            async with self._project(root, storage) as on:
                await on.start(self.team(), self.goal, self.caps, self.workflow().name)
            storage = CrashingStorage(real, death)
            while not await self._run(root, storage):
                if storage.dead:
                    storage = CrashingStorage(real, None)
            async with self._project(root, CrashingStorage(real, None, storage.calls)) as on:
                yield on
        finally:
            await real.close()

    def _project(
        self, root: Path, storage: CrashingStorage
    ) -> AbstractAsyncContextManager[ScriptedProject]:
        return scripted_project(root / ".coterie", storage, self.workflow(), root=root)

    async def _run(self, root: Path, storage: CrashingStorage) -> bool:
        """Run once and answer what it asked; returns whether the task has ended."""
        with suppress(Crashed), anyio.fail_after(LONGEST):
            async with self._project(root, storage) as on:
                result = await on.run(ScriptedChannels(self.reply))
                if result.status in ENDED:
                    return True
                await self._answer_all(on)
        return False

    async def _answer_all(self, on: ScriptedProject) -> None:
        questions = await on.storage.inbox.questions()
        assert questions, "the task is parked, but no question is open"
        for question in questions:
            asked = question.interaction
            choice = self.answer(asked)
            await steering.answer(on.look, asked.interaction_id, choice, None, "you")
