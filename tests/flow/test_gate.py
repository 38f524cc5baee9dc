"""The gate before every tool call: rules first, then the user; and how far an approval reaches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from coterie.engine import steering
from coterie.errors import AnswerRefused
from coterie.model.conversation import Prompt
from coterie.model.interaction import Display, Response
from coterie.model.record import InteractionRecord
from coterie.model.task import Caps
from coterie.model.team import YOU, Member, Permissions, Team
from coterie.model.tool_call import Action, Effect
from coterie.model.update import (
    Asked,
    PendingCall,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    Update,
)
from coterie.testing.scripted import (
    TASK,
    ScriptedChannel,
    ScriptedChannels,
    ScriptedProject,
    scripted_project,
    team,
)
from coterie.workflows.chat import Solo

END = TurnCompleted("done")


def asks(call_id: str, command: str, effect: Effect = "run", *, words: bool = True) -> Asked:
    path = command if effect == "write" else ""
    action = Action(
        effect,
        "Bash",
        "/w",
        command=command if effect == "run" else "",
        paths=(path,) if path else (),
    )
    return Asked(
        key=call_id,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title="Run a command", content=command),
        call=PendingCall(
            call_id, "Bash", {"command": command}, "/w", action, why="tidy", said="Now."
        ),
        takes_words=words,
    )


def script(*asked: Asked) -> Callable[[Member, Prompt], list[Update]]:
    def play(member: Member, prompt: Prompt) -> list[Update]:
        calls: list[Update] = [ToolCallStarted(one.key, "Bash") for one in asked]
        return [*calls, *asked, TurnCompleted("done")]

    return play


def allowed(who: Team, **rules: object) -> Team:
    members = tuple(
        member.model_copy(update={"permissions": Permissions.model_validate(rules)})
        for member in who.members
    )
    return who.model_copy(update={"members": members})


def answers(channels: ScriptedChannels) -> list[tuple[str | None, str | None]]:
    [channel] = [one for one in channels.opened if isinstance(one, ScriptedChannel)]
    return [(one.selected_option_id, one.comment) for one in channel.answers]


def open_questions(it: ScriptedProject) -> list[InteractionRecord]:
    seen = [one for one in it.recorder.records if isinstance(one, InteractionRecord)]
    return [one for one in seen if one.state == "open"]


@pytest.mark.parametrize(
    ("rules", "asked", "verdict"),
    [
        ({"mode": "full"}, asks("c1", "rm -rf build"), "approve"),
        ({"mode": "full", "deny": ["rm *"]}, asks("c1", "rm -rf build"), "reject"),
        ({"mode": "ask", "allow": ["run(make test)"]}, asks("c1", "make test"), "approve"),
        ({"mode": "ask"}, asks("c1", "ls"), "approve"),
        ({"mode": "read"}, asks("c1", "touch x"), "reject"),
        ({"mode": "accept-edits"}, asks("c1", "a.py", "write"), "approve"),
    ],
)
async def test_what_a_rule_decides_nobody_is_asked(
    tmp_path: Path, rules: dict[str, object], asked: Asked, verdict: str
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(allowed(team("ada"), **rules))
        channels = ScriptedChannels(script(asked))
        result = await it.run(channels)
    assert (result.status, open_questions(it)) == ("completed", [])
    assert answers(channels)[0][0] == verdict


async def test_a_question_shows_all_and_offers_four_answers(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        result = await it.run(ScriptedChannels(script(asks("c1", "npm install stripe@17"))))
        [asked] = open_questions(it)
    question = asked.interaction
    assert result.status == "waiting"
    assert [(one.id, one.label, one.detail) for one in question.options] == [
        ("approve", "once", ""),
        ("reject", "deny", "--say tells ada why"),
        ("task", "this task", f"exactly this command, ada only, until {TASK} ends"),
        ("rule", "rule", "run(npm install stripe@17)"),
    ]
    assert question.permission is not None
    assert question.permission.model_dump() == {
        "kind": "tool_permission",
        "ticket": None,
        "tool": "Bash",
        "cwd": "/w",
        "effect": "run",
        "command": "npm install stripe@17",
        "paths": (),
        "target": "",
        "why": "tidy",
        "said": "Now.",
        "note": "",
        "mayHaveRunAt": None,
    }


async def answered(folder: Path, choice: str, text: str | None, *asked: Asked) -> ScriptedChannels:
    """Run until it parks at its first question, answer that, and run to the end."""
    async with scripted_project(folder) as it:
        await it.start(team("ada"), caps=Caps(max_rounds=1))
        await it.run(ScriptedChannels(script(*asked)))
        [question] = await it.storage.inbox.questions()
        name = question.interaction.interaction_id
        await steering.answer(it.look, name, choice, text, "you")
    async with scripted_project(folder) as it:
        channels = ScriptedChannels(script(*asked))
        result = await it.run(channels)
        assert result.status == "completed", await it.storage.inbox.questions()
        return channels


async def test_yes_for_the_task_is_for_exactly_that_and_survives_a_restart(tmp_path: Path) -> None:
    same = [asks("c1", "make build"), asks("c2", "make build")]
    channels = await answered(tmp_path, "task", None, *same)
    assert answers(channels) == [("approve", None), ("approve", None)]


async def test_yes_by_rule_is_for_all_that_the_rule_covers(tmp_path: Path) -> None:
    like = [asks("c1", "npm install a"), asks("c2", "npm install b")]
    channels = await answered(tmp_path, "rule", "run(npm install *)", *like)
    assert [one for one, _ in answers(channels)] == ["approve", "approve"]


async def test_a_rule_given_while_nobody_ran_the_task_holds_though_the_call_is_another_now(
    tmp_path: Path,
) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"), caps=Caps(max_turns=2, max_rounds=None))
        await it.run(ScriptedChannels(script(asks("c1", "npm install a"))))
        await steering.answer(it.look, "q1", "rule", "npm install *", "you")
    async with scripted_project(tmp_path) as it:
        channels = ScriptedChannels(script(asks("c2", "npm install b")))
        assert (await it.run(channels)).status == "completed"
        assert [answer for answer, _ in answers(channels)] == ["approve", "approve"]


async def test_a_rule_that_is_none_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.run(ScriptedChannels(script(asks("c1", "npm install a"))))
        with pytest.raises(AnswerRefused, match="not a valid rule"):
            await steering.answer(it.look, "q1", "rule", "walk(the dog)", "you")
        assert [one.state for one in await it.storage.inbox.questions()] == ["open"]


async def test_a_comment_on_a_denial_is_sent_afterwards_where_the_agent_takes_none(
    tmp_path: Path,
) -> None:
    def obeys(member: Member, prompt: Prompt) -> list[Update]:
        if "use uv" in prompt.text:
            return [TurnCompleted("With uv, then.")]
        return [asks("c1", "pip install x", words=False), TurnCompleted("I may not.")]

    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.run(ScriptedChannels(obeys))
        await steering.answer(it.look, "q1", "deny", "use uv", "you")
        result = await it.run(ScriptedChannels(obeys))
        assert result.status == "completed"
        assert await it.conversation() == [
            ("you", "hello"),
            ("ada", "I may not."),
            ("you", "use uv"),
            ("ada", "With uv, then."),
        ]


@pytest.mark.parametrize("workflow", ["chat", "solo"])
async def test_esc_at_a_permission_denies_it_in_nobodys_name_and_hands_over_the_floor(
    tmp_path: Path, workflow: str
) -> None:
    def asking(member: Member, prompt: Prompt) -> list[Update]:
        return [asks("c1", "rm -rf build", words=False), TurnCompleted("never said")]

    async with scripted_project(tmp_path, more=[Solo()]) as it:
        await it.start(team("ada", "bob"), caps=Caps(floor="ask"), workflow=workflow)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(it.run, ScriptedChannels(asking), None)
                await open_question_of(it, "ada")
                await steering.interrupt(it.look, TASK)
                await open_question_of(it, "you")
                await it.storage.inbox.request(TASK, "stop", YOU, "")
        said = await it.storage.conversation.messages(TASK)
        assert [(one.member, one.cut) for one in said] == [("you", False), ("ada", True)]


async def open_question_of(it: ScriptedProject, author: str) -> None:
    """Wait until a question of this author is open."""
    while author not in [one.interaction.author_actor_id for one in await it.look.questions()]:
        await anyio.lowlevel.checkpoint()


async def test_a_no_with_a_word_comes_from_the_human_of_the_team_whoever_gave_it(
    tmp_path: Path,
) -> None:
    def obeys(member: Member, prompt: Prompt) -> list[Update]:
        return [asks("c1", "pip install x", words=False), TurnCompleted("I may not.")]

    async with scripted_project(tmp_path) as it:
        await it.start(team("ada", human="alex"), caps=Caps(max_turns=1, max_rounds=None))
        await it.run(ScriptedChannels(obeys))
        await steering.answer(it.look, "q1", "deny", "use uv", YOU)
        await it.run(ScriptedChannels(obeys))
        assert (await it.conversation())[-1] == ("alex", "use uv")


async def test_secrets_are_in_no_table(tmp_path: Path) -> None:
    secret = "sk-ant-" + "a1b2c3d4" * 4

    def leaks(member: Member, prompt: Prompt) -> list[Update]:
        call = ToolCallStarted("c1", "Bash", {"command": f"curl -H 'x: {secret}'"})
        return [call, asks("c2", f"export K={secret}"), TurnCompleted(f"The key is {secret}.")]

    async with scripted_project(tmp_path) as it:
        await it.start(allowed(team("ada"), mode="ask"))
        await it.run(ScriptedChannels(leaks))
        response = Response(
            interaction_id="q1", task_id=TASK, author_actor_id="you", selected_option_id="approve"
        )
        await steering.answer(it.look, "q1", response.selected_option_id, None, "you")
        result = await it.run(ScriptedChannels(leaks))
        assert result.status == "completed"
    for file in tmp_path.glob("coterie.db*"):
        assert secret.encode() not in file.read_bytes()


async def test_what_was_redacted_is_still_the_same_question(tmp_path: Path) -> None:
    """An approval is bound to the real command, so a different secret is a new question."""
    command = "deploy --key sk-ant-" + "0123456789" * 3
    channels = await answered(tmp_path, "approve", None, asks("c1", command))
    assert json.dumps(answers(channels)) == '[["approve", null]]'


async def ends(it: ScriptedProject) -> dict[str, object]:
    """Return the output with which each call ended, by call id."""
    rows = [row for row in await it.storage.audit.of_task(TASK) if row.kind == "ToolCallCompleted"]
    assert len({row.tool_call_id for row in rows}) == len(rows)
    assert all(row.is_error for row in rows)
    return {row.tool_call_id: row.output for row in rows}


async def test_a_call_that_never_ran_ends_with_its_turn(tmp_path: Path) -> None:
    """Whether denied or never answered, and although its agent did not mention it again."""
    late = {"error": "the turn ended before anybody allowed it", "not_run": True}
    async with scripted_project(tmp_path) as it:
        await it.start(allowed(team("ada"), mode="read"))
        unannounced = asks("c2", "touch y")

        def play(member: Member, prompt: Prompt) -> list[Update]:
            return [*script(asks("c1", "touch x"))(member, prompt)[:-1], unannounced, END]

        await it.run(ScriptedChannels(play))
        told = await ends(it)
    denied = {**late, "denied": "not permitted here: mode read"}
    assert told == {"c1": denied, "c2": denied}


async def test_a_call_of_a_cut_turn_that_never_ran_ends_with_the_next_try(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.run(ScriptedChannels(script(asks("c1", "npm install"))))
        assert await ends(it) == {}
        tries = iter([TurnFailed("exit", "it broke"), END])
        await it.run(ScriptedChannels(lambda member, prompt: [next(tries)]))
        told = await ends(it)
    assert told == {"c1": {"error": "the turn ended before anybody allowed it", "not_run": True}}


async def test_a_call_that_waits_when_its_task_is_canceled_never_ran(tmp_path: Path) -> None:
    async with scripted_project(tmp_path) as it:
        await it.start(team("ada"))
        await it.run(ScriptedChannels(script(asks("c1", "npm install"))))
        await steering.cancel(it.look, it.engine.claimant, TASK)
        told = await ends(it)
    assert told == {"c1": {"error": "the task was canceled before", "not_run": True}}
