"""The text of a question derives from its subject and from nothing else."""

from __future__ import annotations

from typing import get_args

import pytest
from inline_snapshot import snapshot

from coterie.model import about
from coterie.model.question_text import display_of

SUBJECTS: list[about.About] = [
    about.ToolPermission(tool="Bash", cwd="/w"),
    about.AgentQuestion(),
    about.HumanTurn(member="you", name="You"),
    about.FailedTurn(member="bob", turn=2, failure="exit", message="exit 3", hint="codex login"),
    about.FailedTurn(member="mira", turn=1, failure="exit", message="exit 3", manages=True),
    about.BudgetReached(scope="task", measure="tokens", used=510e3, limit=500e3, member="k3f9"),
    about.BudgetReached(scope="day", measure="usd", used=2, limit=2),
    about.BudgetReached(scope="member's day", measure="turns", used=9, limit=9, member="ada"),
    about.WorkflowChange(step="turn/2", difference="it is gone"),
    about.Subtask(asker="ada"),
    about.Subtask(asker="ada", proposed="bob"),
    about.ClarifyingQuestion(question="Which database?", number=1, total=2),
    about.PlanApproval(plan="9c1e", tickets=6),
    about.PlanApproval(plan="9c1e", tickets=6, replaces=True, why="T2 failed"),
    about.PlanRejected(manager="mira", tries=3),
    about.FailedChecks(ticket="T1", checks=("make test: exit 2", "make lint: exit 1")),
    about.FailedTicket(ticket="T1", title="Coupons", reason="blocked 3 times"),
    about.NobodyCapable(
        ticket="T1", title="Coupons", capability="coding", workers=("wren",), reason="exit 3"
    ),
    about.ReportConfirmation(summary="3 done", commit="9c1e", report="final_report.md"),
    about.OutsideEdits(ticket="T1", worker="wren", message="a.py changed"),
    about.TicketHelp(ticket="T1", question="Which key?"),
    about.PhaseChoice(phase="planning", next="plan_review"),
    about.PhaseChoice(phase="codegen", next="planning", reverted=True),
    about.GateFailed(phase="test_run", gate="tests", rounds=3, reasons=("make test: exit 2",)),
    about.GateFailed(phase="test_run", gate="tests", rounds=0, reasons=("no command",)),
    about.FailedPhaseStep(phase="codegen", step="codegen", reason="nothing was changed"),
    about.UnplannedFiles(member="ada", files=("a.py", "b.py")),
    about.PlanQuestion(question="Which currency?", role="risk", number=1, total=2),
    about.ChangeAcceptance(summary="1 file", tree="9c1e"),
    about.ChangeAcceptance(summary="1 file", tree="9c1e", failed=("tests",), problem="main moved"),
    about.ChangeAcceptance(summary="1 file", tree="9c1e", said="also handle refunds"),
    about.SilentMachine(
        machine="gpu1", owner="9c1e", beat=3, since="2026-11-15T12:04:31Z", tasks=("k3f9",)
    ),
    about.SilentMachine(
        machine="gpu1", owner="9c1e", beat=3, since="2026-11-15T12:04:31Z", tasks=("k3f9", "m2n4")
    ),
]


def test_every_subject_is_shown_here() -> None:
    union = get_args(about.About)[0]
    assert {type(one) for one in SUBJECTS} == set(get_args(union))


def test_words() -> None:
    words = [(shown.title, shown.description) for shown in map(display_of, SUBJECTS)]
    assert words == snapshot(
        [
            ("Use Bash", ""),
            ("A question", ""),
            ("Your turn, You", "Say something, or /end to end the conversation."),
            (
                "bob cannot speak (turn 2)",
                """\
exit 3
codex login\
""",
            ),
            ("mira (manager) gave no usable answer", "exit 3"),
            (
                "k3f9 used 510k of 500k tokens",
                "The next call was not made. How much more, such as +200k, or stop?",
            ),
            (
                "$2.00 of $2.00 used today",
                "The next call was not made. How much more, such as +2.50, or stop?",
            ),
            (
                "ada used 9 of 9 turns today",
                "The next call was not made. How much more, such as +5, or stop?",
            ),
            (
                "The workflow changed at turn/2",
                "The recorded steps no longer match the workflow: it is gone.",
            ),
            ("ada wants to delegate a part of its work", "Who should do it?"),
            ("ada wants to delegate a part of its work", "It proposes bob."),
            ("Which database?", '1 of 2. Answer it, or say "go" to begin without more questions.'),
            ("Plan with 6 tickets", "Approve it, or say what to change (--say)."),
            (
                "Changed plan with 6 tickets: T2 failed",
                "Approve it, or say what to change (--say).",
            ),
            (
                "mira gave no plan that can be carried out",
                "Tried 3 times. The problems of the last one:",
            ),
            (
                "T1 was approved, but make test: exit 2; make lint: exit 1",
                "A ticket is done only if its checks pass; only you can override that.",
            ),
            ("T1 failed: Coupons", "blocked 3 times"),
            (
                "T1 needs coding, and wren failed at it: Coupons",
                """\
exit 3
Nobody else has that capability.\
""",
            ),
            (
                "The final report: 3 done",
                "Confirm it, or say what is missing (--say). Full report: final_report.md",
            ),
            ("Was it you? a.py changed", "Nothing was reverted: it may be your own work."),
            ("Which key?", "T1 cannot continue without an answer."),
            ("planning has finished: what next?", ""),
            ("The work was reverted: what next?", ""),
            (
                "The gate tests failed after 3 rounds of rework",
                """\
make test: exit 2
Only you can override it.\
""",
            ),
            (
                "The gate tests failed",
                """\
no command
Only you can override it.\
""",
            ),
            ("codegen failed", "nothing was changed"),
            (
                "ada changed files that the plan does not name: a.py, b.py",
                "Keep the changes, revert them, or have the work redone.",
            ),
            ("Which currency?", "1 of 2, asked by risk."),
            ("Accept the change: 1 file", "You can give the commit message with it (--say)."),
            (
                "Accept the change: 1 file",
                "main moved. These gates failed: tests. "
                "You can give the commit message with it (--say).",
            ),
            (
                "Accept the change: 1 file",
                """\
Said meanwhile: also handle refunds
The coder hears it if you send the change back. You can give the commit message with it (--say).\
""",
            ),
            (
                "gpu1 has not been heard from since 2026-11-15 12:04 UTC",
                "It runs k3f9. Take over only if you know that it is dead: "
                "an agent that still runs there would run twice.",
            ),
            (
                "gpu1 has not been heard from since 2026-11-15 12:04 UTC",
                "It runs 2 tasks: k3f9, m2n4. Take over only if you know that it is dead: "
                "an agent that still runs there would run twice.",
            ),
        ]
    )


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.kind)
def test_a_subject_is_read_back_as_it_was_written(subject: about.About) -> None:
    assert type(subject).model_validate_json(subject.model_dump_json()) == subject


def test_braces_in_a_text_are_only_text() -> None:
    shown = display_of(about.TicketHelp(ticket="T1", question="{ticket} {0} {x.y}?"))
    assert shown.title == "{ticket} {0} {x.y}?"


def test_one_ticket_is_not_several() -> None:
    plan = next(one for one in SUBJECTS if isinstance(one, about.PlanApproval))
    assert display_of(plan.model_copy(update={"tickets": 1})).title == "Plan with 1 ticket"
