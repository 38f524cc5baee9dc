"""The chat's live lines and keys, with keys from a pipe and a stand-in for the App."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from coterie.app.project import Answered, App
from coterie.cli.main import Call
from coterie.cli.screen.screen import Screen
from coterie.cli.screen.status import ChatStatus
from coterie.cli.text import Paint
from coterie.engine.steering import Said
from coterie.errors import AnswerRefused
from coterie.model.about import BudgetReached
from coterie.model.interaction import Display, Interaction, Kind, Option
from coterie.model.record import (
    Entry,
    InteractionRecord,
    MemberRecord,
    MessageRecord,
    QuestionView,
    TaskRecord,
    ToolCallRecord,
)
from coterie.model.team import Budget, Member, Permissions, Team
from coterie.model.update import Usage, WaitsFor
from tests.cli.recorded import wants_to_run

TEAM = Team(
    name="pair",
    members=(
        Member(id="ada", name="ada", display_name="Ada", agent="claude", order=1),
        Member(id="rex", name="rex", display_name="Rex", agent="codex", order=2),
    ),
)


def question(name: str = "q1", member: str = "ada", kind: Kind = "Select") -> InteractionRecord:
    options = (Option(id="approve", label="once"), Option(id="reject", label="deny"))
    asked = Interaction(
        interaction_id=name,
        task_id="k3f9",
        author_actor_id=member,
        kind=kind,
        display=Display(title="wants to RUN A COMMAND", content="npm install stripe@17"),
        options=() if kind == "Input" else options,
    )
    return InteractionRecord(asked, member)


RULE = "run(npm install *)"


def risky(name: str = "q1", command: str = "npm install a", rule: str = RULE) -> InteractionRecord:
    return InteractionRecord(wants_to_run(name, command, rule=rule), "ada")


@dataclass
class RecordingApp:
    """A stand-in for an App that records its calls."""

    calls: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    refusal: AnswerRefused | None = None
    """Why no answer is taken."""
    open_questions: list[Interaction] = field(default_factory=list[Interaction])

    async def say(self, task_id: str, text: str, author: str | None = None) -> Said:
        self.calls.append(("say", task_id, text))
        return Said()

    async def answer(
        self, interaction_id: str, *, choice: str | None, text: str | None, author: str
    ) -> Answered:
        if self.refusal is not None:
            raise self.refusal
        self.calls.append(("answer", interaction_id, choice or "", text or ""))
        rule = text if choice == "rule" else None
        return Answered(interaction_id, "k3f9", choice or "", False, "pair", "ada", rule)

    async def questions(self) -> list[QuestionView]:
        return [QuestionView(one, "open", Path(), None, "", "") for one in self.open_questions]

    async def timeline(self, task_id: str) -> list[Entry]:
        ran = ToolCallRecord(
            task_id, "ada", "1", "Bash", {"command": "pytest -q"}, "completed", False, 100
        )
        said = MessageRecord(task_id, 0, "you", "fix it")
        return [Entry("", TaskRecord(task_id, "chat", "running")), Entry("", said), Entry("", ran)]

    async def interrupt(self, task_id: str) -> None:
        self.calls.append(("interrupt", task_id))


class SizedOutput(DummyOutput):
    """An output of a given size that records what is written."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.size = Size(rows=rows, columns=columns)
        self.written = ""

    def get_size(self) -> Size:
        return self.size

    def write_raw(self, data: str) -> None:
        self.written += data


@dataclass
class DisplayedScreen:
    """A screen on display, with its keys, App and output."""

    screen: Screen
    keys: PipeInput
    app: RecordingApp
    output: SizedOutput
    stopped: list[str] = field(default_factory=list[str])

    async def press(self, keys: str) -> None:
        """Send keys."""
        self.keys.send_text(keys)

    async def until(self, holds: Callable[[], object]) -> None:
        """Let other tasks run until the condition holds."""
        with anyio.fail_after(30):
            while not holds():
                await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def displayed_screen(
    columns: int = 80, rows: int = 24, *, task: str = "k3f9"
) -> AsyncIterator[DisplayedScreen]:
    output = SizedOutput(columns, rows)
    with create_pipe_input() as keys:
        screen = Screen(Call(), TEAM, 20, None, (keys, output))
        made = DisplayedScreen(screen, keys, RecordingApp(), output)
        async with screen.shown(lambda: made.stopped.append("stop")):
            if task:
                screen.attach(cast("App", made.app), task)
            yield made


async def opened(it: DisplayedScreen) -> None:
    await it.press("\t")
    await it.until(lambda: it.screen.prompt() == " q1> ")


# -- keys --------------------------------------------------------------------------------------


async def test_what_is_typed_is_sent() -> None:
    async with displayed_screen() as it:
        await it.press("be quick\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "be quick")]
        await it.until(lambda: "read after this turn" in it.output.written)


async def test_whoever_presses_a_key_is_there() -> None:
    async with displayed_screen() as it:
        before = time.monotonic()
        await it.press("be quick\r")
        await it.until(lambda: it.app.calls)
        idle = it.screen.idle_seconds()
        assert idle is not None
        assert idle < time.monotonic() - before


async def test_typing_never_answers_a_question_that_was_not_opened() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question())
        await it.press("1\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "1")]


async def test_tab_opens_a_digit_and_enter_answers_and_enter_alone_does_nothing() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question())
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        await it.press("\r\r2\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", "reject", "")]


async def test_a_denial_may_have_a_comment() -> None:
    async with displayed_screen() as it:
        it.screen.saw(risky())
        await opened(it)
        await it.press("2 use pnpm\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", "reject", "use pnpm")]


async def test_a_sentence_on_an_open_card_is_no_answer() -> None:
    async with displayed_screen() as it:
        it.screen.saw(risky())
        await opened(it)
        await it.press("once more, please\r")
        await it.until(lambda: "stays open" in it.output.written)
        assert (it.app.calls, it.screen.prompt()) == ([], " q1> ")


async def test_e_edits_the_rule_before_it_is_saved() -> None:
    async with displayed_screen() as it:
        it.screen.saw(risky())
        await opened(it)
        await it.press("e")
        await it.press("\x7f\x7f\x7fjest)\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", "rule", "run(npm installjest)")]
        await it.until(lambda: "saved for ada: run(npm installjest)" in it.output.written)


async def test_one_answer_for_all_that_are_alike() -> None:
    async with displayed_screen() as it:
        for name, command in (("q1", "npm install a"), ("q2", "npm install b"), ("q3", "make")):
            rule = "" if command == "make" else RULE
            it.screen.saw(risky(name, command, rule))
        await opened(it)
        assert " s the turn · l later, stays in the inbox · * and 1 alike" in it.screen.card(79, 19)
        await it.press("*")
        await it.until(lambda: it.screen.prompt() == " q1 and 1 alike> ")
        await it.press("*")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        await it.press("*1\r")
        await it.until(lambda: len(it.app.calls) == 2)
        assert it.app.calls == [("answer", "q1", "approve", ""), ("answer", "q2", "approve", "")]


async def test_tab_goes_from_question_to_question() -> None:
    async with displayed_screen() as it:
        it.screen.saw(risky("q1"))
        it.screen.saw(risky("q2", "make"))
        await opened(it)
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q2> ")
        assert "2 of 2" in it.screen.card(79, 19)[0]
        assert it.screen.hint(79) == " digit, then Enter · Tab next question · Esc later"
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")


async def test_d_prints_all_of_it_and_s_the_turn() -> None:
    async with displayed_screen() as it:
        diff = "\n".join(f"+line {n} \x1b[2J" for n in range(40))
        asked = risky().interaction
        shown = asked.display.model_copy(update={"content": diff, "content_kind": "Diff"})
        it.screen.saw(InteractionRecord(asked.model_copy(update={"display": shown}), "ada"))
        await opened(it)
        await it.press("d")
        await it.until(lambda: "+line 39" in it.output.written)
        assert "\x1b[2J" not in it.output.written
        await it.press("s")
        await it.until(lambda: "✓ ran pytest -q" in it.output.written)
        assert '"I install it."' in it.output.written
        assert it.app.calls == []


async def test_letters_are_text_where_text_is_wanted() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question(kind="Input"))
        await opened(it)
        await it.press("sled\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", "", "sled")]


async def test_l_puts_the_card_away() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question())
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        await it.press("l")
        await it.until(lambda: it.screen.prompt() == " > ")
        assert it.app.calls == []


async def test_a_question_answered_elsewhere_closes_its_card_and_its_answer_is_no_message() -> None:
    async with displayed_screen() as it:
        asked = question()
        it.screen.saw(asked)
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        it.screen.saw(InteractionRecord(asked.interaction, "ada", "answered", "approve", "you"))
        assert it.screen.prompt() == " > "
        await it.press("2\r")
        await it.until(lambda: "q1 is no longer open" in it.output.written)
        await it.until(lambda: it.screen._prompt.buffer.text == "2")
        assert it.app.calls == []
        await it.press("0 lines\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "20 lines")]


async def test_a_message_held_after_its_card_closed_stays_a_message() -> None:
    async with displayed_screen() as it:
        asked = question()
        it.screen.saw(asked)
        await opened(it)
        it.screen.saw(InteractionRecord(asked.interaction, "ada", "answered", "approve", "you"))
        assert it.screen.prompt() == " > "
        await it.press(" /end\r")
        await it.until(lambda: "q1 is no longer open" in it.output.written)
        await it.until(lambda: it.screen._prompt.buffer.text == " /end")
        await it.press("\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", " /end")]


async def test_a_question_whose_answer_came_too_late_is_not_asked_again() -> None:
    async with displayed_screen() as it:
        asked = question()
        it.screen.saw(asked)
        await opened(it)
        it.app.refusal = AnswerRefused('q1 was already answered "once" by you.')
        await it.press("2\r")
        await it.until(lambda: "already answered" in it.output.written)
        it.screen.saw(InteractionRecord(asked.interaction, "ada", "answered", "approve", "you"))
        assert it.screen.prompt() == " > "
        await it.press("be quick\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "be quick")]


async def test_an_answer_that_was_invalid_is_typed_again_on_the_card_or_held() -> None:
    async with displayed_screen() as it:
        asked = question()
        it.screen.saw(asked)
        await opened(it)
        it.app.refusal = AnswerRefused("q1 needs some text. It stays open.")
        it.app.open_questions = [asked.interaction]
        await it.press("2\r")
        await it.until(lambda: "needs some text" in it.output.written)
        assert it.screen.prompt() == " q1> "
        it.screen.saw(InteractionRecord(asked.interaction, "ada", "answered", "approve", "you"))
        assert it.screen.prompt() == " > "
        await it.press("1\r")
        await it.until(lambda: "q1 is no longer open" in it.output.written)
        assert it.app.calls == []


async def test_text_answers_a_question_that_wants_text() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question(kind="Input"))
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        await it.press("look again\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("answer", "q1", "", "look again")]


async def test_escape_interrupts_only_where_somebody_works() -> None:
    async with displayed_screen() as it:
        await it.press("\x1b")
        await it.press("a\r")
        await it.until(lambda: it.app.calls)
        it.screen.saw(MemberRecord("k3f9", "ada", "working"))
        await it.press("\x1b")
        await it.until(lambda: len(it.app.calls) == 2)
        assert it.app.calls[1] == ("interrupt", "k3f9")


@pytest.mark.parametrize("key", ["\x03", "\x04", "/stop\r"])
async def test_ctrl_c_and_its_like_stop(key: str) -> None:
    async with displayed_screen() as it:
        await it.press(key)
        await it.until(lambda: it.stopped)


async def test_end_is_sent_to_the_task() -> None:
    async with displayed_screen() as it:
        await it.press("/end\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "/end")]


async def test_tab_completes_names_and_commands() -> None:
    async with displayed_screen() as it:
        await it.press("ask @r\t now\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", "ask @rex now")]
        await it.press("/he\t\r")
        await it.until(lambda: "interrupts the current turn" in it.output.written)


async def test_an_unknown_command_is_no_message_and_can_be_mended() -> None:
    async with displayed_screen() as it:
        await it.press("/hel\r")
        await it.until(lambda: "No command /hel" in it.output.written)
        await it.until(lambda: it.screen._prompt.buffer.text == "/hel")
        await it.press("p\r")
        await it.until(lambda: "interrupts the current turn" in it.output.written)
        assert it.app.calls == []


@pytest.mark.parametrize(
    "line",
    [
        "/etc/hosts is wrong",
        "/etc/hosts",
        "/end of line is not handled",
        "/usr/lib/python3.11/json/decoder.py:355: in raw_decode",
        "/stop now",
        "/",
        "//",
        "/T4 is wrong",
        " /tmp",
    ],
)
async def test_a_line_that_only_begins_with_a_slash_is_a_message(line: str) -> None:
    async with displayed_screen() as it:
        await it.press(f"{line}\r")
        await it.until(lambda: it.app.calls)
        assert (it.app.calls, it.stopped) == ([("say", "k3f9", line.strip())], [])


async def test_a_space_before_it_says_even_the_end() -> None:
    async with displayed_screen() as it:
        await it.press(" /end\r")
        await it.until(lambda: it.app.calls)
        assert it.app.calls == [("say", "k3f9", " /end")]


async def test_the_first_line_is_the_goal() -> None:
    async with displayed_screen(task="") as it:
        await it.press("fix it\r")
        assert await it.screen.first_word() == "fix it"


async def test_leaving_before_anything_was_said() -> None:
    async with displayed_screen(task="") as it:
        await it.press("/end\r")
        assert await it.screen.first_word() is None
        assert it.stopped == []


async def test_what_happens_is_printed_above() -> None:
    async with displayed_screen() as it:
        it.screen.saw(
            MessageRecord("k3f9", 1, "ada", "One query per item.", "rex", duration_ms=41000)
        )
        await it.until(lambda: "next rex" in it.output.written)
        assert it.output.written.replace("\r", "") == snapshot("""\
 ada   claude
       One query per item.
                                                                  41s · next rex

""")


# -- lines -------------------------------------------------------------------------------------


def busy() -> ChatStatus:
    board = ChatStatus(TEAM, 20)
    board.began("k3f9")
    board.saw(MessageRecord("k3f9", 3, "rex", "yes", usage=Usage(12000, 300)))
    board.saw(question())
    return board


def test_the_status_line_at_several_widths() -> None:
    board = busy()
    assert [board.status(width) for width in (79, 60, 40, 20)] == snapshot(
        [
            " ▲ ada asks q1   ○ rex   ○ you             k3f9 · turn 3/20 · 12.3k tokens · 0s",
            " ▲ ada asks q1   ○ rex   ○ you         k3f9 · turn 3/20 · 0s",
            " ▲ ada asks q1   ○ rex   ○ you        0s",
            " ▲ ada asks q1    0s",
        ]
    )


def test_the_status_line_counts_against_a_budget_and_warns_of_full() -> None:
    full = TEAM.members[1].model_copy(update={"permissions": Permissions(mode="full")})
    team = TEAM.model_copy(
        update={"members": (TEAM.members[0], full), "budget": Budget(tokens=500_000)}
    )
    board = ChatStatus(team, None)
    board.began("k3f9")
    board.saw(MessageRecord("k3f9", 3, "ada", "yes", usage=Usage(213_000, 1000)))
    assert board.status(79) == snapshot(
        " ○ ada   ○ rex full   ○ you            k3f9 · turn 3 · 214k of 500k tokens · 0s"
    )
    assert " ○ rex \x1b[31m\x1b[1mfull\x1b[0m" in board.status(79, Paint(wanted=True))
    asked = Interaction(
        interaction_id="q9",
        task_id="k3f9",
        author_actor_id="coterie",
        kind="Input",
        display=Display(title="k3f9 used 500k of 500k tokens"),
        about=BudgetReached(scope="task", measure="tokens", used=500_000, limit=500_000),
    )
    board.saw(InteractionRecord(asked, "coterie", "answered", "+200k", "you"))
    assert "214k of 700k tokens" in board.status(79)
    again = ChatStatus(team, None)
    again.began("k3f9")
    path, at = Path("/srv"), "2026-01-31T12:00:00.000Z"
    again.caught_up(612_000, [QuestionView(asked, "answered", path, None, "", at, "+200k")])
    assert "612k of 700k tokens" in again.status(79)
    assert again.who() == snapshot(["   ○ ada   claude", "   ○ rex full   codex"])


def test_every_state_has_its_mark_and_its_word() -> None:
    board = ChatStatus(TEAM, None)
    shown: list[str] = []
    for state in ("starting", "working", "waiting", "quiet", "stuck", "gone", "idle"):
        board.saw(MemberRecord("k3f9", "ada", state, "the model has not answered"))
        shown.append(board.status(79))
    assert shown == snapshot(
        [
            " ● ada starting 0s: the model has not answered   ○ rex   ○ you",
            " ● ada working (the model has not answered) 0s   ○ rex   ○ you",
            " ◌ ada waiting 0s: the model has not answered   ○ rex   ○ you",
            " ◌ ada quiet 0s: the model has not answered   ○ rex   ○ you",
            " ■ ada stuck at its limit 0s: the model has not answered   ○ rex   ○ you",
            " ■ ada gone 0s: the model has not answered   ○ rex   ○ you",
            " ○ ada   ○ rex   ○ you",
        ]
    )


def test_the_hint_names_the_keys_that_do_something() -> None:
    board = busy()
    assert [board.hint(width) for width in (79, 40, 20)] == snapshot(
        [
            " Tab open q1 · @name picks speaker · ^C stop, keep · /help",
            " Tab open q1 · ^C stop, keep · /help",
            " Tab open q1 · /help",
        ]
    )
    waits: tuple[WaitsFor, ...] = ("limit", "budget", "command", "you")
    for waits_for in waits:
        board.saw(MemberRecord("k3f9", "rex", "waiting", waits_for=waits_for))
        assert ("Esc interrupt" in board.hint(99)) is (waits_for != "you")
    board.saw(question("q2", "you", "Input"))
    assert board.hint(79) == snapshot(
        " Tab open q1 · your turn: type, Enter · ^C stop, keep · /help"
    )


async def test_the_card() -> None:
    async with displayed_screen() as it:
        it.screen.saw(question())
        await it.press("\t")
        await it.until(lambda: it.screen.prompt() == " q1> ")
        assert it.screen.card(60, 20) == snapshot(
            [
                "─ q1 · ada (claude) · k3f9 · 1 of 1 ─────────── waiting 0s ─",
                " wants to RUN A COMMAND",
                "",
                "     npm install stripe@17",
                "",
                " 1 approve   once",
                " 2 reject    deny",
                " s the turn · l later, stays in the inbox",
                "─ No answer is never a yes. ────────────────────────────────",
            ]
        )
        assert it.screen.card(40, 6) == snapshot(
            [
                "─ q1 · ada (claude) · k3… ─ waiting 0s ─",
                " wants to RUN A COMMAND",
                "     npm install stripe@17",
                " 1 approve   once",
                " 2 reject    deny",
                "─ No answer is never a yes. ────────────",
            ]
        )
        assert it.screen.hint(60) == snapshot(" digit, then Enter · Esc later")
