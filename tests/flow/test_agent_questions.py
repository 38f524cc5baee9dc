"""What an agent asked in a turn that was cut off: it gets the answer, or its question is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio.lowlevel
import pytest

from coterie.engine import steering
from coterie.engine.questions import close_question
from coterie.errors import AnswerRefused
from coterie.model.conversation import Prompt
from coterie.model.interaction import Display, Option
from coterie.model.team import YOU, Member
from coterie.model.update import (
    Asked,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    Update,
)
from coterie.ports import Channel
from coterie.testing.scripted import (
    TASK,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)

CUT_OFF = (
    ToolCallStarted("c1", "Bash", {"command": "make"}),
    ToolCallFinished("c1", is_error=False),
    TurnFailed("model", "the stream was cut"),
)
"""An attempt that uses a tool and then fails."""


def asks_user(
    key: str, *titles: str, content: str = "", options: tuple[Option, ...] = ()
) -> Callable[[Member, Prompt], list[Update]]:
    """Ask the user; `key` is new in every process of most agents."""
    kind = "Select" if options else "Input"
    asked = [
        Asked(
            f"{key}.{title}", kind, "request_info", Display(title=title, content=content), options
        )
        for title in titles
    ]
    return lambda member, prompt: [*asked, TurnCompleted("done")]


async def parked(it: ScriptedProject, *titles: str) -> None:
    """Park a first run at the first question, as nobody is there to answer it."""
    await it.start(team("ada"))
    assert (await it.run(ScriptedChannels(asks_user("a", *titles)))).status == "waiting"


async def open_questions(it: ScriptedProject) -> list[str]:
    return [one.interaction.interaction_id for one in await it.look.questions()]


def answers(channels: ScriptedChannels) -> list[str | None]:
    return [one.input_value for channel in channels.opened for one in channel.answers]


async def test_an_answer_given_meanwhile_reaches_an_agent_that_asks_again(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await parked(it, "Why?")
    async with scripted_project(tmp_path) as it:  # resumed before it was answered
        assert (await it.run(ScriptedChannels(asks_user("b", "Why?")))).status == "waiting"
        assert await open_questions(it) == ["q1"]
        await steering.answer(it.look, "q1", None, "because", "you")
        channels = ScriptedChannels(asks_user("c", "Why?"), threads=True)
        assert (await it.run(channels)).status == "completed"
        assert answers(channels) == ["because"]
        assert "- You asked: Why? Answer: because" in channels.opened[0].sent[0].text.splitlines()


async def test_a_question_that_is_not_asked_again_is_closed_with_its_turn(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await parked(it, "Why?")
        channels = ScriptedChannels(asks_user("b", "Why, then?"))
        assert (await it.run(channels)).status == "waiting"
        await steering.answer(it.look, "q2", None, "because", "you")
        assert (await it.run(ScriptedChannels(asks_user("c", "Why, then?")))).status == "completed"
    async with scripted_project(tmp_path) as it:
        await q1_is_closed(it)


async def q1_is_closed(it: ScriptedProject) -> None:
    with pytest.raises(AnswerRefused, match="q1 was closed: the turn that asked was interrupted"):
        await steering.answer(it.look, "q1", None, "because", "you")


@pytest.mark.parametrize("key", ["a", "b"], ids=["the same key", "a new key"])
async def test_a_question_that_was_closed_is_a_new_one_when_asked_again(
    tmp_path: Path, key: str
) -> None:
    """After Esc and an immediate stop: nobody answered, so there is no answer to deliver."""
    async with scripted_project(tmp_path) as it:
        await parked(it, "Why?")
        [question] = await it.look.questions()
        await close_question(it.storage.inbox, question.interaction, "the turn was interrupted")
    async with scripted_project(tmp_path) as it:
        channels = ScriptedChannels(asks_user(key, "Why?"), threads=True)
        assert (await it.run(channels)).status == "waiting"
        assert (answers(channels), await open_questions(it)) == ([], ["q2"])
        assert "You asked" not in channels.opened[0].sent[0].text
        await steering.answer(it.look, "q2", None, "because", "you")
        channels = ScriptedChannels(asks_user(key, "Why?"), threads=True)
        assert (await it.run(channels)).status == "completed"
        assert answers(channels) == ["because"]


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "open"])
async def test_a_question_outlasts_a_resumed_attempt_that_acts_and_fails(
    tmp_path: Path, is_answered: bool
) -> None:
    async with scripted_project(tmp_path) as it:
        await parked(it, "Why?")
        if is_answered:
            await steering.answer(it.look, "q1", None, "because", "you")
        again = asks_user("b", "Why?")

        def play(member: Member, prompt: Prompt) -> Sequence[Update]:
            return CUT_OFF if prompt.tries == 2 else again(member, prompt)

        channels = ScriptedChannels(play, threads=True)
        result = await it.run(channels)
        noted = "- You asked: Why? Answer: because" in channels.opened[1].sent[0].text
        assert (result.status, answers(channels), noted, await open_questions(it)) == (
            ("completed", ["because"], True, []) if is_answered else ("waiting", [], False, ["q1"])
        )


@pytest.mark.parametrize("end", ["missing", "failed", "interrupted at its start"])
async def test_a_turn_that_ends_without_asking_again_closes_its_question(
    tmp_path: Path, end: str
) -> None:
    async with scripted_project(tmp_path) as it:
        await parked(it, "Why?")

        class Starting(ScriptedChannels):
            async def channel(self, member: Member, thread: str | None) -> Channel:
                if end == "interrupted at its start" and member.type == "ai":
                    await it.storage.inbox.request(TASK, "interrupt", YOU, "")
                    while await it.storage.inbox.requests(TASK):  # until it is acted on
                        await anyio.lowlevel.checkpoint()
                return await super().channel(member, thread)

        missing = frozenset({"ada"} if end == "missing" else ())
        failure = TurnFailed("exit", "exit code 1", retry=False)
        assert (await it.run(Starting(lambda *_: [failure], missing=missing))).status == "waiting"
        [question] = await it.look.questions()
        about = question.interaction.about
        is_turn = end == "interrupted at its start"
        assert about is not None
        assert about.kind == ("human_turn" if is_turn else "failed_turn")
        await q1_is_closed(it)


async def test_a_question_with_a_secret_is_known_again(tmp_path: Path) -> None:
    secret = "sk-ant-" + "a1b2c3d4" * 4
    title, content = f"Is {secret} the key?", f"{secret}: the old one"
    options = (Option(id="yes", label=f"yes, {secret}"), Option(id="no", label="no"))
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        for key in ("a", "b"):
            again = asks_user(key, title, content=content, options=options)
            assert (await it.run(ScriptedChannels(again))).status == "waiting"
            assert await open_questions(it) == ["q1"]


async def test_questions_that_differ_only_in_their_lists_are_two(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        first = asks_user("a", "Which?", content="tests\ndocs")
        assert (await it.run(ScriptedChannels(first))).status == "waiting"
        await steering.answer(it.look, "q1", None, "tests", "you")
        other = ScriptedChannels(asks_user("b", "Which?", content="lint\ntypes"))
        assert (await it.run(other)).status == "waiting"
        assert (answers(other), await open_questions(it)) == ([], ["q2"])
