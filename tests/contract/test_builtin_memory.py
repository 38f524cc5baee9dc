"""The memory of the built-in agent: resumed after any interruption, and kept short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.agents.builtin.conversation import (
    UNKNOWN,
    CallBegunEntry,
    Entry,
    InboundText,
    PromptEntry,
    ReplyEntry,
    ResultEntry,
    ShownResult,
    SummaryEntry,
    ToolCallRequest,
    TrimEntry,
    UnreadableEntry,
    read,
    written,
)
from coterie.agents.builtin.thread import SummaryDue, left_out, room_for, shown, size
from coterie.model.tool_call import not_run
from coterie.model.update import (
    Asked,
    Spent,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnInterrupted,
    Usage,
)
from tests.contract.builtin.harness import (
    ROLE,
    BuiltinHarness,
    answer,
    builtin_harness,
    call,
    calls,
    outputs,
    says,
)

THREAD = "0123456789abcdef"


def request(name: str, **given: object) -> ToolCallRequest:
    return ToolCallRequest(name, given, id=f"call_{name}")


READ = request("readFile", path="a.txt")
RUN = request("runCommand", command="echo x >> ran")
ASK = request("askUser", question="Which?")


def store_entries(it: BuiltinHarness, *entries: Entry) -> None:
    it.threads[THREAD] = [json.dumps(written(entry)) for entry in entries]


# -- entries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        PromptEntry("t1", "hello"),
        ReplyEntry("I look.", (READ, ToolCallRequest("x", {}, "broken", "id")), written=True),
        ReplyEntry("so far", cut=True),
        CallBegunEntry("c"),
        ResultEntry("c", {"exitCode": 0}, is_error=True),
        InboundText("word"),
        TrimEntry(3),
        SummaryEntry(3, "It was so."),
    ],
)
def test_an_entry_comes_back_as_it_went(entry: Entry) -> None:
    assert read(json.dumps(written(entry))) == entry


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "newer"}', "[" * 100_000])
def test_an_entry_that_nobody_understands(text: str) -> None:
    assert read(text) == UnreadableEntry()
    assert read(json.dumps(written(UnreadableEntry()))) == UnreadableEntry()


# -- resuming ----------------------------------------------------------------------------------


async def test_what_ran_is_not_run_again_and_what_did_not_is(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Went on.")) as it:
        (it.project / "a.txt").write_text("one\n")
        second = request("editFile", path="b.txt", oldStr="", newStr="b")
        reply = ReplyEntry("I do three things.", (RUN, second, READ))
        store_entries(
            it,
            PromptEntry("t1", "do"),
            reply,
            CallBegunEntry(RUN.id),
            ResultEntry(RUN.id, {"exitCode": 0}),
        )
        async with it.open(thread=THREAD) as channel:
            assert channel.thread == THREAD
            taken = await it.take_turn(channel, "do (again)", tries=2)
        assert taken.text == "Went on."
        assert not (it.project / "ran").exists()
        assert (it.project / "b.txt").read_text() == "b"
        assert taken.of(ToolCallStarted) == []  # they are in the audit already
        assert [name for name, _, _ in outputs(taken)] == ["editFile", "readFile"]
        assert [one.call.is_untouched for one in taken.of(Asked)] == [True, True]
        assert [one.call.said for one in taken.of(Asked)] == ["I do three things."] * 2
        assert "do (again)" not in str(it.bodies[0])


async def test_a_reply_that_was_kept_before_a_crash_is_not_paid_for_twice(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Not asked.")) as it:
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("All done."))
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, tries=2)
        assert (taken.text, it.server.turns) == ("All done.", [])
        assert taken.of(Spent) == [Spent(Usage(0, 0, 0.0, "model"), is_last=True)]


async def test_what_may_have_run_is_unknown_and_reported(tmp_path: Path) -> None:
    again = calls(call("runCommand", command="echo x >> ran"))
    async with builtin_harness(tmp_path, again, says("Now it ran.")) as it:
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("", (RUN,)), CallBegunEntry(RUN.id))
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, tries=2)
        unknown, ran = taken.of(ToolCallFinished)
        assert (unknown.call_id, unknown.name, unknown.is_error) == (RUN.id, "runCommand", True)
        assert unknown.output["outcome"] == "unknown"
        assert it.server.turns[0].asked is not None
        assert "outcome: unknown" in it.server.turns[0].asked.results[0].text
        # What the model then does about it is a new call, asked about like any other.
        (asked,) = taken.of(Asked)
        assert (asked.call.is_untouched, asked.key) == (False, ran.call_id)
        assert (it.project / "ran").read_text() == "x\n"


async def test_a_call_that_was_cut_over_and_over_may_still_be_made(tmp_path: Path) -> None:
    entries: list[Entry] = [PromptEntry("t1", "hello")]
    for number in range(7):
        run = ToolCallRequest(RUN.name, RUN.arguments, id=f"call_{number}")
        entries += [
            ReplyEntry("", (run,)),
            CallBegunEntry(run.id),
            ResultEntry(run.id, {"outcome": UNKNOWN}),
        ]
    async with builtin_harness(
        tmp_path, calls(call(RUN.name, **RUN.arguments)), says("Done.")
    ) as it:
        store_entries(it, *entries)
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, tries=2)
        assert taken.text == "Done."
        assert (it.project / "ran").read_text().split() == ["x"]


async def test_a_call_whose_secret_was_not_kept_is_not_made_without_it(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("I see.")) as it:
        login = request("runCommand", command="login [redacted] > in")
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("", (login,)))
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, tries=2)
        assert taken.of(Asked) == []
        assert it.results()[0][0].startswith("error: It was not run: it contained a secret")


async def test_a_question_is_the_same_question(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Thanks.")) as it:
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("", (ASK,)))
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, tries=2, answers=[answer(input_value="that")])
        assert [one.key for one in taken.of(Asked)] == [f"ask.{ASK.id}"]
        assert it.results() == [("answer: that", False)]


async def test_a_turn_that_had_ended_is_not_asked_again(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path) as it:
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("Done."))
        async with it.open(thread=THREAD) as channel:
            assert (await it.take_turn(channel, tries=2)).text == "Done."
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("So f", cut=True))
        async with it.open(thread=THREAD) as channel:
            assert (await it.take_turn(channel, tries=2)).end == TurnInterrupted("So f")
        assert it.bodies == []


async def test_a_turn_that_is_repeated_is_asked_again(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Anew.")) as it:
        store_entries(it, PromptEntry("t1", "do"), ReplyEntry("Done."))
        async with it.open(thread=THREAD) as channel:
            assert (await it.take_turn(channel, "do", tries=1)).text == "Anew."


async def test_another_turn_after_one_that_never_ended(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("On.")) as it:
        store_entries(
            it, PromptEntry("t1", "do"), ReplyEntry("", (RUN, READ)), CallBegunEntry(RUN.id)
        )
        async with it.open(thread=THREAD) as channel:
            taken = await it.take_turn(channel, "something else", tries=2, turn="t2")
        assert [(name, out.get("outcome")) for name, _, out in outputs(taken)] == [
            ("runCommand", "unknown"),
            ("readFile", None),
        ]
        assert outputs(taken)[1][2] == not_run("It was not run: the turn ended first.")
        assert taken.of(Asked) == []


async def test_a_lost_thread_is_a_new_one(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Who?")) as it:
        async with it.open(thread="gone") as channel:
            assert channel.thread not in ("gone", None)
            assert (await it.take_turn(channel, "[RESUMED] …", tries=2)).text == "Who?"
        assert "[RESUMED]" in str(it.bodies[0])


async def test_damaged_entries_harm_nothing(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, says("Fine.")) as it:
        store_entries(
            it, PromptEntry("t1", "do"), ResultEntry("nobody's", {}), ReplyEntry("Yes.", (READ,))
        )
        it.threads[THREAD].insert(1, '{"kind": "reply", "text": "cut off')
        async with it.open(thread=THREAD) as channel:
            assert (await it.take_turn(channel, "next", turn="t2")).text == "Fine."
        assert len(it.bodies[0]["messages"]) == 4


async def test_a_file_that_changed_while_nobody_looked(tmp_path: Path) -> None:
    edit = call("editFile", path="a.txt", oldStr="one", newStr="two")
    async with builtin_harness(
        tmp_path, calls(call("readFile", path="a.txt")), says("Read."), calls(edit)
    ) as it:
        (it.project / "a.txt").write_text("one\n")
        async with it.open() as channel:
            await it.take_turn(channel)
        (it.project / "a.txt").write_text("one!\n")
        async with it.open(thread=channel.thread) as channel:
            taken = await it.take_turn(channel, "edit it", turn="t2")
        assert "has changed since you read it" in str(outputs(taken)[0][2]["error"])


# -- compaction --------------------------------------------------------------------------------


def exchange(number: int, size: int) -> list[Entry]:
    made = ToolCallRequest("readFile", {"path": f"{number}.txt"}, id=f"call_{number}")
    text = f"line of {number}\n" * (size // 10)
    return [ReplyEntry(f"I read {number}.", (made,)), ResultEntry(made.id, {"text": text})]


def test_nothing_is_left_out_where_there_is_room() -> None:
    entries = [PromptEntry("t1", "task"), *exchange(1, 100)]
    assert room_for(entries, 10_000) is None
    assert shown(entries)[0] == InboundText("task")


def test_long_results_of_long_ago_are_cut_first() -> None:
    entries: list[Entry] = [PromptEntry("t1", "task")]
    for number in range(8):
        entries += exchange(number, 2_000 if number < 6 else 100)
    needed = room_for(entries, 10_000)
    assert isinstance(needed, TrimEntry)
    said = shown([*entries, needed])
    assert size(said) < 10_000
    first = next(one for one in said if isinstance(one, ShownResult))
    assert first.text.endswith("call again to see them all …")
    assert said[-1] == shown(entries)[-1]
    assert room_for([*entries, needed], 10_000) is None


def test_then_the_older_part_is_summed_up() -> None:
    entries: list[Entry] = [
        PromptEntry("t1", "the task"),
        ReplyEntry("Hm."),
        PromptEntry("t2", "more"),
    ]
    for number in range(40):
        entries += exchange(number, 300)
    needed = room_for(entries, 6_000)
    assert isinstance(needed, SummaryDue)
    assert "PROMPT:\nthe task" in needed.transcript
    assert "CALLED readFile {'path': '0.txt'}" in needed.transcript
    assert len(needed.transcript) <= 6_100
    entries.append(SummaryEntry(needed.upto, "It read a lot."))
    said = shown(entries)
    assert [one.text for one in said if isinstance(one, InboundText)] == [
        "the task",
        "[A summary of what came next, which was too long to keep]\nIt read a lot.",
        "more",
    ]
    assert isinstance(said[3], ReplyEntry)
    assert size(said) < 6_000
    assert room_for(entries, 6_000) is None
    # And once more, with what was added since: the summary is itself summarized.
    for number in range(40, 70):
        entries += exchange(number, 300)
    again = room_for(entries, 6_000)
    assert isinstance(again, SummaryDue)
    assert again.upto > needed.upto
    assert "It read a lot." in again.transcript
    assert "CALLED readFile {'path': '0.txt'}" not in again.transcript


def test_what_is_newest_is_never_left_out() -> None:
    entries = [PromptEntry("t1", "task"), *exchange(1, 50_000)]
    trimmed = room_for(entries, 1_000)
    assert isinstance(trimmed, SummaryDue)
    entries.append(SummaryEntry(trimmed.upto, "nothing"))
    assert room_for(entries, 1_000) is None
    assert size(shown(entries)) > 49_000


def test_what_is_said_where_no_model_sums_up() -> None:
    entries = [PromptEntry("t1", "task"), *exchange(7, 100)]
    assert left_out(entries, 3).endswith("- readFile {'path': '7.txt'}")
    assert "calls" not in left_out(entries, 1)


READS = 30
REPORT = "SUMMARY: all of it was about the harbour."


def rules(*replies: Any) -> list[dict[str, Any]]:
    about = {"system": "You are given the older part of a record"}
    return [{"when": about, "replies": [*replies]}]


async def long_turn(it: BuiltinHarness, lines: int = 60) -> Any:
    for number in range(READS):
        (it.project / f"{number}.txt").write_text(f"harbour {number}\n" * lines)
    async with it.open() as channel:
        await it.take_turn(channel, "The very first word: HELIOTROPE.")
        return await it.take_turn(channel, "And now, word for word: MERIDIAN.", turn="t2")


def work() -> list[Any]:
    return [
        says("I am ready."),
        *[calls(call("readFile", path=f"{n}.txt"), text=f"Reading {n}.") for n in range(READS)],
        says("All read."),
    ]


async def test_a_long_turn_keeps_its_task_and_its_role(tmp_path: Path) -> None:
    async with builtin_harness(
        tmp_path, *work(), rules=rules(says(REPORT)), context_tokens=4_000
    ) as it:
        taken = await long_turn(it)
        assert taken.text == "All read."
        asked = [seen for seen in it.server.turns if ROLE in str(seen.body)]
        summing = [seen for seen in it.server.turns if ROLE not in str(seen.body)]
        assert len(asked) == READS + 2
        assert summing
        for seen in asked:
            assert str(seen.body).count("HELIOTROPE") == 1
            assert seen.asked is not None
            assert seen.asked.size < 40_000
        for seen in asked[1:]:
            assert str(seen.body).count("MERIDIAN") == 1
        assert str(asked[-1].body).count(REPORT) == 1
        assert all("tools" not in seen.body for seen in summing)
        assert len(taken.of(Spent)) == READS + 1 + len(summing)
        assert REPORT not in "".join(one.text for one in taken.of(TextDelta))


async def test_cutting_old_results_may_be_enough(tmp_path: Path) -> None:
    async with builtin_harness(tmp_path, *work(), rules=rules(says(REPORT))) as it:
        async with it.open() as channel:
            always = 120_000 * 4 - channel._services.characters
        it.capabilities = {"context_tokens": (always + 60_000) // 4}
        taken = await long_turn(it, lines=300)
        assert taken.text == "All read."
        assert all(ROLE in str(body) for body in it.bodies)
        assert "call again to see them all" in str(it.bodies[-1])


async def test_a_summary_that_cannot_be_had(tmp_path: Path) -> None:
    async with builtin_harness(
        tmp_path, *work(), rules=rules({"fault": 400}), context_tokens=4_000
    ) as it:
        taken = await long_turn(it)
        assert taken.text == "All read."
        last = str(it.bodies[-1])
        assert "no longer fits and is left out" in last
        assert last.count("HELIOTROPE") == last.count("MERIDIAN") == 1


async def test_a_service_that_finds_it_too_long(tmp_path: Path) -> None:
    replies = work()
    replies.insert(-1, {"fault": 413})
    async with builtin_harness(tmp_path, *replies, rules=rules(says(REPORT))) as it:
        taken = await long_turn(it)
        assert taken.text == "All read."
        assert str(it.bodies[-1]).count("HELIOTROPE") == 1
        refused, retried = it.server.turns[READS + 1], it.server.turns[-1]
        assert refused.asked is not None
        assert retried.asked is not None
        assert retried.asked.size < refused.asked.size
