"""The built-in agent on a model that answers over HTTP: turns, tools, questions, interrupting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from coterie.agents.program import RefusedChannel
from coterie.errors import AgentMissing
from coterie.model.interaction import Display, Option, Validation
from coterie.model.tool_call import Action
from coterie.model.update import (
    Asked,
    Delegated,
    PendingCall,
    Spent,
    TextDelta,
    ThreadAppended,
    ToolCallFinished,
    ToolCallStarted,
    TurnInterrupted,
    Usage,
)
from tests.contract.builtin.harness import (
    NO,
    ROLE,
    TEAM,
    YES,
    answer,
    builtin_harness,
    call,
    calls,
    outputs,
    says,
)
from tests.contract.gate import shown

WIRES = ("anthropic:claude-x", "openai:gpt-x", "google:gemini-x")


@pytest.mark.parametrize("model", WIRES)
async def test_a_turn_on_every_wire(tmp_path: Path, model: str) -> None:
    replies = (
        calls(
            call("readFile", path="a.txt"),
            call("editFile", path="a.txt", oldStr="one", newStr="two"),
            text="I look.",
        ),
        {"tools": [call("runCommand", command="cat a.txt")], "thinking": "Let me see."},
        says("It says two."),
    )
    async with builtin_harness(tmp_path, *replies) as it:
        (it.project / "a.txt").write_text("one\n")
        async with it.open(it.member(model=model)) as channel:
            taken = await it.take_turn(channel)
        assert taken.text == "It says two."
        assert [(name, is_error) for name, is_error, _ in outputs(taken)] == [
            ("readFile", False),
            ("editFile", False),
            ("runCommand", False),
        ]
        assert outputs(taken)[2][2] == {"exitCode": 0, "output": "two\n"}
        assert [entry["kind"] for entry in it.entries(channel.thread)] == [
            *("prompt", "reply", "result", "begun", "result"),
            *("reply", "begun", "result", "reply"),
        ]
        assert "".join(one.text for one in taken.of(TextDelta)) == "I look.It says two."
        assert [(one.usage.source, one.is_last) for one in taken.of(Spent)] == [
            *(("rehearsal", False), ("rehearsal", False), ("rehearsal", True)),
        ]
        seen = it.server.turns
        assert {(one.headers["user-agent"], one.token.reveal()) for one in seen} == {
            ("coterie-builtin", "rehearsal")
        }
        assert seen[-1].asked is not None
        assert seen[-1].asked.client == "builtin"
        assert seen[-1].asked.model == model.partition(":")[2]
        assert it.results() == [("exitCode: 0\n\ntwo\n", False)]


async def test_what_is_on_record_before_anything_is_done(tmp_path: Path) -> None:
    replies = (calls(call("runCommand", command="touch made"), text="I make it."), says("Made."))
    async with builtin_harness(tmp_path, *replies) as it:
        async with it.open() as channel:
            there: list[tuple[str, bool]] = []

            def look(update: object) -> None:
                if isinstance(update, ThreadAppended):
                    kinds = "+".join(str(entry["kind"]) for entry in update.entries)
                    there.append((f"{kinds}{'!' * update.gates}", (it.project / "made").exists()))

            taken = await it.take_turn(channel, hook=look)
        assert there == [
            ("prompt", False),
            ("reply!", False),
            ("begun!", False),
            ("result", True),
            ("reply", True),
        ]
        thread = channel.thread
        started, finished = taken.of(ToolCallStarted)[0], taken.of(ToolCallFinished)[0]
        name = f"call_{thread[:8]}_2_1"
        assert started == ToolCallStarted(
            name, "runCommand", {"command": "touch made"}, effect="run"
        )
        assert finished == ToolCallFinished(
            name, False, {"exitCode": 0, "output": ""}, name="runCommand"
        )
        usage = taken.of(Spent)[0].usage
        assert usage == Usage(usage.input_tokens, usage.output_tokens, None, "rehearsal")
        assert (usage.input_tokens or 0) > 100


async def test_every_tool_that_only_looks(tmp_path: Path) -> None:
    looks = (
        call("listFiles"),
        call("grep", pattern="tw."),
        call("readFile", path="sub/a.txt", offset=2),
        call("searchCode", query="where is two?"),
    )
    async with builtin_harness(tmp_path, calls(*looks), says("I saw.")) as it:
        (it.project / "sub").mkdir()
        (it.project / "sub" / "a.txt").write_text("one\ntwo\n")
        async with it.open() as channel:
            taken = await it.take_turn(channel)
        assert [entry["kind"] for entry in it.entries(channel.thread)].count("begun") == 0
        *results, searched = it.results()
        assert searched[0].startswith("count: 1\n\nsub/a.txt:1-")
        assert (searched[0][-7:], searched[1]) == ("one\ntwo", False)
        assert results == [
            ("path: .\ncount: 1\nfiles: sub/a.txt", False),
            ("count: 1\nmatches: sub/a.txt:2:two", False),
            ("path: sub/a.txt\nlines: 2-2 of 2\ntext: two", False),
        ]
        assert {one.effect for one in taken.of(ToolCallStarted)} == {"read"}


async def test_a_rehearsal_without_a_script(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path) as it:
        (it.project / "notes.txt").write_text("one\ntwo\n")
        async with it.open() as channel:
            taken = await it.take_turn(channel, "[MESSAGE]\nPlease read notes.txt")
        assert [(name, is_error) for name, is_error, _ in outputs(taken)] == [("readFile", False)]
        assert taken.text.endswith(
            "Ann: I am a stand-in for a model in this rehearsal, so I have nothing to say about it."
        )


# -- questions ---------------------------------------------------------------------------------


async def test_what_a_person_is_asked(tmp_path: Path) -> None:
    asks = (
        call("runCommand", command="rm -r build"),
        call("editFile", path="a.txt", oldStr="one\n", newStr="two\n"),
    )
    async with builtin_harness(
        tmp_path, calls(*asks, text="I clean up."), says("All right.")
    ) as it:
        (it.project / "a.txt").write_text("one\n")
        async with it.open() as channel:
            taken = await it.take_turn(channel, answers=[NO, answer(comment="not that file")])
        run, edit = taken.of(Asked)
        ids = [one.call_id for one in taken.of(ToolCallStarted)]
        options = (
            Option(id="approve", label="once", style="primary"),
            Option(id="reject", label="deny", style="danger"),
        )
        cwd = str(it.project)
        note = run.call.note
        assert run == Asked(
            key=ids[0],
            kind="Confirm",
            purpose="confirm_risky_action",
            options=options,
            call=PendingCall(
                call_id=ids[0],
                name="runCommand",
                input={"command": "rm -r build", "timeoutSeconds": 120.0},
                cwd=cwd,
                action=Action(
                    "run",
                    "runCommand",
                    cwd,
                    command="rm -r build",
                    read_only_sandbox=run.call.action.read_only_sandbox,
                ),
                said="I clean up.",
                note=note,
                must_ask=run.call.must_ask,
            ),
        )
        assert note.startswith(("Confined by", "Not confined"))
        diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two"
        assert shown(edit) == Display(title="Change a.txt", content=diff, content_kind="Diff")
        assert edit.call.action == Action("write", "editFile", cwd, paths=("a.txt",))
        assert it.results() == [
            ("error: It was not run; permission was denied.", True),
            ("error: It was not run; permission was denied: not that file", True),
        ]
        assert (it.project / "a.txt").read_text() == "one\n"


async def test_nobody_answers(tmp_path: Path) -> None:
    async with builtin_harness(
        tmp_path, calls(call("runCommand", command="ls")), says("Well.")
    ) as it:
        async with it.open() as channel:
            await it.take_turn(channel, answers=[answer()])
        told = "error: Nobody answered, so permission was denied. It was not run."
        assert it.results() == [(told, True)]


async def test_an_edit_that_cannot_be_made_is_not_asked_about(tmp_path: Path) -> None:
    wrong = call("editFile", path="a.txt", oldStr="nine", newStr="ten")
    async with builtin_harness(tmp_path, calls(wrong), says("I see.")) as it:
        (it.project / "a.txt").write_text("one\n")
        async with it.open() as channel:
            taken = await it.take_turn(channel)
        assert taken.of(Asked) == []
        assert it.results()[0][1]
        assert "oldStr was not found in a.txt" in it.results()[0][0]


async def test_asking_the_person(tmp_path: Path) -> None:
    asks = (
        call("askUser", question="Which port?"),
        call("askUser", question="Which one?", options=["Old one", "New one", "new-one"]),
        call("askUser", question="Really?", options=["Yes", "No"]),
        call("askUser", question="Why?"),
    )
    async with builtin_harness(tmp_path, calls(*asks), says("Thanks.")) as it:
        async with it.open() as channel:
            given = [
                answer(input_value="80"),
                answer(selected_option_id="new-one-3", comment="please"),
                answer(selected_option_id="nonsense"),
                answer(),
            ]
            taken = await it.take_turn(channel, answers=given)
        first, second, *_ = taken.of(Asked)
        ids = [one.call_id for one in taken.of(ToolCallStarted)]
        assert first == Asked(
            f"ask.{ids[0]}",
            "Input",
            "request_info",
            Display(title="Which port?"),
            validation=Validation(required=True),
        )
        assert second.kind == "Select"
        assert [one.id for one in second.options] == ["old-one", "new-one", "new-one-3"]
        assert it.results() == [
            ("answer: 80", False),
            ("answer: new-one\ncomment: please", False),
            ("error: Nobody answered.", True),
            ("error: Nobody answered.", True),
        ]


async def test_handing_out_a_subtask(tmp_path: Path) -> None:
    hands = (
        call("assignSubtask", goal="Write the tests.", member="bob"),
        call("assignSubtask", goal="Anything."),
    )
    async with builtin_harness(tmp_path, calls(*hands), says("Good.")) as it:
        async with it.open(others={"bob": "tester", "max": ""}) as channel:
            given = [answer(selected_option_id="bob", input_value="Written."), NO]
            taken = await it.take_turn(channel, answers=given)
        ids = [one.call_id for one in taken.of(ToolCallStarted)]
        assert taken.of(Delegated) == [
            Delegated(f"subtask.{ids[0]}", "Write the tests.", "bob"),
            Delegated(f"subtask.{ids[1]}", "Anything.", None),
        ]
        assert it.results() == [
            ("member: bob\nreport: Written.", False),
            ("error: It was not run; permission was denied.", True),
        ]
        system = it.bodies[0]["system"][0]["text"]
        assert system.endswith("\nOther members, by id:\n- bob: tester\n- max")


# -- prompts -----------------------------------------------------------------------------------


async def test_role_and_team_are_sent_once_and_the_project_only_where_trusted(
    tmp_path: Path,
) -> None:
    async with builtin_harness(tmp_path, says("Hello.")) as it:
        (it.project / "AGENTS.md").write_text("Use tabs." + "x" * 50_000)
        for trusted in (False, True):
            async with it.open(trusted=trusted) as channel:
                await it.take_turn(channel)
        plain, trusting = (str(body) for body in it.bodies)
        assert [plain.count(text) for text in (ROLE, TEAM, "Use tabs.")] == [1, 1, 0]
        assert [trusting.count(text) for text in (ROLE, TEAM, "Use tabs.")] == [1, 1, 1]
        assert "truncated; read AGENTS.md for the rest" in trusting
        (it.project / "AGENTS.md").unlink()
        (tmp_path / "elsewhere.md").write_text("Use spaces.")
        (it.project / "AGENTS.md").symlink_to(tmp_path / "elsewhere.md")
        bare = it.member(system_instruction="")
        async with it.open(bare, trusted=True, team_instruction="") as channel:
            await it.take_turn(channel)
        assert [str(it.bodies[2]).count(text) for text in (ROLE, TEAM, "Use spaces.")] == [0] * 3


async def test_it_remembers_earlier_turns(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("I am Ann."), says("As I said.")) as it:
        async with it.open() as channel:
            await it.take_turn(channel, "who are you?")
            assert channel.holds_past
            thread = channel.thread
        async with it.open(thread=thread) as channel:
            assert channel.thread == thread
            taken = await it.take_turn(channel, "again?", turn="t2")
        assert taken.text == "As I said."
        said = [one["content"] for one in it.bodies[1]["messages"]]
        assert [part[0]["text"] for part in said] == ["who are you?", "I am Ann.", "again?"]


# -- interrupting ------------------------------------------------------------------------------


async def test_breaking_off_a_model_that_is_silent(tmp_path: Path) -> None:
    replies = ({"text": ["Half a ", "thought", " and", " more"], "fault": "stall"}, says("Whole."))
    async with builtin_harness(tmp_path, *replies) as it:
        async with it.open() as channel:
            heard: list[str] = []

            async def stop(update: object) -> None:
                if isinstance(update, TextDelta):
                    heard.append(update.text)
                    if len(heard) == 2:
                        await channel.interrupt()

            taken = await it.take_turn(channel, hook=stop)
            assert taken.end == TurnInterrupted("Half a thought")
            again = await it.take_turn(channel, "go on", turn="t2")
        assert again.text == "Whole."
        said = [one["content"][0]["text"] for one in it.bodies[1]["messages"]]
        assert said == ["hello", "Half a thought", "go on"]


async def test_breaking_off_a_command(tmp_path: Path) -> None:
    two = calls(
        call("runCommand", command="echo > begun; sleep 60; touch ended"),
        call("readFile", path="begun"),
        text="I wait.",
    )
    async with (
        builtin_harness(tmp_path, two, says("Stopped.")) as it,
        it.open() as channel,
        anyio.create_task_group() as group,
    ):
        os.mkfifo(it.project / "begun")
        pipe = os.open(it.project / "begun", os.O_RDONLY | os.O_NONBLOCK)

        async def stop() -> None:
            await anyio.wait_readable(pipe)
            await channel.interrupt()

        group.start_soon(stop)
        taken = await it.take_turn(channel)
        os.close(pipe)
        assert taken.end == TurnInterrupted("I wait.")
        assert [(name, out["error"]) for name, _, out in outputs(taken)] == [
            (
                "runCommand",
                "The user interrupted the turn while this ran; what it had done by then remains.",
            ),
            ("readFile", "It was not run: the user interrupted the turn."),
        ]
        assert it.log.living == {}
        assert not (it.project / "ended").exists()
        assert (await it.take_turn(channel, "and now?", turn="t2")).text == "Stopped."


async def test_breaking_off_while_a_person_is_asked(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, calls(call("runCommand", command="touch made"))) as it:
        async with it.open() as channel:

            async def stop(update: object) -> None:
                if isinstance(update, Asked):
                    await channel.interrupt()

            taken = await it.take_turn(channel, answers=[YES], hook=stop)
        assert isinstance(taken.end, TurnInterrupted)
        assert not (it.project / "made").exists()
        assert outputs(taken)[0][2]["error"] == "It was not run: the user interrupted the turn."


# -- opening -----------------------------------------------------------------------------------


async def test_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coterie.agents.builtin.providers", None)
    async with builtin_harness(tmp_path) as it:
        with pytest.raises(AgentMissing) as missing:
            async with it.open():
                pass
    assert missing.value.hint == 'pip install "coterie[builtin]"'
    assert "not installed" in str(missing.value)


async def test_without_a_key(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path) as it, it.open(rehearsal=None) as channel:
        assert isinstance(channel, RefusedChannel)
        failure = (await it.take_turn(channel)).failure
    assert (failure.kind, failure.retry) == ("signed_out", False)
    assert str(failure.hint).startswith("export ANTHROPIC_API_KEY=...")
