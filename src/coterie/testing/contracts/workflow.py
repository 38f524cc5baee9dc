"""What every `coterie.Workflow` must do: come to the same end wherever its process dies.

Subclass `WorkflowContract`, say what its members reply, and pytest runs the whole suite.  It needs
anyio's plugin in auto mode and a fixture `anyio_backend` that says "asyncio".
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
from coterie.testing.crash import Death, Died, MortalStorage
from coterie.testing.scripted import TASK, Played, ScriptedChannels, Stage, stage, team

LONGEST = 60.0
"""No run of a workflow may take longer than this many seconds here."""


class WorkflowContract(ABC):
    """The whole suite."""

    goal: ClassVar[str] = "hello"
    caps: ClassVar[Caps] = Caps()
    stride: ClassVar[int] = 1
    """Every how many calls of the store a process dies: 1 is at each of them."""

    @abstractmethod
    def workflow(self) -> Workflow:
        """The workflow, new."""
        ...

    @abstractmethod
    def reply(self, member: Member, prompt: Prompt) -> Played | Awaitable[Played]:
        """What a member replies, the same whenever it is asked the same."""
        ...

    def team(self) -> Team:
        return team("ada", "bob")

    def answer(self, question: Interaction) -> str:
        """What the user answers: an option's id, or text."""
        return question.options[0].id if question.options else "go on"

    def prepare(self, root: Path) -> None:
        """Make what the project needs."""
        (root / ".coterie").mkdir(parents=True)

    async def outcome(self, ended: Stage) -> object:
        """What must be the same in every run: how it ended, what was said, the names of steps."""
        names = [step.name for step in await ended.storage.journal.steps(TASK)]
        own = [name for name in names if parse(name).is_own]
        state = fold(await ended.storage.events.of_task(TASK))
        said = await ended.conversation()
        return state.status, state.reason, state.summary, said, own

    async def test_it_ends_the_same_in_every_run(self, tmp_path: Path) -> None:
        """By the same steps, each of which has a name of its own."""
        one, other = tmp_path / "one", tmp_path / "other"
        async with self._ended(one) as first, self._ended(other) as second:
            same, expected = await self.outcome(first), await self.outcome(second)
            assert same == expected, f"{same}\n{expected}"

    async def test_it_ends_the_same_wherever_its_process_dies(self, tmp_path: Path) -> None:
        """Before every call of the store, without what was queued, and after it, with that."""
        async with self._ended(tmp_path / "alive") as alive:
            assert isinstance(alive.storage, MortalStorage)
            calls = alive.storage.calls
            expected = await self.outcome(alive)
        for call, survives in product(range(1, calls + 1, self.stride), (False, True)):
            death = Death(call, took_effect=survives, queued_kept=survives)
            async with self._ended(tmp_path / f"{call}-{survives}", death) as again:
                found = await self.outcome(again)
                assert found == expected, f"{death}\n{found}\n{expected}"

    async def test_what_has_ended_stays_so(self, tmp_path: Path) -> None:
        """A task that is run again after its end is as it was, and nobody is asked anything."""
        async with self._ended(tmp_path) as ended:
            expected = await self.outcome(ended)
            channels = ScriptedChannels(self.reply)
            await ended.run(channels)
            assert channels.opened == []
            assert await self.outcome(ended) == expected

    @asynccontextmanager
    async def _ended(self, root: Path, death: Death | None = None) -> AsyncGenerator[Stage]:
        """A task that has come to its end, all questions answered; it dies once on the way."""
        await anyio.to_thread.run_sync(self.prepare, root)
        real = await SqliteStorage.in_memory()  # outlives the processes that die
        storage = MortalStorage(real, None)
        try:
            async with self._stage(root, storage) as on:
                await on.start(self.team(), self.goal, self.caps, self.workflow().name)
            storage = MortalStorage(real, death)
            while not await self._run(root, storage):
                if storage.dead:
                    storage = MortalStorage(real, None)
            async with self._stage(root, MortalStorage(real, None, storage.calls)) as on:
                yield on
        finally:
            await real.close()

    def _stage(self, root: Path, storage: MortalStorage) -> AbstractAsyncContextManager[Stage]:
        return stage(root / ".coterie", storage, self.workflow(), root=root)

    async def _run(self, root: Path, storage: MortalStorage) -> bool:
        """One run, and answers to what it asked; whether the task has ended."""
        with suppress(Died), anyio.fail_after(LONGEST):
            async with self._stage(root, storage) as on:
                result = await on.run(ScriptedChannels(self.reply))
                if result.status in ENDED:
                    return True
                await self._answer_all(on)
        return False

    async def _answer_all(self, on: Stage) -> None:
        questions = await on.storage.inbox.questions()
        assert questions, "it is parked, and nobody is asked"
        for question in questions:
            asked = question.interaction
            choice = self.answer(asked)
            await steering.answer(on.look, asked.interaction_id, choice, None, "you")
