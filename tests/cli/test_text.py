"""Text and figures in the form in which they are shown."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.failure import nearest
from coterie.cli.lines import Transcript
from coterie.cli.text import (
    Paint,
    cells,
    clip,
    duration,
    ends,
    event,
    for_stream,
    one_line,
    parse_span,
    table,
    warned,
    wrap,
)
from coterie.model.record import ErrorRecord, MessageRecord, ToolCallRecord
from coterie.model.team import Member, Team
from coterie.model.tool_call import Effect
from coterie.model.update import token_count
from coterie.model.visible import printable


@given(st.text(), st.integers(1, 60))
def test_nothing_is_wider_than_asked_for(text: str, width: int) -> None:
    assert cells(clip(one_line(text), width)) <= width
    assert all(cells(line) <= max(width, 8) for line in wrap(text, width))
    head = " 12:00:00  plan_review  "
    assert all(cells(line) <= max(width, 23) for line in event(head, text, width, str))


@given(st.text())
def test_nothing_shown_can_steer_a_terminal(text: str) -> None:
    shown = printable(text)
    assert "\x1b" not in shown
    assert all(character == "\n" or character >= " " for character in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def test_sequences_are_seen() -> None:
    shown = "<U+001B>]0;title<U+0007>a<U+001B>[2Jb<U+001B>[1;31mc"
    assert printable("\x1b]0;title\x07a\x1b[2Jb\x1b[1;31mc") == shown


def test_what_a_renderer_forgot_is_seen_too() -> None:
    forgotten = Paint(wanted=True)("red", "bad") + "\x1b[8m \u202e\r\x9b <U+0041>"
    shown = for_stream(forgotten, sys.stdout)
    assert shown == ("\x1b[31m\x1b[1mred\x1b[0m<U+001B>[8m <U+202E><U+000D><U+009B> <U+0041>")


def test_wrapping_keeps_indentation_and_words() -> None:
    assert wrap("    one two three four", 14) == ["    one two", "    three four"]
    assert wrap("abcdefghijkl", 8) == ["abcdefgh", "ijkl"]
    assert wrap("漢字漢字漢字", 8) == ["漢字漢字", "漢字"]


def test_an_event_begins_below_its_head_where_there_is_no_room_beside_it() -> None:
    what = "gate plan failed: no test names the file"
    assert event("12:00:00  plan  ", what, 40, str) == [
        "12:00:00  plan  gate plan failed: no",
        "                test names the file",
    ]
    assert event("12:00:00  plan  ", what, 30, str) == [
        "12:00:00  plan",
        "  gate plan failed: no test",
        "  names the file",
    ]


def test_only_the_mode_is_a_warning() -> None:
    paint = Paint(wanted=True)
    assert warned("claude · full", "full", paint) == "claude · " + paint("full", "bad")
    assert warned("to the full", "ask", paint) == "to the full"
    rows = [("make full", "full"), ("make", "ask")]
    lines = table(
        rows, 40, painted=lambda cell, row, column: f"{row}{column}" if column == 1 else cell
    )
    assert lines == ["make full  01", "make       11"]


def test_two_ends_and_columns() -> None:
    assert ends("left", "right", 20) == "left           right"
    assert ends("a long left side", "right", 20) == "a long left s… right"
    assert table([("a", "bb", "c"), ("aa", "b", "cc")], 80) == ["a   bb  c", "aa  b   cc"]
    long = [("a", "one two three four"), ("b", "five")]
    assert table(long, 15) == ["a  one two thr…", "b  five"]
    assert table(long, 15, folds=True) == ["a  one two", "   three four", "b  five"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (41, "41s"), (82, "1m 22s"), (7380, "2h 03m"), (2e5, "2d 7h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("1h30m", 5400),
        ("45s", 45),
        ("90", 90),
        ("", None),
        ("soon", None),
        ("-1", None),
    ],
)
def test_time_spans(text: str, seconds: float | None) -> None:
    assert parse_span(text) == seconds


def test_tokens() -> None:
    counts = (940, 8_200, 8_240, 99_960, 402_000, 999_500, 1_300_000, 1_250_000, 12_345_678, 2e9)
    assert [token_count(count) for count in counts] == [
        "940", "8.2k", "8.2k", "100k", "402k", "1M", "1.3M", "1.25M", "12.3M", "2000M",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "near"), [("docter", "doctor"), ("taks", "tasks"), ("logs", "logs"), ("xyzzy", None)]
)
def test_the_nearest_verb(word: str, near: str | None) -> None:
    assert nearest(word) == near


TEAM = Team(
    name="pair",
    members=(Member(id="ada", name="ada", display_name="Ada", agent="claude", order=1),),
)


def test_tool_calls_take_one_line_each() -> None:
    transcript = Transcript(TEAM, lambda: 60, Paint(wanted=False), fold=True)
    lines: list[str] = []
    calls: tuple[tuple[str, dict[str, object], bool, Effect | None], ...] = (
        ("Read", {"file_path": "shop/cart.py"}, False, "read"),
        ("Bash", {"command": "pytest -q\nrm -rf /"}, True, "run"),
        ("Odd", {"n": 1}, False, "other"),
        ("readFile", {"path": "shop/cart.py"}, False, None),
        ("edit", {"filePath": "a.py", "newString": "x"}, False, "write"),
    )
    for name, given_, failed, effect in calls:
        call = ToolCallRecord("k3f9", "ada", "1", name, given_, "completed", failed, 100)
        lines += transcript.lines(replace(call, effect=effect))
    assert lines == [
        " ada   claude",
        "       ✓ read shop/cart.py                              0.1s",
        "       ✗ ran pytest -q rm -rf /                 failed  0.1s",
        '       ✓ used Odd {"n": 1}                              0.1s',
        "       ✓ used readFile shop/cart.py                     0.1s",
        "       ✓ changed a.py                                   0.1s",
    ]


def test_a_huge_reply_is_cut_on_a_terminal_only() -> None:
    said = MessageRecord("k3f9", 1, "ada", "word " * 1_000_000)
    cut = Transcript(TEAM, lambda: 80, Paint(wanted=False), fold=True).lines(said)
    assert len(cut) < 400
    assert cut[-2].strip() == "… 4,980,000 more characters: coterie log k3f9"
    whole = Transcript(TEAM, lambda: 80, Paint(wanted=False), fold=False).lines(said)
    assert sum(map(len, whole)) > 4_000_000


@pytest.mark.parametrize(
    ("message", "shown", "note"),
    [
        ("it ended", "ada: it ended", "in /somewhere/ada · "),
        ("ada ended", "ada ended", "in /somewhere/ada · "),
        ("Canada is unreachable", "ada: Canada is unreachable", "in /somewhere/ada · "),
        ("ada ended (in /somewhere/ada).", "ada ended (in /somewhere/ada).", ""),
        ("ada left /somewhere/ada2", "ada left /somewhere/ada2", "in /somewhere/ada · "),
    ],
)
def test_an_error_names_the_member_and_the_folder_once(message: str, shown: str, note: str) -> None:
    transcript = Transcript(TEAM, lambda: 80, Paint(wanted=False), fold=True)
    record = ErrorRecord("turn_exit", message, "coterie show k3f9", "ada", "/somewhere/ada")
    assert transcript.lines(record) == [f" ! {shown}", f"   {note}coterie show k3f9"]
