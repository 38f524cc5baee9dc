"""Esc in a chat: the message stays cut off and the person has the floor, even after a resume."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from coterie.engine import steering
from coterie.engine.task_run import RunServices
from coterie.model import instant
from coterie.model.about import FailedTurn
from coterie.model.conversation import Prompt
from coterie.model.record import MemberRecord, QuestionView, ResultRecord
from coterie.model.task import Caps
from coterie.model.team import YOU, Budget, Member
from coterie.model.tool_call import Action
from coterie.model.update import (
    Activity,
    Asked,
    PendingCall,
    Spent,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Usage,
)
from coterie.ports import Channel
from coterie.stores.sqlite import SqliteStorage
from coterie.testing.crash import Crashed, CrashingStorage, CrashPoint
from coterie.testing.scripted import (
    TASK,
    ScriptedChannel,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)


async def halting(member: Member, prompt: Prompt) -> str | list[Update]:
    """Ada's first reply never ends by itself; everything else is answered."""
    if member.id == "ada" and prompt.text.endswith("hello"):
        return [TextDelta("I was ab"), *(Activity() for _ in range(10_000))]
    return f"{member.id} heard {prompt.text.rpartition(chr(10))[2]!r}"


class YieldingChannel(ScriptedChannel):
    """Gives others time between its updates, so that it can be interrupted."""

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        async for update in super().take_turn(prompt):
            if not isinstance(update, TurnCompleted):
                await anyio.sleep(0.001)
            yield update


async def interrupted(it: ScriptedProject, *words: str) -> ResultRecord:
    """Run it: Esc while ada speaks, then words whenever the person has the floor; then park."""
    members = team("ada", "bob")
    await it.start(members, caps=Caps(floor="ask"))
    channels = ScriptedChannels(halting, open={"ada": YieldingChannel(members.members[0], halting)})
    results: list[ResultRecord] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def run() -> None:
                results.append(await it.run(channels, wait=None))

            group.start_soon(run)
            await anyio.sleep(0.1)
            await it.storage.inbox.request(TASK, "interrupt", YOU, "")
            for word in words:
                await wait_for_floor(it)
                await steering.say(it.look, TASK, word, None)
            await wait_for_floor(it)
            await it.storage.inbox.request(TASK, "stop", YOU, "")
    return results[0]


async def wait_for_floor(it: ScriptedProject) -> None:
    """Wait until the person has the floor."""
    while not await it.look.questions():
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("words", [(), ("go on, @bob",), ("go on", "and you, @bob?")])
async def test_a_chat_goes_on_where_it_was_interrupted(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with scripted_project(tmp_path) as it:
        await interrupted(it, *words)
        before = await it.conversation()
        assert [text for name, text in before if name == "you"] == ["hello", *words]
        messages = await it.storage.conversation.messages(TASK)
        assert [message.cut for message in messages] == [False, True, *(False for _ in before[2:])]
    async with scripted_project(tmp_path) as later:
        channels = ScriptedChannels(halting)
        assert (await later.run(channels)).status == "waiting"
        assert [one.interaction.author_actor_id for one in await later.look.questions()] == ["you"]
        await steering.say(later.look, TASK, "what now, @ada?", None)
        await later.run(channels)
        await steering.say(later.look, TASK, "/end", None)
        result = await later.run(channels)
        assert (result.status, result.reason) == ("completed", "ended")
        said = await later.conversation()
        assert said[: len(before)] == before
        assert [text for name, text in said if name == "you"][-2:] == ["what now, @ada?", ""]


async def test_esc_while_an_agent_starts_interrupts_its_turn(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:

        class Starting(ScriptedChannels):
            async def channel(self, member: Member, thread: str | None) -> Channel:
                if member.id == "ada" and not self.opened:
                    await it.storage.inbox.request(TASK, "interrupt", YOU, "")
                    await anyio.sleep(0.1)
                return await super().channel(member, thread)

        await it.start(team("ada", "bob"))
        channels = Starting(lambda *_: "yes")
        assert (await it.run(channels)).status == "waiting"
        assert [one.sent for one in channels.opened] == [[]]
        await steering.say(it.look, TASK, "@ada, go on", None)
        assert (await it.run(channels)).status == "completed"
        assert [name for name, _ in await it.conversation()] == ["you", "ada", "you", "ada", "bob"]
        assert "you: hello\n" in channels.opened[1].sent[0].text


async def press_esc(it: ScriptedProject) -> None:
    """Interrupt the task, and wait until its run has noticed."""
    await steering.interrupt(it.look, TASK)
    while await it.storage.inbox.requests(TASK):
        await anyio.lowlevel.checkpoint()


@dataclass
class InterruptingSnapshots:
    """`ports.Snapshots`: Esc is pressed while files are saved for the first time."""

    it: ScriptedProject
    calls: list[str] = field(default_factory=list[str])

    def before(self, task_id: str, folder: str) -> None:
        if not self.calls:
            anyio.from_thread.run(press_esc, self.it)
        self.calls.append("before")

    def after(self, task_id: str, folder: str) -> None:
        self.calls.append("after")


class AsksFirstChannel(ScriptedChannel):
    """Its files are saved only before the first call that may change them."""

    asks_first = True


PENDING = PendingCall("c1", "Bash", {"command": "make"}, "/w", Action("run", "Bash", "/w", "make"))


@pytest.mark.parametrize("asks_first", [False, True], ids=["the turn", "a call is allowed"])
async def test_esc_while_files_are_saved_before(tmp_path: Path, asks_first: bool) -> None:
    def asking(member: Member, prompt: Prompt) -> list[Update]:
        return [Asked("c1", "Confirm", "confirm_risky_action", call=PENDING), Activity()]

    async with scripted_project(tmp_path) as it:
        snapshots = InterruptingSnapshots(it)
        it.engine = replace(it.engine, services=RunServices(snapshots=snapshots))
        members = team("ada", "bob")
        await it.start(members, caps=Caps(floor="ask"))
        ada = (AsksFirstChannel if asks_first else ScriptedChannel)(members.members[0], asking)
        await it.run(ScriptedChannels(asking, open={"ada": ada}))
        [question] = await it.look.questions()
        assert question.interaction.author_actor_id == "you"
        said = await it.storage.conversation.messages(TASK)
        assert [(one.member, one.cut) for one in said] == [("you", False), ("ada", True)]
        assert (len(ada.sent), snapshots.calls) == (int(asks_first), ["before", "after"])
        if not asks_first:  # the agent was sent nothing, so it is sent everything later
            await steering.say(it.look, TASK, "go on, @ada", None)
            await it.run(channels := ScriptedChannels(lambda *_: "yes"))
            assert "you: hello\n" in channels.opened[0].sent[0].text


async def test_esc_while_a_failed_agent_is_ended_prevents_another_try(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:

        class Ending(ScriptedChannels):
            async def close(self, member: Member) -> None:
                await press_esc(it)
                await super().close(member)

        await it.start(team("ada", "bob"), caps=Caps(floor="ask"))
        channels = Ending(lambda *_: [TurnFailed("model", "the stream was cut")])
        assert (await it.run(channels)).status == "waiting"
        assert [len(one.sent) for one in channels.opened] == [1]
        said = await it.storage.conversation.messages(TASK)
        assert [(one.member, one.cut) for one in said] == [("you", False), ("ada", True)]


async def wait_until_held(it: ScriptedProject) -> None:
    """Wait until a member waits for a limit or a budget."""
    while not any(
        isinstance(one, MemberRecord) and one.waits_for in ("limit", "budget")
        for one in it.recorder.records
    ):
        await anyio.lowlevel.checkpoint()


ONE_A_MINUTE: dict[str, object] = {"metadata": {"rate_limit": {"turns_per_minute": 1}}}
WAITS: dict[str, tuple[dict[str, object], RunServices, list[list[Update]]]] = {
    "the end of a rate limit": (
        {},
        RunServices(waits_for_limits=True),
        [[TurnFailed("rate_limit", "too many", until=instant.after(3600))]],
    ),
    "its next turn in a minute": (ONE_A_MINUTE, RunServices(), [[TurnCompleted("said")]]),
    "a budget": ({"budget": Budget(turns=1)}, RunServices(), [[TurnCompleted("said")]]),
    "a budget, in the middle of a turn": (
        {"budget": Budget(tokens=100)},
        RunServices(),
        [[Spent(Usage(input_tokens=200, output_tokens=0)), TurnInterrupted("I was ab")]],
    ),
}


@pytest.mark.parametrize("stops", [False, True], ids=["Esc", "stop"])
@pytest.mark.parametrize("waits_for", WAITS)
async def test_esc_or_stop_ends_a_wait_for(tmp_path: Path, waits_for: str, stops: bool) -> None:
    """The turn ends at once, and the person decides what follows."""

    def is_next(one: QuestionView) -> bool:
        about = one.interaction.about
        return isinstance(about, FailedTurn) if stops else one.interaction.author_actor_id == YOU

    own, services, replies = WAITS[waits_for]
    script = iter(replies)
    async with scripted_project(tmp_path) as it:
        it.engine = replace(it.engine, services=services)
        members = team("ada")
        ada = members.members[0].model_copy(update=own)
        await it.start(
            members.model_copy(update={"members": (ada, *members.members[1:])}),
            caps=Caps(floor="ask"),
        )
        channels = ScriptedChannels(lambda *_: next(script, [Activity()]))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, channels, None)
                if replies == [[TurnCompleted("said")]]:  # its second turn has to wait
                    await wait_for_floor(it)
                    await steering.say(it.look, TASK, "go on, @ada", None)
                await wait_until_held(it)
                if stops:
                    await it.storage.inbox.request(TASK, "stop_member", YOU, "ada")
                else:
                    await steering.interrupt(it.look, TASK)
                while not any(is_next(one) for one in await it.look.questions()):
                    await anyio.lowlevel.checkpoint()
                await it.storage.inbox.request(TASK, "stop", YOU, "")
        if not stops:
            assert (await it.storage.conversation.messages(TASK))[-1].cut
        assert await it.look.running() == []


def cut_off(member: Member, prompt: Prompt) -> str | list[Update]:
    """Ada's first reply is interrupted by the user."""
    if prompt.newest == "hello":
        return [TextDelta("I was ab"), TurnInterrupted("I was ab")]
    asker = prompt.newest.partition(" answers")[0]
    return f"{member.id} answers {asker if asker in ('ada', 'bob') else 'you'}"


async def run_survives(folder: Path, death: CrashPoint | None) -> bool:
    """Run the task until it parks or its process dies; return whether it survived."""
    storage = await SqliteStorage.open(folder / "coterie.db")
    try:
        async with scripted_project(folder, CrashingStorage(storage, death)) as it:
            try:
                await it.run(ScriptedChannels(cut_off), wait=0.0)
            except Crashed:
                return False
            return True
    finally:
        await storage.close()


@pytest.mark.parametrize("kept", [True, False], ids=["after the write", "before the write"])
async def test_it_resumes_after_an_interrupt_wherever_it_dies(tmp_path: Path, kept: bool) -> None:
    """Die before and after every store call: nothing is lost, nothing is repeated."""
    for point in itertools.count(1):
        folder = tmp_path / str(point)
        folder.mkdir()
        async with scripted_project(folder) as it:
            await it.start(team("ada", "bob"), caps=Caps(floor="ask"))
        survived = await run_survives(folder, CrashPoint(point, kept, kept))
        words = ["go on, @bob", "and you, @ada?", "/end"]
        for word in words:
            await run_survives(folder, None)
            async with scripted_project(folder) as it:
                await steering.say(it.look, TASK, word, None)
        await run_survives(folder, None)
        async with scripted_project(folder) as it:
            messages = await it.storage.conversation.messages(TASK)
            assert [(m.member, m.text, m.cut) for m in messages] == [
                ("you", "hello", False),
                ("ada", "I was ab", True),
                ("you", "go on, @bob", False),
                ("bob", "bob answers you", False),
                ("ada", "ada answers bob", False),
                ("you", "and you, @ada?", False),
                ("ada", "ada answers you", False),
                ("bob", "bob answers ada", False),
                ("you", "", False),
            ], point
            assert (await it.look.state(TASK)).status == "completed"
        if survived:
            return
