"""The question card: it shows the request in full, or says that it does not."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from coterie.cli.card import LiveCard, QuestionContext, brief, card, heading
from coterie.cli.screen.input import alike, typed
from coterie.cli.text import Paint, cells
from coterie.errors import AnswerRefused
from coterie.model.about import ToolPermission
from coterie.model.interaction import ContentKind, Display, Interaction, Option, in_short
from tests.cli.recorded import command_on, plain, risky_options, wants_to_run

RULE = "run(npm install *)"
DIFF = """\
--- shop/cart.py
+++ shop/cart.py
@@ -1,2 +1,2 @@
 def total(items):
-    return 0
+    return sum(items)"""
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


def context_of(question: Interaction) -> QuestionContext:
    return QuestionContext(question, "wren (claude)", "20s", "k3f9")


def about(content: str, kind: ContentKind, title: str = "Change shop/cart.py") -> Interaction:
    return Interaction(
        interaction_id="q7",
        task_id="k3f9",
        author_actor_id="wren",
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title=title, content=content, content_kind=kind),
        options=risky_options(RULE),
        about=ToolPermission(tool="Edit", cwd="/srv/shop", effect="write", paths=("shop/cart.py",)),
    )


def test_a_command_on_a_live_card() -> None:
    question = wants_to_run("q7", "npm install stripe@17", rule=RULE, note="network")
    assert card(context_of(question), 79, live=LiveCard(19, 2, 3, 2)) == snapshot(
        [
            "─ q7 · wren (claude) · k3f9 · 2 of 3 ──────────────────────────── waiting 20s ─",
            " wants to RUN A COMMAND",
            "",
            "     npm install stripe@17",
            "",
            " in    /srv/shop",
            ' why   "The endpoint needs the Stripe client."',
            ' said  "I install it."',
            " note  network",
            "",
            " 1 once",
            " 2 deny        and say why: type it after the number",
            " 3 this task   exactly this command, ada only, until k3f9 ends",
            " 4 rule        run(npm install *)   [e] edit it first",
            " s the turn · l later, stays in the inbox · * and 2 alike",
            "─ No answer is never a yes. ───────────────────────────────────────────────────",
        ]
    )


def test_a_diff_is_coloured_and_a_missing_reason_is_pointed_out() -> None:
    lines = card(context_of(about(DIFF, "Diff")), 60, Paint(wanted=True), LiveCard(30))
    assert lines[1:14] == snapshot(
        [
            "\x1b[1m wants to CHANGE A FILE  shop/cart.py\x1b[0m",
            "",
            "     \x1b[1m--- shop/cart.py\x1b[0m",
            "     \x1b[1m+++ shop/cart.py\x1b[0m",
            "     \x1b[36m@@ -1,2 +1,2 @@\x1b[0m",
            "      def total(items):",
            "     \x1b[31m-    return 0\x1b[0m",
            "     \x1b[32m+    return sum(items)\x1b[0m",
            "",
            " in    /srv/shop",
            " why   gave none",
            "",
            " 1 once",
        ]
    )
    plain_lines = card(context_of(about(DIFF, "Diff")), 60, live=LiveCard(30))
    assert [SEQUENCE.sub("", line) for line in lines] == plain_lines


def test_a_table_is_a_table_where_it_fits() -> None:
    rows = [{"file": "cart.py", "lines": 12}, {"file": "tax.py", "lines": None, "why": ["a", 1]}]
    question = about(json.dumps(rows), "Table", "Use the ledger")
    assert card(context_of(question), 60)[3:6] == snapshot(
        ["     file     lines  why", "     cart.py  12", '     tax.py          ["a", 1]']
    )
    assert card(context_of(question), 30)[3:10] == snapshot(
        [
            "",
            "     file   cart.py",
            "     lines  12",
            "     why",
            "",
            "     file   tax.py",
            "     lines",
        ]
    )
    lists = about('[["a", 1], ["bb"]]', "Table", "Use the ledger")
    assert card(context_of(lists), 60)[3:5] == snapshot(["     a   1", "     bb"])


@pytest.mark.parametrize("content", ["not json", "7", '[1,{"a":2}]', "[]", "[{}]", "[[], []]"])
def test_what_is_no_table_is_shown_as_it_is(content: str) -> None:
    shown = "".join("".join(card(context_of(about(content, "Table")), 60)).split())
    assert "".join(content.split()) in shown


def test_when_a_call_may_have_run_is_shown_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # fourteen hours ahead
    time.tzset()
    question = wants_to_run("q7", "npm ci")
    assert question.permission is not None
    ran = question.permission.model_copy(update={"may_have_run_at": "2026-01-31T12:00:00.000Z"})
    lines = card(context_of(question.model_copy(update={"about": ran})), 79)
    monkeypatch.undo()
    time.tzset()
    assert " note  it may already have run at 2026-02-01 02:00:00" in lines


def test_json_is_indented() -> None:
    question = about('{"path":"a","deep":{"n":[1]}}', "Json", "mcp__files__move")
    wants = ToolPermission(tool="mcp__files__move", cwd="/srv/shop")
    question = question.model_copy(update={"about": wants})
    assert card(context_of(question), 60)[1:12] == snapshot(
        [
            " wants to USE A TOOL  mcp__files__move",
            "",
            "     {",
            '       "path": "a",',
            '       "deep": {',
            '         "n": [',
            "           1",
            "         ]",
            "       }",
            "     }",
            "",
        ]
    )


def test_what_does_not_fit_is_counted_and_the_choices_stay() -> None:
    question = about("\n".join(f"+line {n}" for n in range(100)), "Diff")
    assert card(context_of(question), 60, live=LiveCard(14)) == snapshot(
        [
            "─ q7 · wren (claude) · k3f9 · 1 of 1 ───────── waiting 20s ─",
            " wants to CHANGE A FILE  shop/cart.py",
            "",
            "     +line 0",
            "     … 99 more lines, 889 characters in all: coterie show q7",
            " in    /srv/shop",
            " why   gave none",
            " 1 once",
            " 2 deny        and say why: type it after the number",
            " 3 this task   exactly this command, ada only, until k3f9",
            "               ends",
            " 4 rule        run(npm install *)   [e] edit it first",
            " s the turn · d diff · l later, stays in the inbox",
            "─ No answer is never a yes. ────────────────────────────────",
        ]
    )
    whole = card(context_of(question), 60)
    assert "     +line 99" in whole


def test_a_small_window_still_shows_the_command() -> None:
    question = wants_to_run("q7", "npm ci", rule=RULE, note="may already have run")
    assert card(context_of(question), 40, live=LiveCard(8)) == snapshot(
        [
            "─ q7 · wren (claude) · … ─ waiting 20s ─",
            " wants to RUN A COMMAND",
            "     npm ci",
            " 1 once",
            " 2 deny        and say why: type it aft…",
            " 3 this task   exactly this command, ad…",
            " 4 rule        run(npm install *)   [e]",
            "               edit it first",
            "─ No answer is never a yes. ────────────",
        ]
    )


def test_a_folded_line_says_so_and_a_long_rule_is_whole() -> None:
    question = wants_to_run("q7", "npm install " + "x" * 60, rule=f"run({'y' * 90})")
    lines = card(context_of(question), 50)
    assert lines[3:5] == snapshot(
        ["     npm install", "   ↳  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]
    )
    assert f"run({'y' * 90})" in "".join(line.strip() for line in lines)
    narrow = card(context_of(question), 19, live=LiveCard(40))
    assert f"run({'y' * 90})" in "".join(line.strip() for line in narrow if cells(line) <= 19)


def test_nothing_hides_in_what_is_approved() -> None:
    hidden = "ls\u200b \x1b[8m; rm -rf ~\x1b[0m\u202e \r\nrm x\U000e0041"
    question = wants_to_run("q7", hidden)
    assert card(context_of(question), 70)[3:6] == snapshot(
        [
            "     ls<U+200B> <U+001B>[8m; rm -rf ~<U+001B>[0m<U+202E> <U+000D>",
            "     rm x<U+E0041>",
            "",
        ]
    )
    assert brief(context_of(question), 74)[3:6] == snapshot(
        [
            "         ls<U+200B> <U+001B>[8m; rm -rf ~<U+001B>[0m<U+202E> <U+000D>",
            "         rm x<U+E0041>",
            "",
        ]
    )


@given(st.text(), st.integers(24, 100))
def test_the_lines_of_a_card_are_the_exact_command(command: str, width: int) -> None:
    lines = card(context_of(wants_to_run("q7", command)), width)
    assert command_on(lines) == command


def test_both_ends_of_a_long_command_are_shown() -> None:
    command = "echo begins; " + "true; " * 40_000 + "rm -rf end"
    for lines in (
        card(context_of(wants_to_run("q7", command)), 79, live=LiveCard(20)),
        brief(context_of(wants_to_run("q7", command)), 79),
    ):
        shown = "\n".join(lines)
        assert "echo begins" in shown
        assert "rm -rf end" in shown
        assert re.search(r"more lines, 240,023 characters in all: coterie show q7", shown)
    assert command_on(card(context_of(wants_to_run("q7", command)), 79)) == command
    huge = "echo begins; " + "true; " * 400_000 + "rm -rf end"
    shown = "\n".join(card(context_of(wants_to_run("q7", huge)), 79, live=LiveCard(20)))
    assert "2,000,023 more characters, 2,400,023 characters in all" in shown
    assert "rm -rf end" in shown


@given(
    st.text(),
    st.text(),
    st.sampled_from(["PlainText", "Json", "Diff", "Table"]),
    st.integers(24, 100),
    st.integers(4, 40),
)
def test_no_text_breaks_the_frame(
    content: str, title: str, kind: ContentKind, width: int, height: int
) -> None:
    risk = ToolPermission(
        tool=title, cwd=content, command=content, why=content, said=title, note=content
    )
    question = about(content, kind, title).model_copy(update={"about": risk})
    for lines in (
        card(context_of(question), width),
        card(context_of(question), width, live=LiveCard(height)),
        brief(context_of(question), width),
    ):
        for line in lines:
            assert "\n" not in line
            assert "\x1b" not in line
            assert cells(line) <= max(width, 60), line
    shown = card(context_of(question), width, live=LiveCard(height))
    assert [line[:3] for line in shown if re.match(r" [1-4] ", line)][-4:] == [
        " 1 ", " 2 ", " 3 ", " 4 ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "loud", "short"),
    [
        ({"effect": "run", "command": "npm ci"}, "RUN A COMMAND", "run: npm ci"),
        ({"effect": "write", "paths": ("a.py",)}, "CHANGE A FILE  a.py", "change: a.py"),
        ({"effect": "write", "paths": ("a", "b")}, "CHANGE FILES  a, b", "change: a, b"),
        ({"effect": "fetch", "target": "x.org"}, "REACH THE NETWORK  x.org", "reach: x.org"),
        ({"effect": "read", "paths": ("/etc",)}, "READ FILES  /etc", "read: /etc"),
        ({}, "USE A TOOL  Approve a plan", "use: Plan"),
    ],
)  # fmt: skip
def test_what_is_wanted_is_described_by_its_effect(
    call: dict[str, Any], loud: str, short: str
) -> None:
    wants = ToolPermission(tool="Plan", cwd="/srv/shop", **call)
    question = about("x", "PlainText", "Approve a plan").model_copy(update={"about": wants})
    assert heading(question) == f"wants to {loud}"
    assert in_short(question) == f"wants to {short}"


def test_a_question_on_one_line() -> None:
    assert in_short(plain("q1", "Select", "left")) == "asks: Which way?"
    assert heading(plain("q1", "Select", "left")) == "Which way?"


# -- typed input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("1", ("approve", None)),
        ("ONCE", ("approve", None)),
        ("2 use pnpm", ("reject", "use pnpm")),
        ("deny", ("reject", None)),
        ("this task", ("task", None)),
        ("4 run(npm ci)", ("rule", "run(npm ci)")),
    ],
)
def test_a_number_or_a_whole_name_answers(line: str, meant: tuple[str, str | None]) -> None:
    assert typed(wants_to_run("q1", "npm ci", rule=RULE), line) == meant


@pytest.mark.parametrize("line", ["o", "on second thought", "yes", "once more please", "5", "1 x"])
def test_a_sentence_never_answers(line: str) -> None:
    with pytest.raises(AnswerRefused, match="stays open"):
        typed(wants_to_run("q1", "npm ci", rule=RULE), line)


def test_alike_is_the_same_tool_with_the_same_command_or_rule() -> None:
    one = wants_to_run("q1", "npm install a", rule=RULE)
    assert alike(one, wants_to_run("q2", "npm install b", rule=RULE))
    assert alike(wants_to_run("q1", "make"), wants_to_run("q2", "make"))
    assert not alike(one, one)
    assert not alike(one, wants_to_run("q2", "npm ci", rule="run(npm ci)"))
    assert not alike(one, wants_to_run("q2", "npm install b", rule=RULE, task="m2xy"))
    assert not alike(one, plain("q2", "Select", "left"))
    assert not alike(wants_to_run("q1", "make"), wants_to_run("q2", "make all"))


def test_details_and_defaults_of_other_questions() -> None:
    question = plain("q1", "Select").model_copy(
        update={
            "options": (
                Option(id="keep", label="keep it", detail="as it is"),
                Option(id="stop", label="stop", default=True, style="danger"),
            )
        }
    )
    assert brief(context_of(question), 60)[-3:] == snapshot(
        [
            "     1 keep   keep it as it is",
            "     2 stop   (default)",
            "     coterie answer q1 keep|stop",
        ]
    )
