"""Chat: who speaks, who is asked, when it ends, and with which reason."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from coterie.engine import steering
from coterie.errors import AnswerRefused
from coterie.model import instant
from coterie.model.conversation import Limits, Prompt
from coterie.model.record import ErrorRecord, InteractionRecord, MemberRecord, Record
from coterie.model.task import Caps
from coterie.model.team import Member, Routing, Team
from coterie.model.update import Activity, TextDelta, TurnCompleted, TurnFailed, Update
from coterie.testing.scripted import (
    TASK,
    Recorder,
    ScriptedChannel,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)


def echo(member: Member, prompt: Prompt) -> str:
    return f"{member.id} heard {prompt.text.rpartition(chr(10))[2]!r}"


def plain(member: Member, prompt: Prompt) -> str:
    return "yes"


async def test_every_member_speaks_once_in_order_and_the_round_is_over(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob", "cy"))
        result = await it.run(ScriptedChannels(plain))
        assert (result.status, result.reason, result.turns) == ("completed", "max_rounds", 3)
        assert it.messages == [("ada", "yes"), ("bob", "yes"), ("cy", "yes")]
        assert await it.conversation() == [("you", "hello"), *it.messages]


@pytest.mark.parametrize(
    ("caps", "turns", "reason"),
    [
        (Caps(max_rounds=2), 4, "max_rounds"),
        (Caps(max_rounds=None, max_turns=5), 5, "max_turns"),
        (Caps(max_rounds=2, max_turns=3), 3, "max_turns"),
        (Caps(max_rounds=None), 20, "runaway"),
    ],
)
async def test_caps_end_the_talk_with_their_reason(
    tmp_path: Path, caps: Caps, turns: int, reason: str
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"), caps=caps)
        result = await it.run(ScriptedChannels(plain))
        assert (result.turns, result.reason) == (turns, reason)


async def test_a_mention_in_the_first_message_picks_the_speaker(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"), goal="@bob what do you think?")
        await it.run(ScriptedChannels(plain))
        assert [name for name, _ in it.messages] == ["bob", "ada"]


async def test_a_human_turn_with_nobody_there_parks_the_task(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="max"))
        result = await it.run(ScriptedChannels(plain))
        assert (result.status, result.reason) == ("waiting", "question")
        [question] = await it.look.questions()
        assert question.interaction.author_actor_id == "max"
        assert question.interaction.display.content == "yes"


async def test_an_answer_given_while_nobody_runs_counts_and_a_second_is_refused(
    tmp_path: Path,
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="max"), caps=Caps(max_turns=3, max_rounds=None))
        await it.run(ScriptedChannels(plain))
    async with scripted_project(tmp_path) as later:
        await steering.answer(later.look, "q1", None, "go on", "max")
        [question] = await later.look.questions(only_open=False)
        when = instant.local(question.answered_at or "")
        with pytest.raises(
            AnswerRefused, match=f'q1 was already answered "go on" at {when} by max'
        ):
            await steering.answer(later.look, "q1", None, "no, stop", "max")
        result = await later.run(ScriptedChannels(plain))
        assert (result.status, result.turns) == ("completed", 3)
        assert await later.conversation() == [
            ("max", "hello"),
            ("ada", "yes"),
            ("max", "go on"),
            ("ada", "yes"),
        ]


@pytest.mark.parametrize("word", ["/end", "enough [DONE]"])
async def test_a_human_ends_the_talk(tmp_path: Path, word: str) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="max"))
        await it.run(ScriptedChannels(plain))
        assert (await steering.say(it.look, TASK, word, None)).question == "q1"
        result = await it.run(ScriptedChannels(plain))
        assert (result.status, result.reason) == ("completed", "ended")


async def test_on_a_terminal_the_floor_goes_back_to_the_person(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"), caps=Caps(floor="ask"))
        channels = ScriptedChannels(plain)
        assert (await it.run(channels)).status == "waiting"
        await steering.say(it.look, TASK, "@bob and you?", None)
        assert (await it.run(channels)).status == "waiting"
        await steering.say(it.look, TASK, "/end", None)
        result = await it.run(channels)
        assert (result.status, result.reason) == ("completed", "ended")
        names = [name for name, _ in await it.conversation()]
        assert names == ["you", "ada", "bob", "you", "bob", "ada", "you"]


async def test_without_a_first_message_the_person_speaks_first(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"), goal="", caps=Caps(floor="ask"))
        assert (await it.run(ScriptedChannels(plain))).status == "waiting"
        await steering.say(it.look, TASK, "now then", None)
        await it.run(ScriptedChannels(plain))
        assert await it.conversation() == [("you", "now then"), ("ada", "yes")]


async def test_a_message_sent_while_they_talk_is_read_before_the_next_turn(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"), caps=Caps(max_rounds=2))
        await steering.say(it.look, TASK, "@bob you first", None)
        await it.run(ScriptedChannels(plain))
        names = [name for name, _ in await it.conversation()]
        assert names[0] == "you"
        assert "you" in names[1:]
        place = names.index("you", 1)
        assert names[place + 1] == "bob"


# -- failure -----------------------------------------------------------------------------------


class FlakyMember:
    """Fails a number of times, then speaks."""

    def __init__(self, failures: int, *, retry: bool = True) -> None:
        self.left = failures
        self.retry = retry
        self.calls = 0

    def __call__(self, member: Member, prompt: Prompt) -> str | list[Update]:
        self.calls += 1
        if member.id == "bob" and self.left > 0:
            self.left -= 1
            return [TurnFailed("exit", "exit code 3", 3, "boom", retry=self.retry)]
        return f"{member.id} speaks"


async def test_a_failing_turn_is_tried_twice_more(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"))
        result = await it.run(ScriptedChannels(FlakyMember(2)))
        assert result.status == "completed"
        assert it.messages == [("ada", "ada speaks"), ("bob", "bob speaks")]
        errors = [r for r in it.recorder.records if isinstance(r, ErrorRecord)]
        assert [error.where for error in errors] == ["teams/t/bob"] * 2
        assert "boom" in errors[0].message


async def asked_about_bob(it: ScriptedProject, script: FlakyMember, *names: str) -> None:
    await it.start(team(*names, "bob"))
    result = await it.run(ScriptedChannels(script))
    assert (result.status, result.reason) == ("waiting", "question")
    [question] = await it.look.questions()
    assert question.interaction.display.title == "bob cannot speak (turn 2)"


async def test_then_the_person_decides_and_retry_tries_again(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        script = FlakyMember(3)
        await asked_about_bob(it, script, "ada")
        await steering.answer(it.look, "q1", "retry", None, "you")
        assert (await it.run(ScriptedChannels(script))).status == "completed"
        assert await it.conversation() == [
            ("you", "hello"),
            ("ada", "ada speaks"),
            ("bob", "bob speaks"),
        ]


@pytest.mark.parametrize(
    ("routing", "goal", "spoken", "reason"),
    [
        ("round_robin", "hello", ["ada"], "max_rounds"),
        ("round_robin", "@bob you first", ["ada"], "max_rounds"),
        ("mention", "@bob you first", [], "skipped"),
        ("handoff", "@bob you first", [], "skipped"),
        ("handoff", "hello", ["ada"], "nobody_named"),
    ],
)
async def test_skip_passes_the_turn_over_even_of_one_that_was_named(
    tmp_path: Path, routing: Routing, goal: str, spoken: list[str], reason: str
) -> None:
    def script(member: Member, prompt: Prompt) -> str | list[Update]:
        return "[NEXT: bob]" if member.id == "ada" else [TurnFailed("exit", "boom", retry=False)]

    async with scripted_project(tmp_path) as it:
        caps = Caps(max_rounds=1 if routing == "round_robin" else None)
        await it.start(routed(routing, "ada", "bob"), goal, caps)
        assert (await it.run(ScriptedChannels(script))).status == "waiting"
        await steering.answer(it.look, "q1", "skip", None, "you")
        result = await it.run(ScriptedChannels(script))
        assert ([name for name, _ in it.messages], result.reason) == (spoken, reason)


async def test_replace_lets_another_take_the_turns(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        script = FlakyMember(99)
        await asked_about_bob(it, script, "ada")
        await steering.answer(it.look, "q1", "replace", None, "you")
        await it.run(ScriptedChannels(script))
        assert [name for name, _ in await it.conversation()] == ["you", "ada", "ada"]


async def test_stop_parks_it_and_a_later_run_tries_again(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        script = FlakyMember(3)
        await it.start(team("ada", "bob"))
        channels = ScriptedChannels(script)
        results: list[str] = []
        async with anyio.create_task_group() as group:

            async def run() -> None:
                result = await it.run(channels, wait=None)
                results.append(result.reason)

            group.start_soon(run)
            while not await it.look.questions():
                await it.storage.changed(0)
                await anyio.lowlevel.checkpoint()
            await steering.answer(it.look, "q1", "stop", None, "you")
        assert results == ["stopped"]
        assert (await it.run(channels)).status == "completed"


async def test_a_missing_agent_is_not_tried_again(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"))
        result = await it.run(ScriptedChannels(plain, missing=frozenset({"bob"})))
        assert result.status == "waiting"
        errors = [r.message for r in it.recorder.records if isinstance(r, ErrorRecord)]
        assert errors == [
            "bob failed turn 2 (try 1): bob cannot start: ghost: not installed (in teams/t/bob)."
        ]


# -- time limits -------------------------------------------------------------------------------


async def test_a_turn_without_an_end_fails_as_stuck(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        clocks = Limits(total=0.05, quiet_after=30)
        result = await it.run(ScriptedChannels(lambda *_: [Activity()], clocks=clocks))
        assert result.status == "waiting"
        states = [r.state for r in it.recorder.records if isinstance(r, MemberRecord)]
        assert states.count("stuck") == 3


class SlowChannel(ScriptedChannel):
    """Says something only after it was reported quiet, twice."""

    quiet = anyio.Event()

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        for number in range(2):
            await self.quiet.wait()
            self.quiet = anyio.Event()
            yield TextDelta(str(number))
        yield TurnCompleted("at last")


class WakingRecorder(Recorder):
    """Wakes the slow channel when it is reported quiet."""

    def __init__(self, slow: SlowChannel) -> None:
        super().__init__()
        self.slow = slow

    def saw(self, record: Record) -> None:
        super().saw(record)
        if isinstance(record, MemberRecord) and record.state == "quiet":
            self.slow.quiet.set()


async def test_quiet_is_reported_once_per_incident_and_ends_with_the_next_sign(
    tmp_path: Path,
) -> None:
    async with scripted_project(tmp_path) as it:
        members = team("ada")
        await it.start(members)
        slow = SlowChannel(members.members[0], plain)
        it.recorder = recorder = WakingRecorder(slow)
        clocks = Limits(total=60, quiet_after=0.02)
        channels = ScriptedChannels(plain, clocks=clocks, open={"ada": slow})
        assert (await it.run(channels)).status == "completed"
        states = [r.state for r in recorder.records if isinstance(r, MemberRecord)]
        told = [state for state in states if state in ("quiet", "working")]
        assert told == ["working", "quiet", "working", "quiet", "working"]


async def test_an_open_question_is_recorded_with_who_asks(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="max"))
        await it.run(ScriptedChannels(plain))
        records = [r for r in it.recorder.records if isinstance(r, InteractionRecord)]
        assert [(r.member, r.state, r.interaction.kind) for r in records] == [
            ("max", "open", "Input")
        ]


# -- what is sent ------------------------------------------------------------------------------


async def test_an_agent_with_a_memory_gets_only_what_is_new(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", "bob"), caps=Caps(max_rounds=None, max_turns=6))
        channels = ScriptedChannels(lambda m, p: f"{m.id} speaks")
        await it.run(channels)
        ada, bob = channels.opened
        assert [prompt.text for prompt in ada.sent] == [
            "[MESSAGE]\nhello",
            "[MESSAGE]\nbob speaks",
            "[MESSAGE]\nbob speaks",
        ]
        assert bob.sent[0].text == "[CONTEXT]\nyou: hello\n\n[MESSAGE]\nada speaks"
        assert bob.sent[-1].text == "[MESSAGE]\nada speaks"


# -- routing -----------------------------------------------------------------------------------


def routed(routing: Routing, *names: str) -> Team:
    return team(*names).model_copy(update={"routing": routing})


TALK = {
    "ada": "I looked. @bob what do you think, and @cy?\n```\n@zoe = @bob\n```\nSee `@ada`.",
    "bob": "Fine. No @pytest.fixture needed.",
    "cy": "Fine too.",
}


@pytest.mark.parametrize(
    ("routing", "goal", "spoken", "reason"),
    [
        # Those who were mentioned speak one after the other; then nobody is left.
        ("mention", "go", ["ada", "bob", "cy"], "nobody_named"),
        ("mention", "@bob you first", ["bob"], "nobody_named"),
        ("mention", "@cy and @ada", ["cy", "ada", "bob", "cy"], "nobody_named"),
        ("handoff", "go", ["ada"], "nobody_named"),
        ("handoff", "@cy say", ["cy"], "nobody_named"),
        ("round_robin", "go", ["ada", "bob", "cy"], "max_rounds"),
    ],
)
async def test_how_a_team_is_routed(
    tmp_path: Path, routing: Routing, goal: str, spoken: list[str], reason: str
) -> None:
    async with scripted_project(tmp_path) as it:
        caps = Caps(max_rounds=1 if routing == "round_robin" else None)
        await it.start(routed(routing, "ada", "bob", "cy"), goal=goal, caps=caps)
        result = await it.run(ScriptedChannels(lambda member, _: TALK[member.id]))
        assert [name for name, _ in it.messages] == spoken
        assert result.reason == reason
        warnings = [r.message for r in it.recorder.records if isinstance(r, ErrorRecord)]
        assert warnings == []


async def test_two_that_mention_each_other_forever_are_stopped(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(routed("mention", "ada", "bob"), caps=Caps(max_rounds=None))
        other = {"ada": "@bob", "bob": "@ada"}
        result = await it.run(ScriptedChannels(lambda member, _: f"and you, {other[member.id]}?"))
        assert (result.turns, result.reason) == (20, "runaway")


async def test_next_counts_in_every_routing(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(routed("handoff", "ada", "bob", "cy"), caps=Caps(max_rounds=None))
        says = {"ada": "your turn [NEXT: cy]", "cy": "done"}
        result = await it.run(ScriptedChannels(lambda member, _: says[member.id]))
        assert [name for name, _ in it.messages] == ["ada", "cy"]
        assert result.reason == "nobody_named"
