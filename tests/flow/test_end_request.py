"""A conversation hears what it is sent at any instant: a request to end, or any message.

The instants are the run's store calls; the requests come from another process.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from coterie.engine import steering
from coterie.model.conversation import Prompt
from coterie.model.task import BY_PERSON, Caps, TaskState
from coterie.model.team import Member
from coterie.model.update import TurnFailed, Update
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import (
    TASK,
    Script,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)

Meanwhile = Callable[[], Awaitable[object]]
Say = Callable[[ScriptedProject], Awaitable[object]]


class VisitedStorage(CrashingStorage):
    """A storage that holds up one call until something else was done."""

    at: int | None = None
    meanwhile: Meanwhile | None = None

    async def call_through(
        self, call: Callable[..., Awaitable[Any]], *args: Any, **options: Any
    ) -> Any:
        if self.calls + 1 == self.at:
            await self.visit()
        return await super().call_through(call, *args, **options)

    async def visit(self) -> None:
        """Do it now, unless it was done before."""
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            with anyio.CancelScope(shield=True):  # the sender is not cancelled with the run
                await meanwhile()


def plain(member: Member, prompt: Prompt) -> str:
    return "yes"


def failing(member: Member, prompt: Prompt) -> list[Update]:
    return [TurnFailed("protocol", "it is broken", retry=False)]


async def end(by: ScriptedProject) -> None:
    await steering.end(by.look, by.engine.claimant, TASK, lambda entries: ())


async def thank_and_end(by: ScriptedProject) -> None:
    await steering.say(by.look, TASK, "thanks", None)
    await end(by)


async def run_and_say(
    folder: Path, call: int, say: Say, script: Script, wait: float | None
) -> tuple[bool, TaskState, list[str]]:
    """Run a conversation, and say something just before its n-th store call, or else when it
    waits.  Return whether it came to that call, the state of the task, and the conversation."""
    folder.mkdir()
    storage = VisitedStorage(await SqliteStorage.open(folder / "coterie.db"), None)
    async with scripted_project(folder, storage) as it, scripted_project(folder) as other:
        await it.start(team("ada", human="max"))
        storage.at, storage.meanwhile = storage.calls + call, lambda: say(other)

        async def say_at_last() -> None:
            while storage.meanwhile is not None:
                await anyio.wait_all_tasks_blocked()
                if await other.look.questions():
                    await storage.visit()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(say_at_last)
                await it.run(ScriptedChannels(script), wait)
                group.cancel_scope.cancel()
        came = storage.calls >= storage.at
        state, said = await it.look.state(TASK), await it.conversation()
    await storage.close()
    return came, state, [text for _, text in said]


@pytest.mark.parametrize(
    ("script", "wait"),
    [(plain, None), (plain, 0.0), (failing, None)],
    ids=["waits for a person", "parks", "asks about a failure"],
)
async def test_a_conversation_ends_whenever_that_is_asked_for(
    memory_path: Path, script: Script, wait: float | None
) -> None:
    for call in itertools.count(1):
        place = memory_path / str(call)
        came, state, said = await run_and_say(place, call, end, script, wait)
        if came or wait is None:
            assert (state.status, state.reason) == ("completed", BY_PERSON), call
            assert said.count("yes") <= 1
        if not came:
            return


async def test_what_is_said_just_before_a_person_has_the_floor_is_their_turn(
    memory_path: Path,
) -> None:
    """And what they say next comes after it."""
    for call in itertools.count(1):
        place = memory_path / str(call)
        came, state, said = await run_and_say(place, call, thank_and_end, plain, None)
        assert state.reason == BY_PERSON
        # A conversation that has not begun is ended as it is.
        assert said == ["hello"] or said.count("thanks") == 1, (call, said)
        if not came:
            return


async def test_an_end_is_the_last_message(memory_path: Path) -> None:
    async with scripted_project(memory_path) as it:

        async def ending(member: Member, prompt: Prompt) -> str:
            if member.id == "ada":
                await end(it)
                await steering.say(it.look, TASK, "one more thing", None)
                await anyio.sleep(0.1)
            return "yes"

        await it.start(team("ada", "bob"), caps=Caps(max_rounds=None, max_turns=20))
        result = await it.run(ScriptedChannels(ending))
        assert (result.reason, [name for name, _ in it.messages]) == (BY_PERSON, ["ada", "you"])


async def die_after_the_end_was_asked_for(folder: Path, call: int, other: ScriptedProject) -> bool:
    """Kill a run n store calls after its end was requested; return whether it came to that."""
    storage = CrashingStorage(await SqliteStorage.open(folder / "coterie.db"), None)

    async def ending(member: Member, prompt: Prompt) -> str:
        await end(other)
        storage.crash = CrashPoint(storage.calls + call, took_effect=True, queued_kept=True)
        return "yes"

    async with scripted_project(folder, storage) as it:
        await it.start(team("ada", human="max"))
        with suppress(Crashed):
            await it.run(ScriptedChannels(ending), None)
    await storage.real.close()
    return storage.dead


async def test_an_end_that_was_asked_for_before_its_process_died_needs_no_further_turn(
    memory_path: Path,
) -> None:
    for call in itertools.count(1):
        folder = memory_path / str(call)
        folder.mkdir()
        async with scripted_project(folder) as other:
            died = await die_after_the_end_was_asked_for(folder, call, other)
            result = await other.run(ScriptedChannels(failing))
            assert (result.status, result.reason) == ("completed", BY_PERSON), call
            said = await other.storage.conversation.messages(TASK)
            assert [message.text for message in said].count("yes") <= 1
            assert result.turns == sum(message.turn > 0 for message in said)
            assert await other.storage.inbox.requests(TASK) == []
        if not died:
            return
