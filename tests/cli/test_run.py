"""`coterie run`: a goal becomes tickets, tickets become merged work; as lines and as objects."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, git, register_agents


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up()


def test_a_goal_becomes_merged_work(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(checks=["test -s cart.py"])
    ran = project("run", "--yes", "Add coupons sent-back looked-at")
    assert ran.code == 0
    assert project.normalized(ran) == snapshot("""\
12:00:00  you: Add coupons sent-back looked-at
12:00:00  plan with 3 tickets
12:00:00  T1  Coupon model
12:00:00  T2  Price rules
12:00:00  T3  Form sent-back looked-at, after T1 T2
12:00:00  T1  wren starts
12:00:00  T1  wren reported
12:00:00  T1  Coterie ran test -s cart.py: exit 0; mira (manager) reviews
12:00:00  T1  done: approved and merged; all checks passed
12:00:00  T2  mira and finn are discussing it
12:00:00  T2  finn answered
12:00:00  T2  finn starts
12:00:00  T2  finn reported
12:00:00  T2  Coterie ran test -s cart.py: exit 0; mira (manager) reviews
12:00:00  T2  done: approved and merged; all checks passed
12:00:00  T3  wren starts
12:00:00  T3  wren: "form.py is written."
12:00:00  T3  wren reported
12:00:00  T3  Coterie ran test -s cart.py: exit 0; mira (manager) reviews
12:00:00  T3  sent back to wren: missing error path
12:00:00  T3  wren: "form.py is written."
12:00:00  T3  wren reported
12:00:00  T3  Coterie ran test -s cart.py: exit 0; mira (manager) reviews
12:00:00  T3  done: approved and merged; all checks passed

 DONE  k3f9  Add coupons sent-back looked-at                               0.1s
 3 done

 CHANGED       3 files +3 -0   branch coterie/k3f9/merged; your tree untouched
 CHECKED       test -s cart.py exit 0, at tree 9c1e44
 NOT CHECKED   T3 "looks right on a phone": no command; please look
 SENT BACK     T3 once: missing error path

 Next   coterie diff k3f9 · coterie accept k3f9 · coterie revert k3f9
""")
    assert git(project.root, "status", "--porcelain") == ""


def test_the_plan_waits_for_a_yes(project: TicketProject) -> None:
    ran = project("run", "Add coupons")
    assert ran.code == 3
    assert project.normalized(ran) == snapshot("""\
12:00:00  you: Add coupons
12:00:00  mira asks: Plan with 3 tickets · q1
 ▲ q1  mira (claude) asks
     Plan with 3 tickets
     Approve it, or say what to change (--say).

         model
             Coupon model
         … 3 more lines, 94 characters in all: coterie show q1
         form  after model, rules
             Form
     1 approve   (your comment goes to everybody)
     2 change    change the plan with your comment
     3 stop      stop for now
     coterie answer q1 approve|change|stop [--say "…"]

Waiting  k3f9 · 2 turns · 0.1s
  why      a question is waiting for your answer
  next     coterie inbox · coterie resume k3f9
""")
    assert project("answer", "q1", "approve").code == 0
    again = project("resume", "last")
    assert again.code == 3
    assert project.normalized(again).splitlines()[:3] == snapshot(
        [
            "12:00:00  plan approved by you, 3 tickets",
            "12:00:00  T1  Coupon model",
            "12:00:00  T2  Price rules",
        ]
    )
    assert project("answer", "q2", "approve").code == 0
    last = project("resume", "last")
    assert last.code == 0
    assert "YOU DECIDED   plan 12:00 · report 12:00" in project.normalized(last)


def test_as_objects(project: TicketProject) -> None:
    ran = project("run", "--json", "--yes", "-t", "crew", "Add coupons with-check")
    assert ran.code == 3
    task = ran.lines[0]["id"]
    told = [(one["id"], one["state"], one["owner"], one["message"]) for one in ran.of("ticket")]
    assert told == snapshot(
        [
            ("T1", "pending", None, "created"),
            ("T2", "pending", None, "created"),
            ("T3", "pending", None, "created"),
            ("T1", "in_progress", "wren", "instructed"),
            ("T1", "awaiting_review", "wren", "wren reported"),
            ("T1", "awaiting_review", "wren", "mira (manager) reviews"),
            ("T1", "done", "wren", "approved and merged; no check was run"),
            ("T2", "discussing", "finn", "asking the worker first"),
            ("T2", "discussing", "finn", "finn answered"),
            ("T2", "in_progress", "finn", "instructed"),
            ("T2", "awaiting_review", "finn", "finn reported"),
            ("T2", "awaiting_review", "finn", "mira (manager) reviews"),
            ("T2", "done", "finn", "approved and merged; no check was run"),
            ("T3", "in_progress", "wren", "instructed"),
            ("T3", "awaiting_review", "wren", "wren reported"),
        ]
    )
    assert {one["task"] for one in ran.of("ticket")} == {task}
    (asked,) = ran.of("interaction")
    assert (asked["member"], asked["command"]) == ("mira", "mkdir -p built")
    assert project("answer", asked["id"], "once").code == 0
    last = project("resume", task, "--json").lines[-1]
    passed = "all checks passed; Coterie ran mkdir -p built: exit 0\n"
    assert passed in project("log", f"{task}/T3").out
    assert {
        key: last[key] for key in ("type", "status", "reason", "summary", "checks")
    } == snapshot(
        {
            "type": "result",
            "status": "completed",
            "reason": "done",
            "summary": "3 done; 2 without any check",
            "checks": [{"ticket": "T3", "command": "mkdir -p built", "passed": True}],
        }
    )
    assert last["next"] == [f"coterie {verb} {task}" for verb in ("diff", "accept", "revert")]


def test_without_a_commit_to_start_from_there_is_no_session(bare: Cli) -> None:
    register_agents(bare)
    git(bare.user.project, "init", "-q")
    for more in ([], ["--dry-run"]):
        ran = bare("run", *more, "--agents", "mira=claude,wren=codex", "Add coupons")
        assert (ran.code, "has no commit yet" in ran.err, ran.out) == (2, True, "")
    assert bare("tasks", "--json").lines == []


def test_a_dry_run_starts_and_writes_nothing(bare: Cli) -> None:
    register_agents(bare)
    ran = bare("run", "--dry-run", "--agents", "mira=claude,wren=codex", "Add coupons")
    assert ran.code == 0
    python = json.loads((bare.user.coterie_home / "agents" / "config.json").read_text())
    command = python["agents"]["codex"]["command"]
    shown = ran.shown.replace(command, "python").replace(str(Path(__file__).parent), "tests")
    # The variables depend on the machine; tests/cli/test_dry_run.py covers them.
    shown = re.sub(r"(?<=with     )[A-Z].*?(?=\n +folder)", "VARIABLES", shown, flags=re.S)
    assert shown == snapshot("""\
Would run tickets with team adhoc. Nothing was started or written.
  goal       Add coupons
  mira       manager · claude · ask
             runs     python
                      tests/ticket_agent.py
             in       .coterie/teams/adhoc/mira/work
             with     VARIABLES
             folder   .coterie/teams/adhoc/mira
             turns    fail after    0.1s
  wren       worker · codex · ask
             runs     python
                      tests/ticket_agent.py
             in       .coterie/teams/adhoc/wren/work
             with     VARIABLES
             folder   .coterie/teams/adhoc/wren
             turns    fail after    0.1s
  budget     none: nothing is limited
  limits     3 tickets at once · 2 retries · sent back at most 3 times · 2 new
             plans · 3 rounds of questions · minutes: 60 for work, 30 for the
             manager, 10 for a check · alert after 15 without progress
  checks     none of yours; plus those of the plan that you allow
  branches   none: not a git repository, all work in one folder
  then       mira asks what is unclear and plans (the plan is shown to you for
             approval); workers do their tickets, Coterie runs the checks, mira
             reviews, approved work is merged, and the final report is
             confirmed by you. Your own branch and files are touched only by:
             coterie accept
""")
    assert list(bare.user.project.iterdir()) == []


def test_a_dry_run_as_an_object(project: TicketProject) -> None:
    (told,) = project("run", "--dry-run", "--yes", "--json", "Add coupons").lines
    names = ("type", "workflow", "goal", "team", "branches", "approves_plan", "rehearsal")
    assert {name: told[name] for name in names} == snapshot(
        {
            "type": "dry_run",
            "workflow": "tickets",
            "goal": "Add coupons",
            "team": "crew",
            "branches": ["coterie/<id>/T1", "coterie/<id>/merged"],
            "approves_plan": True,
            "rehearsal": False,
        }
    )
    assert [(one["member"], one["duty"]) for one in told["members"]] == snapshot(
        [("mira", "manager"), ("wren", "worker"), ("finn", "worker")]
    )
    assert told["scheduler"]["concurrency"] == 1


def test_a_dry_run_shows_the_plan_of_a_script(project: TicketProject) -> None:
    plan: dict[str, list[dict[str, Any]]] = {
        "tasks": [{"task_id": "model", "description": "The model"}]
    }
    plan["tasks"].append({"task_id": "form", "description": "The form", "dependencies": ["model"]})
    reply = {"text": f"Here it is.\n```json\n{json.dumps(plan)}\n```"}
    script = project.root / "script.json"
    script.write_text(json.dumps({"rules": [{"replies": [reply]}]}))
    ran = project("run", "--dry-run", "--script", str(script), "Add coupons")
    shown = ran.shown
    assert shown[shown.index("  plan ") :] == snapshot("""\
  plan       2 tickets, in the script
             model ─── form
             model: The model
             form: The form
""")


def test_roles_of_the_project_count(project: TicketProject) -> None:
    roles = [
        {"role_id": "boss", "type": "manager", "cli_command": "claude"},
        {"role_id": "hand", "type": "worker", "cli_command": "codex"},
    ]
    (project.root / ".coterie" / "roles.json").write_text(json.dumps({"roles": roles}))
    (told,) = project("run", "--dry-run", "--json", "Add coupons").lines
    assert [(one["member"], one["duty"]) for one in told["members"]] == snapshot(
        [("boss", "manager"), ("hand", "worker")]
    )


@pytest.mark.parametrize("workflow", ["chat", "solo"])
def test_the_team_says_how(cli: Cli, workflow: str) -> None:
    path = cli.team("ada", "rex")
    written: dict[str, Any] = {"workflow": workflow, **json.loads(path.read_text())}
    path.write_text(json.dumps(written))
    ran = cli("run", "--json", "hello there")
    assert ran.code == 0
    assert ran.lines[0]["workflow"] == workflow
    speakers = [one["member"] for one in ran.of("message")]
    assert speakers == (["ada", "rex"] if workflow == "chat" else ["ada"])


def test_what_cannot_be_run(project: TicketProject) -> None:
    assert project("run", "-t", "crew", "--agents", "claude", "x").shown == snapshot("""\
! --team and --agents cannot be combined.
  Give one of them.
""")
    assert project("run").shown == snapshot("""\
! No message given.
  coterie run "what should be achieved"
""")
    alone = project("run", "--agents", "claude", "Add coupons")
    assert alone.code == 2
    assert alone.shown == snapshot("""\
! Team adhoc has too few AI members (1): tickets need a manager and at least one worker.
  coterie team add NAME --agent claude
""")
    assert project("tasks", "--json").out == ""


def test_an_interrupt_parks_and_resume_goes_on(project: TicketProject) -> None:
    with project.cli.start("run", "--yes", "Add coupons hangs") as child:
        child.until("T3  wren starts")
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        assert "Parked: coterie resume" in child.err.read()
    parked = project("tickets")
    assert "2 of 3 done · 1 working" in parked.out


def test_a_preset_is_a_team_for_it(bare: Cli) -> None:
    register_agents(bare)
    bare("team", "new", "crew", "--preset", "tickets", "--agents", "claude,codex")
    (told,) = bare("run", "--dry-run", "--json", "Add coupons").lines
    shown = [(one["member"], one["duty"], one["agent"]) for one in told["members"]]
    assert (told["workflow"], shown) == snapshot(
        (
            "tickets",
            [
                ("mira", "manager", "claude"),
                ("wren", "worker", "codex"),
                ("finn", "worker", "claude"),
            ],
        )
    )
