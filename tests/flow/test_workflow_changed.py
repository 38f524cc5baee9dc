"""A workflow that changed under a task: the person decides, and the journal keeps the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from coterie.engine import steering
from coterie.errors import StepRepeated, UsageError
from coterie.model.conversation import Brief, Message
from coterie.model.task import Ended, TaskCreated
from coterie.ports import Context
from coterie.testing.scripted import ScriptedChannels, ScriptedProject, scripted_project, team


class OneStepWorkflow:
    """A workflow of one step with a given meaning, a turn, and a question at the end."""

    name = "chat"
    version = 1

    def __init__(self, intent: str, *, turns: int = 2) -> None:
        self.intent = intent
        self.turns = turns
        self.done: list[str] = []

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        async def work() -> object:
            self.done.append(self.intent)
            return self.intent

        result = await context.step("choose", self.intent, work)
        if self.turns == 2:
            message = await context.turn("turn/1", task.team.members[0], 1)
            assert isinstance(message, Message)
        if self.turns:
            await context.turn("human", task.team.members[1], 2)
        return Ended("done", str(result))


async def first_run(folder: Path) -> None:
    async with scripted_project(folder, workflow=OneStepWorkflow("old")) as it:
        await it.start(team("ada", human="max"))
        assert (await it.run(ScriptedChannels(lambda *_: "yes"))).status == "waiting"
        await steering.say(it.look, "k3f9", "go on", None)


async def asked(it: ScriptedProject) -> str:
    result = await it.run(ScriptedChannels(lambda *_: "yes again"))
    assert (result.status, result.reason) == ("waiting", "question")
    [question] = await it.look.questions()
    return f"{question.interaction.display.title}: {question.interaction.display.description}"


class LeakingWorkflow:
    """A workflow of one step whose result holds a secret, and a question at the end."""

    name = "chat"
    version = 1

    def __init__(self) -> None:
        self.results: list[object] = []

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        async def work() -> object:
            return {"output": f"the key is sk-ant-{'a1b2c3d4' * 4}", "lines": [1, None]}

        self.results.append(await context.step("check", [], work))
        await context.turn("human", task.team.members[0], 1)
        return Ended("done")


async def test_the_result_of_a_step_is_the_same_in_every_run(tmp_path: Path) -> None:
    flow = LeakingWorkflow()
    async with scripted_project(tmp_path, workflow=flow) as it:
        await it.start(team(human="max"))
        for _ in range(2):
            assert (await it.run(ScriptedChannels(lambda *_: "yes"))).status == "waiting"
    assert flow.results == [{"output": "the key is [redacted 39]", "lines": [1, None]}] * 2


async def test_another_meaning_under_an_old_name_is_asked_about(tmp_path: Path) -> None:
    await first_run(tmp_path)
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("new")) as it:
        told = await asked(it)
        assert told.startswith("The workflow changed at choose: The recorded steps no longer match")


async def test_keep_uses_the_recorded_result(tmp_path: Path) -> None:
    await first_run(tmp_path)
    flow = OneStepWorkflow("new")
    async with scripted_project(tmp_path, workflow=flow) as it:
        await asked(it)
        await steering.answer(it.look, "q2", "keep", None, "you")
        result = await it.run(ScriptedChannels(lambda *_: "yes"))
        assert (result.status, result.summary, flow.done) == ("completed", "old", [])


async def test_fork_does_it_again_and_keeps_what_was(tmp_path: Path) -> None:
    await first_run(tmp_path)
    flow = OneStepWorkflow("new")
    async with scripted_project(tmp_path, workflow=flow) as it:
        await asked(it)
        await steering.answer(it.look, "q2", "fork", None, "you")
        assert (await it.run(ScriptedChannels(lambda *_: "yes again"))).status == "waiting"
        assert flow.done == ["new"]
        await steering.say(it.look, "k3f9", "and on", None)
        result = await it.run(ScriptedChannels(lambda *_: "no"))
        assert (result.status, result.summary) == ("completed", "new")
        assert [text for _, text in await it.conversation()] == [
            "hello",
            "yes",
            "yes again",
            "and on",
        ]
        names = [step.name for step in await it.storage.journal.steps("k3f9")]
        assert {"aside/5/choose", "aside/5/turn/1", "choose", "turn/1"} <= set(names)


async def test_fork_closes_the_questions_of_what_it_redoes(tmp_path: Path) -> None:
    """Otherwise the next word would answer one that nobody waits for."""
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("old")) as it:
        await it.start(team("ada", human="max"))
        await it.run(ScriptedChannels(lambda *_: "yes"))
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("new")) as it:
        channels = ScriptedChannels(lambda *_: "yes again")
        await it.run(channels)
        await steering.answer(it.look, "q2", "fork", None, "you")
        await it.run(channels)
        assert (await steering.say(it.look, "k3f9", "and on", None)).question == "q3"
        assert (await it.run(channels)).status == "completed"


async def test_a_step_that_is_no_longer_asked_for_is_asked_about(tmp_path: Path) -> None:
    await first_run(tmp_path)
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("old", turns=0)) as it:
        assert (await asked(it)).startswith("The workflow changed at turn/1: ")


async def test_another_meaning_of_a_step_that_is_open_is_asked_about(tmp_path: Path) -> None:
    """Without the turn before it, the human would be asked about another message."""
    await first_run(tmp_path)
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("old", turns=1)) as it:
        assert (await asked(it)).startswith("The workflow changed at human: ")


async def test_stop_parks_and_asks_again_later(tmp_path: Path) -> None:
    await first_run(tmp_path)
    async with scripted_project(tmp_path, workflow=OneStepWorkflow("new")) as it:
        await asked(it)
        await steering.answer(it.look, "q2", "stop", None, "you")
        assert (await it.run(ScriptedChannels(lambda *_: "yes"))).reason == "question"
        assert [q.interaction.interaction_id for q in await it.look.questions()] == ["q3"]


class ParallelWorkflow:
    """Takes two turns at once."""

    name = "chat"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        async with anyio.create_task_group() as group:
            for number, member in enumerate(task.team.members, 1):
                brief = Brief(f"Part {number}", number)
                group.start_soon(context.turn, f"turn/{number}", member, number, brief)
        return Ended("done")


async def test_turns_at_once_park_and_ask_as_others_do(tmp_path: Path) -> None:
    """What they raise arrives in a group."""
    async with scripted_project(tmp_path, workflow=ParallelWorkflow()) as it:
        await it.start(team("ada", human="max"))
        parked = await it.run(ScriptedChannels(lambda *_: "yes"))
        assert (parked.status, parked.reason) == ("waiting", "question")
        await steering.say(it.look, "k3f9", "go on", None)
        assert (await it.run(ScriptedChannels(lambda *_: "yes"))).status == "completed"


class OddResultWorkflow:
    """Does a step whose result is different in JSON, and returns None."""

    name = "chat"
    version = 1

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def run(self, task: TaskCreated, context: Context) -> Any:
        async def work() -> object:
            return {1: (2, 3)}

        self.seen.append(await context.step("odd", "", work))


async def test_a_workflow_that_returns_nothing_is_an_error(tmp_path: Path) -> None:
    """A step's result is the same when it is done and in every later run."""
    odd = OddResultWorkflow()
    async with scripted_project(tmp_path, workflow=odd) as it:
        await it.start(team("ada"))
        for _ in range(2):
            with pytest.raises(UsageError, match="workflow chat returned None instead of an Ended"):
                await it.run(ScriptedChannels(lambda *_: "yes"))
    assert odd.seen == 2 * [{"1": [2, 3]}]


class RepeatedStepWorkflow:
    """Uses one name for two steps."""

    name = "chat"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        async def work() -> object:
            return 1

        await context.step("same", 1, work)
        await context.step("same", 2, work)
        return Ended("never")


async def test_a_name_used_twice_is_an_error(tmp_path: Path) -> None:
    async with scripted_project(tmp_path, workflow=RepeatedStepWorkflow()) as it:
        await it.start(team("ada"))
        with pytest.raises(StepRepeated, match="'same' was used twice"):
            await it.run(ScriptedChannels(lambda *_: "yes"))
