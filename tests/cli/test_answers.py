"""`inbox` and `answer` from another process: many at once, by rule, and what is rejected."""

from __future__ import annotations

import json

import pytest
from inline_snapshot import snapshot

from coterie.model.interaction import Validation
from coterie.model.journal import AppendEvent
from coterie.model.task import TaskCanceled
from tests.cli.command import Cli, normalize
from tests.cli.recorded import asks, at, plain, record, wants_to_run

RULE = "run(npm install *)"


def test_a_risky_action_in_the_inbox(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm install stripe@17", rule=RULE, note="network")))
    shown = normalize(in_process("inbox").out)
    assert "waiting" in shown.splitlines()[0]
    assert "\n".join(shown.splitlines()[1:]) == snapshot("""\
     wants to RUN A COMMAND

         npm install stripe@17

     in    /srv/shop
     why   "The endpoint needs the Stripe client."
     said  "I install it."
     note  network

     1 once
     2 deny        --say tells ada why
     3 this task   exactly this command, ada only, until k3f9 ends
     4 rule        run(npm install *)   --say to edit it
     coterie answer q1 once|deny|task|rule
""")


def test_a_question_names_its_task_by_title_however_long_the_goal(in_process: Cli) -> None:
    goal = "\nAdd coupons\n" + "and more " * 1_000
    record(in_process, asks(wants_to_run("q1", "npm ci")), goal=goal)
    (line,) = in_process("inbox", "--json").of("interaction")
    assert line["task_title"] == "Add coupons"


def test_a_risky_action_as_an_object(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm ci", rule=RULE)))
    (line,) = in_process("inbox", "--json").of("interaction")
    told = {key: line[key] for key in ("command", "cwd", "reason", "tool", "said", "note")}
    assert told == snapshot(
        {
            "command": "npm ci",
            "cwd": "/srv/shop",
            "reason": "The endpoint needs the Stripe client.",
            "tool": "Bash",
            "said": "I install it.",
            "note": "",
        }
    )
    assert [(one["id"], one["label"], one["detail"]) for one in line["options"]] == snapshot(
        [
            ("approve", "once", ""),
            ("reject", "deny", "--say tells ada why"),
            ("task", "this task", "exactly this command, ada only, until k3f9 ends"),
            ("rule", "rule", "run(npm install *)"),
        ]
    )


@pytest.mark.parametrize(
    ("choice", "answer"),
    [("once", "approve"), ("1", "approve"), ("approve", "approve"), ("3", "task"), ("t", "task")],
)
def test_choices_by_number_name_or_beginning(in_process: Cli, choice: str, answer: str) -> None:
    record(in_process, asks(wants_to_run("q1", "npm ci", rule=RULE)))
    (line,) = in_process("answer", "q1", choice, "--json").of("interaction")
    assert (line["state"], line["answer"]) == ("answered", answer)


def test_a_wrong_choice_is_refused_with_the_words_of_the_card(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm ci", rule=RULE)))
    assert in_process("answer", "q1", "yes").err + in_process(
        "answer", "q1", "--say", "yes"
    ).err == snapshot(
        """\
! q1 has no choice "yes"; it has: once, deny, task, rule.
  coterie show q1
! q1 needs a choice; it has: once, deny, task, rule. It stays open.
  coterie show q1
"""
    )


def test_many_at_once_and_one_refused(in_process: Cli) -> None:
    questions = [asks(wants_to_run(f"q{n}", f"npm run {n}"), n) for n in range(2, 6)]
    record(in_process, *questions)
    assert in_process("answer", "q3", "deny").code == 0
    ran = in_process("answer", "q2", "q3", "q4", "q5", "once")
    assert ran.code == 2
    assert normalize(ran.out) == snapshot("""\
q2 answered: once
k3f9 is not running:  coterie resume k3f9
q4 answered: once
k3f9 is not running:  coterie resume k3f9
q5 answered: once
k3f9 is not running:  coterie resume k3f9
""")
    assert normalize(ran.err) == snapshot("""\
! q3 was already answered "deny" at 12:00 by you. Your answer was not used.
  coterie inbox
""")


def test_every_question_of_a_task(in_process: Cli) -> None:
    record(in_process, *(asks(wants_to_run(f"q{n}", f"npm run {n}"), n) for n in (2, 3)))
    record(in_process, asks(wants_to_run("q4", "make", task="m2xy")), task="m2xy")
    assert in_process("answer", "--all-of", "k3", "deny", "--say", "use pnpm").out == snapshot("""\
q2 answered: deny: use pnpm
k3f9 is not running:  coterie resume k3f9
q3 answered: deny: use pnpm
k3f9 is not running:  coterie resume k3f9
""")
    assert [line["id"] for line in in_process("inbox", "--json").lines] == ["q4"]
    assert in_process("answer", "--all-of", "k3f9", "deny").code == 2


def test_a_rule_is_saved_and_named(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm install stripe", rule=RULE)))
    record(
        in_process,
        asks(wants_to_run("q2", "npm test", rule="run(npm test)", task="m2xy")),
        task="m2xy",
    )
    assert in_process("answer", "q1", "rule").out == snapshot("""\
q1 answered: rule
Saved for ada, in .coterie/teams/pair/rules.json: run(npm install *)
k3f9 is not running:  coterie resume k3f9
""")
    edited = in_process("answer", "q2", "rule", "--say", "run(npm test *)", "--json").lines[0]
    assert (edited["answer"], edited["answer_text"]) == ("rule", "run(npm test *)")
    kept = in_process.user.project / ".coterie" / "teams" / "pair" / "rules.json"
    assert json.loads(kept.read_text()) == {"ada": ["run(npm install *)", "run(npm test *)"]}


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        ("run(npm install *)", True),
        ("npm install stripe", True),
        ("run(npm test)", False),
        ("run(npm install left-pad)", False),
        ("write(docs/**)", False),
        ("fetch(example.org)", False),
    ],
)
def test_an_edited_rule_must_cover_its_own_question(
    in_process: Cli, rule: str, *, covers: bool
) -> None:
    offered = "run(npm install stripe)"
    record(in_process, asks(wants_to_run("q1", "npm install stripe", rule=offered)))
    ran = in_process("answer", "q1", "rule", "--say", rule)
    assert (ran.code, "does not cover what is asked. The question stays open" in ran.err) == (
        0 if covers else 2,
        not covers,
    )
    assert bool(in_process("inbox", "--json").of("interaction")) is not covers
    rules = in_process.user.project / ".coterie" / "teams" / "pair" / "rules.json"
    assert rules.exists() is covers


def test_what_is_no_rule_is_refused_and_the_question_stays(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm install stripe", rule=RULE)))
    ran = in_process("answer", "q1", "rule", "--say", "fly(npm)")
    assert ran.code == 2
    assert "is not a valid rule" in ran.err
    assert [line["id"] for line in in_process("inbox", "--json").lines] == ["q1"]
    assert not (in_process.user.project / ".coterie" / "teams" / "pair" / "rules.json").exists()


def test_a_message_that_nobody_would_receive_is_refused(in_process: Cli) -> None:
    record(in_process, asks(wants_to_run("q1", "npm ci")))
    ran = in_process("answer", "q1", "once", "--say", "but be careful")
    assert (ran.out, ran.code) == ("", 2)
    assert ran.err == snapshot("""\
! q1: once takes no message: nobody would read it. The question stays open.
  coterie say k3f9 "…", or deny and say why
""")


def test_a_question_of_a_dead_task_is_closed(in_process: Cli) -> None:
    canceled = AppendEvent(TaskCanceled(task_id="k3f9", at=at(7)))
    record(in_process, asks(wants_to_run("q1", "npm ci")), canceled)
    ran = in_process("answer", "q1", "once")
    assert ran.code == 2
    assert ran.err == snapshot("""\
! q1 was closed when its task ended. Your answer was not used.
  coterie inbox
""")


def test_text_that_must_fit_a_rule(in_process: Cli) -> None:
    amount = Validation(
        regex=r"stop|\+\d+k", required=True, meaning="an amount such as +200k, or stop",
        example="+200k",
    )  # fmt: skip
    record(in_process, asks(plain("q1", "Input", validation=amount)))
    assert "     coterie answer q1 +200k\n" in in_process("inbox").out
    refused = in_process("answer", "q1", "lots")
    assert (refused.code, refused.err) == snapshot(
        (
            2,
            """\
! q1 needs an amount such as +200k, or stop. It stays open.
  coterie show q1
""",
        )
    )
    assert in_process("answer", "q1", "left", "--say", "+1k").code == 2
    assert in_process("answer", "q1", "+300k").out.startswith("q1 answered: +300k\n")


def test_an_option_and_text_in_one_answer(in_process: Cli) -> None:
    words = Validation(regex="[a-z ]+", required=True)
    record(in_process, asks(plain("q1", "Composite", "left", "right", validation=words)))
    assert 'coterie answer q1 left|right --say "…"' in in_process("inbox").out
    for wrong in (
        ["left"],
        ["left", "--say", "NO"],
        ["--say", "since it is short"],
        ["up", "--say", "x"],
    ):
        assert in_process("answer", "q1", *wrong).code == 2
    assert in_process("answer", "q1", "left", "--say", "since it is short").out.startswith(
        "q1 answered: left: since it is short\n"
    )
    assert normalize(in_process("show", "q1").out.splitlines()[-1]) == snapshot(
        'answered at 12:00 by you: "left: since it is short"'
    )
