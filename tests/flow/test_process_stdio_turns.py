"""One prompt and its reply: how the end is detected, and that no output harms the next turn."""

from __future__ import annotations

import time
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from coterie.model.update import Activity, TextDelta, TurnCompleted, TurnFailed
from coterie.process.child import Child
from coterie.process.stdio_turns import CompletionStrategy, ReplyEnd, StdioTurns
from tests.unit.process.children import program, scripted, started, token

RESULT = CompletionStrategy.json_event(frozenset({"result"}))
QUICK = CompletionStrategy.after_silence(200)


async def taken(
    turns: StdioTurns, prompt: str, total: float = 30.0
) -> tuple[list[TextDelta | Activity], ReplyEnd]:
    """Take a whole turn; return its pieces, and the one outcome at its end."""
    with anyio.fail_after(total + 30):
        async with aclosing(turns.take(prompt.encode(), total)) as items:
            *pieces, outcome = [item async for item in items]
    assert isinstance(outcome, TurnCompleted | TurnFailed)
    return [piece for piece in pieces if isinstance(piece, TextDelta | Activity)], outcome


async def outcome_of(
    child: Child, prompt: str, strategy: CompletionStrategy = RESULT, total: float = 30.0
) -> ReplyEnd:
    """Return the outcome of a one-shot turn."""
    return (await taken(StdioTurns(child, strategy, one_shot=True), prompt, total))[1]


def text_of(pieces: list[TextDelta | Activity]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))


def text(outcome: ReplyEnd) -> str:
    assert isinstance(outcome, TurnCompleted), outcome
    return outcome.text


# -- by an event -------------------------------------------------------------------------------


async def test_a_one_shot_turn_ends_with_its_event() -> None:
    async with started(scripted()) as child:
        assert await outcome_of(child, "hello") == TurnCompleted("heard: hello")


async def test_a_turn_that_is_broken_off_before_its_prompt_is_sent_ends_in_time() -> None:
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)
        ends: list[ReplyEnd] = []
        began = time.monotonic()

        async def taking() -> None:
            ends.append((await taken(turns, "!hang", 8.0))[1])

        async with anyio.create_task_group() as group:
            group.start_soon(taking)
            await anyio.lowlevel.checkpoint()
            turns.break_off(0.2)
    assert isinstance(ends[0], TurnFailed)
    assert time.monotonic() - began < 6


async def test_a_prompt_of_several_lines_is_one_prompt_to_a_one_shot_agent() -> None:
    async with started(scripted()) as child:
        assert await outcome_of(child, "one\n\ntwo") == TurnCompleted("heard: one\n\ntwo")


HOSTILE = [
    ("huge 20", "after a huge line"),
    ("half", "two halves"),
    ("bytes", "bad \ufffd byte"),
    ("nuls", "a \ufffd NUL"),
    ("brackets 5000", "after brackets"),
    ("deltas 5", "after deltas"),
    ("stderr 300", "after stderr"),
]


@pytest.mark.parametrize(("act", "reply"), HOSTILE)
async def test_no_output_harms_a_turn_or_the_next(act: str, reply: str) -> None:
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)
        assert (await taken(turns, f"!{act}"))[1] == TurnCompleted(reply)
        assert (await taken(turns, "!turn"))[1] == TurnCompleted("turn 2")


async def test_a_reply_of_20_mib_is_whole() -> None:
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)
        assert len(text((await taken(turns, "!big 20"))[1])) == 20 * 1024 * 1024
        assert (await taken(turns, "!turn"))[1] == TurnCompleted("turn 2")


async def test_a_line_beyond_all_bounds_is_cut_and_the_turn_goes_on() -> None:
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)
        assert (await taken(turns, "!huge 80"))[1] == TurnCompleted("after a huge line")
        assert (await taken(turns, "!turn"))[1] == TurnCompleted("turn 2")


async def test_every_sign_of_life_is_seen_as_it_comes() -> None:
    async with started(scripted()) as child:
        pieces, outcome = await taken(StdioTurns(child, RESULT, one_shot=True), "!deltas 5")
    assert outcome == TurnCompleted("after deltas")
    assert len(pieces) >= 2
    assert set(pieces) == {Activity()}


async def test_an_exit_before_the_event_is_a_failure_with_the_tail() -> None:
    async with started(scripted()) as child:
        assert await outcome_of(child, "!exit 3") == TurnFailed(
            "exit", "the agent exited with code 3 before finishing its reply", 3, "boom\n"
        )


async def test_even_a_good_exit_before_the_event_is_a_failure() -> None:
    async with started(scripted()) as child:
        outcome = await outcome_of(child, "!nothing")
    assert isinstance(outcome, TurnFailed)
    assert (outcome.kind, outcome.exit_code) == ("exit", 0)


async def test_half_a_line_at_the_end_can_be_the_event() -> None:
    line = '{"type": "result", "result": "no newline"}'
    async with started(program("printf", "%s", line)) as child:
        assert await outcome_of(child, "") == TurnCompleted("no newline")


async def test_one_that_closes_its_output_and_lives_on_is_a_timeout() -> None:
    async with started(scripted()) as child:
        outcome = await outcome_of(child, "!shut", total=0.5)
    assert isinstance(outcome, TurnFailed)
    assert outcome.kind == "timeout"


async def test_what_was_printed_before_the_prompt_does_not_end_a_persistent_turn() -> None:
    early = '{"type": "result", "result": "ready"}'
    async with started(scripted("--persistent", "--early", early)) as child:
        ready = await child.receive()
        child.divert(None)
        turns = StdioTurns(child, RESULT, one_shot=False)
        assert ready.decode().strip() == early
        assert (await taken(turns, "!turn"))[1] == TurnCompleted("turn 1")


async def test_a_dead_agent_has_no_turn() -> None:
    for strategy in (RESULT, QUICK):
        async with started(scripted("--persistent")) as child:
            turns = StdioTurns(child, strategy, one_shot=False)
            await taken(turns, "!silent-exit 0")
            outcome = (await taken(turns, "anyone?"))[1]
            assert isinstance(outcome, TurnFailed)
            assert (outcome.kind, outcome.exit_code) == ("exit", 0)


# -- by silence --------------------------------------------------------------------------------


async def test_silence_ends_a_turn_with_all_that_was_printed() -> None:
    async with started(scripted("--persistent", "--plain")) as child:
        turns = StdioTurns(child, QUICK, one_shot=False)
        pieces, outcome = await taken(turns, "hello")
        assert outcome == TurnCompleted("heard: hello")
        assert text_of(pieces) == "heard: hello\n"
        assert (await taken(turns, "!bytes"))[1] == TurnCompleted(
            "\ufffd\ufffd\ufffd \ufffd\nbad \ufffd byte"
        )
        assert (await taken(turns, "again"))[1] == TurnCompleted("heard: again")


async def test_silence_without_any_output_is_an_empty_reply() -> None:
    async with started(scripted("--persistent", "--plain")) as child:
        turns = StdioTurns(child, QUICK, one_shot=False)
        begun = time.monotonic()
        assert await taken(turns, "!nothing") == ([], TurnCompleted(""))
        assert time.monotonic() - begun >= 0.2
        assert (await taken(turns, "hello"))[1] == TurnCompleted("heard: hello")


async def test_a_good_exit_ends_a_silent_turn_at_once_and_a_bad_one_fails_it() -> None:
    slow = CompletionStrategy.after_silence(60_000)
    async with started(scripted("--plain")) as child:
        assert await outcome_of(child, "hello", slow) == TurnCompleted("heard: hello")
    async with started(scripted("--plain")) as child:
        outcome = await outcome_of(child, "!exit 3", slow)
    assert isinstance(outcome, TurnFailed)
    assert (outcome.kind, outcome.exit_code, outcome.stderr_tail) == ("exit", 3, "boom\n")


async def test_one_that_never_stops_printing_is_a_timeout() -> None:
    async with started(program("yes")) as child:
        outcome = await outcome_of(child, "", QUICK, total=0.5)
    assert isinstance(outcome, TurnFailed)
    assert outcome.kind == "timeout"


async def test_what_is_left_over_does_not_enter_a_silent_turn() -> None:
    shell = "while read x; do echo reply $x; if [ $x = 1 ]; then read y; echo late $y; fi; done"
    async with started(program("sh", "-c", shell)) as child:
        turns = StdioTurns(child, QUICK, one_shot=False)
        assert (await taken(turns, "1"))[1] == TurnCompleted("reply 1")
        child.post(b"x\n")  # its reply to this belongs to no turn
        await anyio.sleep(0.2)
        assert (await taken(turns, "2"))[1] == TurnCompleted("reply 2")


async def test_a_prompt_sign_left_open_does_not_eat_the_next_reply() -> None:
    shell = "printf '> '; while read x; do printf 'got %s\\n> ' $x; done"
    async with started(program("sh", "-c", shell)) as child:
        turns = StdioTurns(child, QUICK, one_shot=False)
        assert text((await taken(turns, "1"))[1]).endswith("got 1\n> ")
        assert (await taken(turns, "2"))[1] == TurnCompleted("got 2\n> ")


# -- by a detector -----------------------------------------------------------------------------


async def test_a_pattern_ends_a_turn_with_its_line() -> None:
    async with started(scripted("--persistent", "--plain", "--end", "<END>")) as child:
        turns = StdioTurns(child, CompletionStrategy.pattern("^<END>$"), one_shot=False)
        pieces, outcome = await taken(turns, "hello")
        assert outcome == TurnCompleted("heard: hello\n<END>")
        assert text_of(pieces) == "heard: hello\n<END>"
        assert (await taken(turns, "!leftover"))[1] == TurnCompleted("first\n<END>")


async def test_a_named_group_is_what_is_kept_of_the_last_line() -> None:
    async with started(scripted("--persistent", "--plain", "--end", "the end<END>")) as child:
        turns = StdioTurns(child, CompletionStrategy.pattern("^(?P<text>.*)<END>$"), one_shot=False)
        assert (await taken(turns, "hello"))[1] == TurnCompleted("heard: hello\nthe end")


# -- broken off --------------------------------------------------------------------------------


async def test_a_turn_can_be_broken_off_while_it_waits() -> None:
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)

        async def break_off() -> None:
            await anyio.wait_all_tasks_blocked()
            turns.break_off(0.1)

        begun = time.monotonic()
        async with anyio.create_task_group() as group:
            group.start_soon(break_off)
            assert isinstance((await taken(turns, "!hang"))[1], TurnFailed)
        assert time.monotonic() - begun < 5


async def test_a_reader_who_leaves_early_leaves_no_mess() -> None:
    word = token()
    async with started(scripted("--persistent")) as child:
        turns = StdioTurns(child, RESULT, one_shot=False)
        async with aclosing(turns.take(b"!deltas 3", 30)) as items:
            async for _ in items:
                break
        with anyio.fail_after(30):
            while text((await taken(turns, word))[1]) != f"heard: {word}":
                pass
