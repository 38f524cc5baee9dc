"""Part of a member's work, done by another member as a task of its own that returns its result."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from coterie.engine import steering
from coterie.engine.stored_result import stored_result
from coterie.engine.task_run import RunServices
from coterie.model.conversation import Brief, Prompt
from coterie.model.interaction import Display
from coterie.model.redaction import Redactor
from coterie.model.task import Caps, Ended, TaskCreated
from coterie.model.team import YOU, Member
from coterie.model.update import Activity, Asked, Delegated, TurnCompleted, TurnFailed, Update
from coterie.ports import Channel, Context
from coterie.testing.scripted import (
    TASK,
    ScriptedChannel,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)
from coterie.workflows.chat import Chat, Solo


def working(member: Member, prompt: Prompt) -> list[Update]:
    if member.id == "rex":
        return [TurnCompleted("It has 12 callers.")]
    return [Delegated("d1", "count the callers", "rex"), TurnCompleted("Twelve, then.")]


def answers_received(channels: ScriptedChannels) -> list[tuple[str | None, str | None]]:
    mine = [one for one in channels.opened if one.member.id == "ada"]
    return [(one.selected_option_id, one.input_value) for c in mine for one in c.answers]


async def test_the_user_chooses_who_does_it_and_the_result_comes_back(tmp_path: Path) -> None:
    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"))
        result = await it.run(ScriptedChannels(working))
        [question] = await it.storage.inbox.questions()
        asked = question.interaction
        assert (result.status, asked.purpose) == ("waiting", "assign_subtask")
        assert [option.id for option in asked.options] == ["rex", "reject"]
        await steering.answer(it.look, asked.interaction_id, "rex", None, "you")
        channels = ScriptedChannels(working)
        assert (await it.run(channels)).status == "completed"
        assert answers_received(channels) == [("rex", "It has 12 callers.")]
        rows = {row.id: (row.parent_id, row.status) for row in await it.storage.events.tasks()}
        assert rows == {TASK: (None, "completed"), f"{TASK}.1": (TASK, "completed")}


async def test_nobody_need_do_it(tmp_path: Path) -> None:
    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"))
        await it.run(ScriptedChannels(working))
        await steering.answer(it.look, "q1", "reject", "do it yourself", "you")
        channels = ScriptedChannels(working)
        assert (await it.run(channels)).status == "completed"
        [(choice, said)] = answers_received(channels)
        assert (choice, said) == ("reject", "do it yourself")
        assert len(await it.storage.events.tasks()) == 1


async def test_a_finished_subtask_is_not_done_again(tmp_path: Path) -> None:
    """Killed after the child ended and before its result was used."""
    done: list[str] = []

    class Killed(BaseException):
        pass

    def dying(member: Member, prompt: Prompt) -> list[Update]:
        if member.id == "rex":
            done.append(prompt.text)
            return [TurnCompleted("It has 12 callers.")]

        class Dying(list[Update]):
            def __iter__(self):
                yield Delegated("d1", "count the callers", "rex")
                raise Killed

        return Dying()

    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"))
        await it.run(ScriptedChannels(working))
        await steering.answer(it.look, "q1", "rex", None, "you")
        with pytest.raises(Killed):
            await it.run(ScriptedChannels(dying))
    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        channels = ScriptedChannels(working)
        assert (await it.run(channels)).status == "completed"
        assert answers_received(channels) == [("rex", "It has 12 callers.")]
        rex = [one for one in channels.opened if isinstance(one, ScriptedChannel)]
        assert len(done) == 1
        assert [one.member.id for one in rex].count("rex") == 1  # its own turn in the chat


async def test_every_subtask_handed_out_in_one_run_is_done(tmp_path: Path) -> None:
    def working(member: Member, prompt: Prompt) -> list[Update]:
        if member.id == "rex":
            return [TurnCompleted(f"Done: {prompt.newest}.")]
        asked = [Delegated(goal, goal, "rex") for goal in ("count", "sort")]
        return [*asked, TurnCompleted("Both, then.")]

    channels = ScriptedChannels(working)
    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"), caps=Caps(max_turns=1, max_rounds=None))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                for number in (1, 2):
                    while len(await it.look.questions(only_open=False)) < number:
                        await anyio.lowlevel.checkpoint()
                    await steering.answer(it.look, f"q{number}", "rex", None, "you")
        assert answers_received(channels) == [("rex", "Done: count."), ("rex", "Done: sort.")]
        rows = [row.id for row in await it.storage.events.tasks()]
        assert rows == [TASK, f"{TASK}.1", f"{TASK}.2"]


@pytest.mark.parametrize("tries", [1, 2], ids=["in one attempt", "in its next attempt"])
async def test_a_subtask_handed_out_twice_under_one_key_is_done_once(
    tmp_path: Path, tries: int
) -> None:
    """A different one under the same key is refused, and the agent is told why."""
    count, other = Delegated("d1", "count", "rex"), Delegated("d1", "sort", "rex")

    def working(member: Member, prompt: Prompt) -> list[Update]:
        if member.id == "rex":
            return [TurnCompleted(f"Done: {prompt.newest}.")]
        asked = [count, other] if tries == 2 else [count, count, other]
        failed = tries == 2 and prompt.tries == 1
        return [*asked, TurnFailed("model", "cut off") if failed else TurnCompleted("Counted.")]

    channels = ScriptedChannels(working)
    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"), caps=Caps(max_turns=1, max_rounds=None))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                await until_asked(it, "ada", 1)
                await steering.answer(it.look, "q1", "rex", None, "you")
        done = ("rex", "Done: count.")
        why = "Its key, d1, is that of another subtask of this turn: count. Ask again."
        refused = ("reject", why)
        asked = [done, refused, done, refused] if tries == 2 else [done, done, refused]
        assert answers_received(channels) == asked
        assert [row.id for row in await it.storage.events.tasks()] == [TASK, f"{TASK}.1"]


async def test_what_is_canceled_takes_its_subtasks_with_it(tmp_path: Path) -> None:
    """Even one that waits for an answer: nobody would ever resume it."""

    def asking(member: Member, prompt: Prompt) -> list[Update]:
        if member.id == "rex":
            return [Asked("a1", "Input", "generic", Display(title="Which ones?"))]
        return working(member, prompt)

    async with scripted_project(tmp_path, workflow=Chat(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"))
        await it.run(ScriptedChannels(asking))
        await steering.answer(it.look, "q1", "rex", None, "you")
        result = await it.run(ScriptedChannels(asking))
        assert await stored_result(it.look, TASK) == result
        [view] = await it.look.tasks()
        assert (view.standing, view.questions) == ("waiting", ("q2",)), "its subtask asks"
        await steering.cancel(it.look, it.engine.claimant, TASK)
        rows = {row.id: (row.status, row.reason) for row in await it.storage.events.tasks()}
        assert rows == {
            TASK: ("canceled", "canceled"),
            f"{TASK}.1": ("canceled", "session_ended"),
        }
        assert await it.storage.inbox.questions() == []


class HandsOutWorkflow:
    """Hands a part of the task out whose texts hold a secret."""

    name = "hands_out"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        texts = {"goal": f"log in with {SECRET}", "turn": {"prompt": f"use {SECRET}", "number": 2}}
        own = {"task_id": f"{TASK}.1", "parent_id": TASK, "workflow": "solo", **texts}
        await context.hand_out("part", task.model_copy(update=own))
        return Ended("done", "")


SECRET = "hunter2-QZX-password-99"


@pytest.mark.parametrize("workflow", ["chat", "hands_out"])
async def test_a_secret_in_what_is_handed_out_is_stored_nowhere(
    tmp_path: Path, workflow: str
) -> None:
    def working(member: Member, prompt: Prompt) -> list[Update]:
        first = [] if member.id == "rex" else [Delegated("d1", f"log in with {SECRET}", "rex")]
        return [*first, TurnCompleted("done")]

    async with scripted_project(tmp_path, more=[Solo(), HandsOutWorkflow()]) as it:
        it.engine = replace(it.engine, services=RunServices(redactor=Redactor({SECRET})))
        await it.start(team("ada", "rex"), workflow=workflow, caps=Caps(max_rounds=1))
        while (await it.run(ScriptedChannels(working))).status == "waiting":
            [question] = await it.look.questions()
            name = question.interaction.interaction_id
            await steering.answer(it.look, name, "rex", None, "you")
        [created, *_] = await it.storage.events.of_task(f"{TASK}.1")
        assert isinstance(created, TaskCreated)
        assert created.goal == "log in with [redacted 23]"
        if created.turn:
            assert created.turn == {"prompt": "use [redacted 23]", "number": 2}
    for file in tmp_path.glob("coterie.db*"):
        assert SECRET.encode() not in file.read_bytes()


class Worker(ScriptedChannel):
    """At an `Activity` it works until it is interrupted."""

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        async for update in super().take_turn(prompt):
            while isinstance(update, Activity) and not self.interrupted:
                await anyio.lowlevel.checkpoint()
            yield update


class Workers(ScriptedChannels):
    def _new(self, member: Member, thread: str | None) -> Channel:
        if member.type == "human":
            return super()._new(member, thread)
        self.opened.append(channel := Worker(member, self.script))
        return channel


async def until_asked(it: ScriptedProject, author: str, number: int) -> None:
    """Wait until that question is open, asked by this author."""
    name = f"q{number}", author
    while name not in [
        (one.interaction.interaction_id, one.interaction.author_actor_id)
        for one in await it.look.questions()
    ]:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("begun", [False, True], ids=["while it is offered", "while it is done"])
async def test_esc_interrupts_a_turn_with_its_subtask(tmp_path: Path, begun: bool) -> None:
    def working(member: Member, prompt: Prompt) -> list[Update]:
        first = Delegated("d1", "count the callers", "rex")
        return [*([] if member.id == "rex" else [first]), Activity(), TurnCompleted("never said")]

    channels = Workers(working)
    async with scripted_project(tmp_path, more=[Solo()]) as it:
        await it.start(team("ada", "rex"), caps=Caps(floor="ask"))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                await until_asked(it, "ada", 1)
                if begun:
                    await steering.answer(it.look, "q1", "rex", None, YOU)
                    while not any(one.sent for one in channels.opened if one.member.id == "rex"):
                        await anyio.lowlevel.checkpoint()
                await steering.interrupt(it.look, TASK)
                await until_asked(it, YOU, 2)
                await it.storage.inbox.request(TASK, "stop", YOU, "")
        said = await it.storage.conversation.messages(TASK)
        assert [(one.member, one.cut) for one in said] == [("you", False), ("ada", True)]
        rows = [(row.id, row.status, row.reason) for row in await it.storage.events.tasks()]
        assert rows[1:] == ([(f"{TASK}.1", "failed", "ended")] if begun else [])


async def test_esc_interrupts_a_part_that_was_handed_out(tmp_path: Path) -> None:
    channels = Workers(lambda *_: [Activity(), TurnCompleted("never said")])
    async with scripted_project(tmp_path, workflow=HandsOutWorkflow(), more=[Solo()]) as it:
        await it.start(team("ada"), workflow="hands_out")
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                while not any(one.sent for one in channels.opened):
                    await anyio.lowlevel.checkpoint()
                await steering.interrupt(it.look, TASK)
                await until_asked(it, YOU, 1)
                await it.storage.inbox.request(TASK, "stop", YOU, "")
        said = await it.storage.conversation.messages(f"{TASK}.1")
        assert [(one.member, one.cut) for one in said] == [("you", False), ("ada", True)]


class ParallelWorkflow:
    """All members take a turn at the same time."""

    name = "both"
    version = 1

    async def run(self, task: TaskCreated, context: Context) -> Ended:
        async with anyio.create_task_group() as group:
            for number, one in enumerate(task.team.members, 1):
                brief = Brief(f"part {number}", [number])
                group.start_soon(context.turn, f"part/{number}", one, number, brief)
        return Ended("done", "")


async def test_a_member_is_given_no_subtask_while_it_takes_a_turn(tmp_path: Path) -> None:
    """Its agent works on undisturbed, and whoever asked is told; once it is free, it does one."""
    refused = anyio.Event()

    async def working(member: Member, prompt: Prompt) -> list[Update]:
        if member.id == "ada":
            return [Delegated("d1", "x", "rex"), Delegated("d2", "x", "rex"), TurnCompleted("")]
        if prompt.text == "part 2":
            await refused.wait()
        return [TurnCompleted("done")]

    channels = ScriptedChannels(working)
    async with scripted_project(tmp_path, workflow=ParallelWorkflow(), more=[Solo()]) as it:
        await it.start(team("ada", "rex"), workflow="both")
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                await until_asked(it, "ada", 1)
                [asked] = await it.look.questions()
                assert [one.detail for one in asked.interaction.options] == ["busy now", ""]
                await steering.answer(it.look, "q1", "rex", None, YOU)
                await until_asked(it, "ada", 2)
                assert [one.alive for one in channels.opened] == [True, True]
                refused.set()
                while "completed" not in [
                    one.outcome for one in await it.storage.journal.turns(TASK)
                ]:
                    await anyio.lowlevel.checkpoint()
                await steering.answer(it.look, "q2", "rex", None, YOU)
        why = "rex is busy with a turn of its own. Do it yourself, or ask again later."
        assert answers_received(channels) == [("reject", why), ("rex", "done")]
        assert [row.id for row in await it.storage.events.tasks()] == [TASK, f"{TASK}.1"]
