"""A turn that was cut off is resumed with what is known of it; an approval is never used twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from coterie.engine import steering
from coterie.errors import AnswerRefused
from coterie.model import instant
from coterie.model.conversation import Prompt
from coterie.model.interaction import Display, Option
from coterie.model.record import DeltaRecord
from coterie.model.team import Member, Permissions
from coterie.model.tool_call import Action
from coterie.model.update import (
    Asked,
    PendingCall,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    Update,
)
from coterie.ports import Channel
from coterie.testing.scripted import ScriptedChannels, scripted_project, team

COMMAND = {"command": "rm -rf build"}


def asks(call_id: str) -> Asked:
    return Asked(
        key=call_id,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title="ada wants to run a command", content="rm -rf build"),
        options=(Option(id="approve", label="once"), Option(id="reject", label="deny")),
        call=PendingCall(call_id, "Bash", COMMAND, "/w"),
    )


def script(*updates: Update) -> Callable[[Member, Prompt], list[Update]]:
    return lambda member, prompt: list(updates)


WHOLE = (
    ToolCallStarted("c2", "Bash", COMMAND),
    asks("c2"),
    ToolCallFinished("c2", is_error=False),
    TurnCompleted("done"),
)


class ProcessKilled(BaseException):
    """The process dies here."""


def dying(*updates: Update) -> Callable[[Member, Prompt], list[Update]]:
    def play(member: Member, prompt: Prompt) -> list[Update]:
        class Dying(list[Update]):
            def __iter__(self):
                yield from updates
                raise ProcessKilled

        return Dying()

    return play


async def run_until_killed(folder: Path, *updates: Update) -> None:
    """Make a first run that is killed after these updates."""
    async with scripted_project(folder) as it:
        await it.start(team("ada"))
        with pytest.raises(ProcessKilled):
            await it.run(ScriptedChannels(dying(*updates), threads=True), wait=None)


async def parked(folder: Path) -> None:
    """Make a first run that parks at an open permission, since nobody is there."""
    async with scripted_project(folder) as it:
        await it.start(team("ada"))
        first = script(ToolCallStarted("c1", "Bash", COMMAND), asks("c1"))
        result = await it.run(ScriptedChannels(first, threads=True))
        assert (result.status, result.reason) == ("waiting", "question")


async def test_an_unanswered_permission_closes_as_stale_and_is_asked_again(tmp_path: Path) -> None:
    await parked(tmp_path)
    async with scripted_project(tmp_path) as it:
        channels = ScriptedChannels(script(*WHOLE), threads=True)
        assert (await it.run(channels)).status == "waiting"
        with pytest.raises(
            AnswerRefused, match="q1 was closed: the turn that asked was interrupted"
        ):
            await steering.answer(it.look, "q1", "approve", None, "you")
        assert [q.interaction.interaction_id for q in await it.look.questions()] == ["q2"]
        assert "Bash rm -rf build: it was not run." in channels.opened[0].sent[0].text


async def test_a_yes_that_was_never_delivered_serves_one_equal_request(tmp_path: Path) -> None:
    await parked(tmp_path)
    async with scripted_project(tmp_path) as it:
        await steering.answer(it.look, "q1", "approve", None, "you")
        again = (*WHOLE[:3], asks("c3"), TurnCompleted("done"))
        channels = ScriptedChannels(script(*again), threads=True)
        result = await it.run(channels)
        assert result.status == "waiting"  # the second equal request is a new question
        answers = channels.opened[0].answers
        assert [answer.selected_option_id for answer in answers] == ["approve"]
        assert [q.interaction.interaction_id for q in await it.look.questions()] == ["q2"]


async def test_a_yes_outlasts_a_resumed_attempt_that_acts_and_fails(tmp_path: Path) -> None:
    await parked(tmp_path)
    async with scripted_project(tmp_path) as it:
        await steering.answer(it.look, "q1", "approve", None, "you")
        read = ToolCallStarted("c2", "Read", {"file_path": "a.py"})
        cut_off = (read, ToolCallFinished("c2", is_error=False), TurnFailed("model", "cut off"))
        tries = iter([cut_off, (asks("c3"), asks("c4"), TurnCompleted("done"))])
        channels = ScriptedChannels(lambda *_: next(tries), threads=True)
        assert (await it.run(channels)).status == "waiting"  # it serves one request only
        answers = [one.selected_option_id for one in channels.opened[1].answers]
        assert answers == ["approve"]
        assert [q.interaction.interaction_id for q in await it.look.questions()] == ["q2"]


async def test_a_yes_that_was_delivered_is_not_used_again_and_the_question_says_so(
    tmp_path: Path,
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        first = script(ToolCallStarted("c1", "Bash", COMMAND), asks("c1"))
        await it.run(ScriptedChannels(first, threads=True))
        await steering.answer(it.look, "q1", "approve", None, "you")
        delivered = dying(ToolCallStarted("c2", "Bash", COMMAND), asks("c2"))
        with pytest.raises(ProcessKilled):
            await it.run(ScriptedChannels(delivered, threads=True))
    async with scripted_project(tmp_path) as later:
        channels = ScriptedChannels(script(*WHOLE), threads=True)
        assert (await later.run(channels)).status == "waiting"
        [question] = await later.look.questions()
        assert question.interaction.permission is not None
        assert question.interaction.permission.may_have_run_at is not None
        assert "whether it ran is unknown" in channels.opened[0].sent[0].text


async def test_the_agent_receives_what_ran_and_what_is_unknown(tmp_path: Path) -> None:
    await run_until_killed(
        tmp_path,
        ToolCallStarted("c1", "Read", {"file_path": "a.py"}),
        ToolCallFinished("c1", is_error=False),
        ToolCallStarted("c2", "Bash", {"command": "make"}),
    )
    async with scripted_project(tmp_path) as it:
        channels = ScriptedChannels(lambda *_: "done", threads=True)
        assert (await it.run(channels)).status == "completed"
        [prompt] = channels.opened[0].sent
        assert prompt.tries == 2
        lines = prompt.text.splitlines()
        assert lines[0] == "[RESUMED]"
        assert lines[2:] == [
            "- Read a.py: it completed; do not run it again.",
            "- Bash make: whether it ran is unknown; check before repeating it.",
            "",
            "[MESSAGE]",
            "hello",
        ]


async def test_a_lost_thread_gets_the_past_from_our_store(tmp_path: Path) -> None:
    await run_until_killed(tmp_path, ToolCallStarted("c1", "Bash", {"command": "make"}))
    async with scripted_project(tmp_path) as it:
        [turn] = await it.storage.journal.turns("k3f9")
        lost = frozenset({turn.thread or ""})
        channels = ScriptedChannels(lambda *_: "done", threads=True, lost=lost)
        await it.run(channels)
        text = channels.opened[0].sent[0].text
        assert "Your own history of this conversation was lost" in text
        assert text.endswith("[MESSAGE]\nhello")


async def test_a_thread_taken_up_again_is_sent_only_what_is_new(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="max"))
        first = ScriptedChannels(lambda *_: "one", threads=True)
        await it.run(first)
        await steering.say(it.look, "k3f9", "and then? ", None)
    async with scripted_project(tmp_path) as later:
        second = ScriptedChannels(lambda *_: "two", threads=True)
        await later.run(second)
        assert second.opened[0].thread == first.opened[0].thread
        assert [prompt.text for prompt in second.opened[0].sent] == ["[MESSAGE]\nand then?"]


@pytest.mark.parametrize(
    "failure",
    [TurnFailed("rate_limit", "too many", until="2026-01-01T00:00:00Z"), TurnFailed("exit", "")],
    ids=["limited", "failed without a word"],
)
async def test_partial_text_of_a_failed_attempt_is_not_shown_with_the_next(
    tmp_path: Path, failure: TurnFailed
) -> None:
    tries: list[list[Update]] = [
        [TextDelta("one two hal"), failure],
        [TextDelta("One two half "), TurnCompleted("One two half")],
    ]
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        played = iter(tries)
        assert (await it.run(ScriptedChannels(lambda *_: next(played)))).status == "completed"
        shown = [one.text for one in it.recorder.records if isinstance(one, DeltaRecord)]
        assert "".join(shown) == "one two One two half "


def deploying(step: int, *end: Update) -> list[Update]:
    """The updates of an attempt that makes one call, which completes."""
    call = ToolCallStarted(f"c{step}", "Bash", {"command": f"deploy {step}"})
    return [call, ToolCallFinished(call.call_id, is_error=False), *end]


CUT = TurnFailed("model", "the stream was cut")


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("first_run", [3, 2, 1], ids=["one run", "killed later", "killed at once"])
async def test_another_try_receives_what_all_failed_ones_did(
    tmp_path: Path, first_run: int, is_quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its process goes on, is killed in the second attempt, or before it opens; also if all
    of it takes less than a millisecond."""
    tries: list[Prompt] = []
    if is_quick:
        monkeypatch.setattr(instant, "now", lambda: "2031-01-01T12:00:00.000Z")

    def failing(member: Member, prompt: Prompt) -> list[Update]:
        tries.append(prompt)
        if len(tries) == 2 and first_run == 2:
            return dying(*deploying(2))(member, prompt)
        return deploying(len(tries), CUT if len(tries) < 3 else TurnCompleted("done"))

    class Mortal(ScriptedChannels):
        async def channel(self, member: Member, thread: str | None) -> Channel:
            if tries and first_run == 1:
                raise ProcessKilled
            return await super().channel(member, thread)

    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        with pytest.raises(ProcessKilled) if first_run < 3 else nullcontext():
            await it.run(Mortal(failing, threads=True))
    async with scripted_project(tmp_path) as it:
        await it.run(ScriptedChannels(failing, threads=True))
    assert "[RESUMED]" not in tries[0].text
    assert [line for line in tries[2].text.splitlines() if line.startswith("-")] == [
        "- Bash deploy 1: it completed; do not run it again.",
        "- Bash deploy 2: it completed; do not run it again.",
    ]


async def test_another_try_receives_which_call_was_denied_and_the_last_hundred_only(
    tmp_path: Path,
) -> None:
    touch = Action("write", "Write", "/w", paths=("x",))
    pending = PendingCall("c0", "Write", {"path": "x"}, "/w", touch)
    asked = Asked("c0", "Confirm", "confirm_risky_action", call=pending)
    calls = [call for step in range(1, 102) for call in deploying(step)]
    first = [*calls, ToolCallStarted("c0", "Write", {"path": "x"}), asked, CUT]
    tries = iter([first, [TurnCompleted("done")]])
    reader = team("ada").members[0].model_copy(update={"permissions": Permissions(mode="read")})
    channels = ScriptedChannels(lambda *_: next(tries), threads=True)
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada").model_copy(update={"members": (reader,)}))
        await it.run(channels)
    told = [line for line in channels.opened[1].sent[0].text.splitlines() if line[:1] == "-"]
    assert told[0] == "- 2 earlier tool calls: not listed; check before repeating any."
    assert told[1:] == [
        *(f"- Bash deploy {n}: it completed; do not run it again." for n in range(3, 102)),
        "- Write x: it was not run.",
    ]
