"""The tickets of a session: listed, drawn, shown one by one, restarted; and live on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.test_terminal import Terminal
from tests.cli.ticket_project import TicketProject, normalize_session, register_agents


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up(retries=0, replans=0)


def test_a_session_is_looked_at(project: TicketProject) -> None:
    assert project("tickets").out.startswith("Nothing has been done")
    assert project("run", "--yes", "Add coupons with-check sent-back").code == 3
    assert project.normalized(project("tickets")) == snapshot("""\
 █████████████░░░░░░░  2 of 3 done · 1 in review

 ID  TICKET              STATE                 OWNER        CHECKS  TIME  TOKENS
 T1  Coupon model        done                  wren codex   -       0.1s       -
 T2  Price rules         done                  finn gemini  -       0.1s       -
 T3  Form with-check s…  awaiting_review ▲ q1  wren codex   -       0.1s       -
""")
    shown = project.normalized(project("show", "last"))
    assert shown[: shown.index("\n ▲ q1")] == snapshot("""\
k3f9  tickets  waiting for q1  12 turns
  goal     Add coupons with-check sent-back
  started  12:00
  updated  12:00
  team     crew
    mira  claude  .coterie/teams/crew/mira
    wren  codex  .coterie/teams/crew/wren
    finn  gemini  .coterie/teams/crew/finn
  next     coterie resume k3f9

 ✓ T1 ─┬─ ▲ T3
 ✓ T2 ─┘

 █████████████░░░░░░░  2 of 3 done · 1 in review

 ID  TICKET              STATE                 OWNER        CHECKS  TIME  TOKENS
 T1  Coupon model        done                  wren codex   -       0.1s       -
 T2  Price rules         done                  finn gemini  -       0.1s       -
 T3  Form with-check s…  awaiting_review ▲ q1  wren codex   -       0.1s       -
""")
    shown = project.normalized(project("show", "last/t3"))
    assert shown[: shown.index("\n ▲ q1")] == snapshot("""\
k3f9/T3  Form with-check sent-back   awaiting_review ▲ q1   wren codex
  after    T1 T2
  asks     q1   coterie show q1
  told     mira: Write it.
             open an editor
             - the form can be built   checked by mkdir -p built
  report   wren: completed
             made form.py
             says I ran it
  cost     2 turns · 0.1s
  branch   coterie/k3f9/T3
  log      coterie log k3f9/T3
  history  12:00  created
           12:00  in_progress: instructed
           12:00  awaiting_review: wren reported
""")
    assert project("graph", "last").out == snapshot("""\
 ✓ T1 ─┬─ ▲ T3
 ✓ T2 ─┘
""")
    listed = project("tickets", "last", "--json").of("ticket")
    assert [(one["id"], one["state"], one["asks"]) for one in listed] == snapshot(
        [("T1", "done", None), ("T2", "done", None), ("T3", "awaiting_review", "q1")]
    )
    (ticket,) = project("show", "last/T2", "--json").lines
    assert [one["event"] for one in ticket["history"]] == snapshot(
        ["created", "discussing", "discussed", "in_progress", "awaiting_review", "done"]
    )
    assert [one["payload_type"] for one in ticket["envelopes"]] == snapshot(
        [
            "ticket",
            "instruction_proposal",
            "ticket",
            "report",
            "ticket",
            "instruction",
            "ticket",
            "report",
            "ticket",
            "review",
            "ticket",
        ]
    )
    log = project.normalized(project("log", "last"))
    assert [line for line in log.splitlines() if " T2 " in line or "[" in line] == snapshot(
        [
            "12:00:00  mira     [clarification: clear]",
            "12:00:00  mira     [plan: 3 tickets]",
            "12:00:00  coterie  T2 created: Price rules",
            "12:00:00  mira     [instruction: Write it.]",
            "12:00:00  wren     [report: completed]",
            "12:00:00  mira     [review: approved]",
            "12:00:00  mira     [proposal: Carefully.]",
            "12:00:00  finn     T2 discussing: asking the worker first",
            "12:00:00  finn     [report: proposal]",
            "12:00:00  finn     T2 discussing: discussed: finn answered",
            "12:00:00  mira     [instruction: Write it.]",
            "12:00:00  finn     T2 in_progress: instructed",
            "12:00:00  finn     [report: completed]",
            "12:00:00  finn     T2 awaiting_review: finn reported",
            "12:00:00  mira     [review: approved]",
            "12:00:00  finn     T2 done: approved and merged; no check was run",
            "12:00:00  mira     [instruction: Write it.]",
            "12:00:00  wren     [report: completed]",
        ]
    )


def test_what_is_not_there_is_named(project: TicketProject) -> None:
    assert project("run", "--yes", "--json", "Add coupons with-check").code == 3
    assert project.normalized(project("show", "last/T9")) == snapshot(
        "! No ticket T9 in k3f9. There are: T1, T2, T3.\n  coterie show k3f9\n"
    )
    assert project("tickets", "nosuch").err.startswith('! No task "nosuch".')
    assert project.normalized(project("tickets", "reset", "last/T1")) == snapshot("""\
! T1 is done; only a ticket that failed can be reset.
  coterie show k3f9
""")
    assert project("tickets", "reset", "T1").shown == snapshot("""\
! "T1" is not a ticket.
  coterie tickets reset last/T3
""")


def test_a_failed_ticket_is_reset(project: TicketProject) -> None:
    ran = project("run", "--yes", "Add coupons never-works")
    assert ran.code == 3
    assert [line for line in project.normalized(ran).splitlines() if "T3" in line] == snapshot(
        [
            "12:00:00  T3  Form never-works, after T1 T2",
            "12:00:00  T3  wren starts",
            "12:00:00  T3  blocked: no database here",
            "12:00:00  T3  failed: no database here",
            "12:00:00  T3  coterie asks: T3 failed: Form never-works · q1",
            "     T3 failed: Form never-works",
        ]
    )
    reset = project("tickets", "reset", "last/T3")
    assert (reset.code, project.normalized(reset)) == snapshot(
        (0, "k3f9/T3 is pending again.   coterie resume k3f9\n")
    )
    again = project("resume", "last")
    assert again.code == 3
    assert "T3  reset by hand" in again.out


@pytest.fixture
def terminal(project: TicketProject) -> Iterator[Terminal]:
    opened = Terminal(project.cli, "run", "Add coupons with-check")
    yield opened
    opened.close()


def test_the_table_is_live(terminal: Terminal) -> None:
    terminal.until("Tab open q1")
    terminal.type("\t")
    terminal.until("q1>")
    terminal.type("1\r")
    for sign in ("mira wants to run", "awaiting_review ▲ q2", "Tab open q2"):
        terminal.until(sign)
    task = re.findall(r"(\w+)  Add coupons with-check", terminal.emulator.shown)[-1]
    screen = normalize_session(terminal.emulator.shown, task)
    assert screen[screen.index(" 12:00  T3  mira") :] == snapshot("""\
 12:00  T3  mira wants to run: mkdir -p built · q2
───────────────────────────────────────────────────────────────────────────────
 k3f9  Add coupons with-check                                             0m20s
 █████████████░░░░░░░  2 of 3 done · 1 in review

 ID  TICKET           STATE                 OWNER        CHECKS  TIME  TOKENS
 T1  Coupon model     done                  wren codex   -       0.1s       -
 T2  Price rules      done                  finn gemini  -       0.1s       -
 T3  Form with-check  awaiting_review ▲ q2  wren codex   -       0.1s       -
───────────────────────────────────────────────────────────────────────────────
 ▲ q2 mira wants to run: mkdir -p built                           waiting 0m20s
 >
 Tab open q2 · type to tell the manager · /T3 one ticket · ^C stop, keep\
""")
    terminal.type("/T3\r")
    terminal.until("awaiting_review: ")
    terminal.resize(60, 16)
    terminal.type("\t")
    terminal.until(f"{task}/T3 · 1 of 1")
    terminal.type("1\r")
    terminal.until("Tab open q3")
    terminal.type("\t")
    terminal.until("q3>")
    terminal.type("1\r")
    terminal.until("Next   coterie diff")
    assert terminal.ended() == 0
    shown = normalize_session(terminal.emulator.shown, task)
    assert shown[shown.index(" DONE") :] == snapshot("""\
 DONE  k3f9  Add coupons with-check                    0.1s
 3 done

 CHANGED       3 files +3 -0   branch coterie/k3f9/merged;
               your tree untouched
 CHECKED       mkdir -p built exit 0, at tree 9c1e44; for
               T1 T2 no check was run
 YOU DECIDED   plan 12:00 · q2 once · report 12:00

 Next   coterie diff k3f9 · coterie accept k3f9
        coterie revert k3f9
""")
