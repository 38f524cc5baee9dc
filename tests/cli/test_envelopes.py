"""What is kept of a session: its envelopes, the user's decisions, and who may do what."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, CommandResult
from tests.cli.ticket_project import MEMBERS, TicketProject, register_agents
from tests.conftest import init_project


@pytest.fixture
def project(bare: Cli) -> TicketProject:
    return TicketProject(register_agents(bare)).set_up()


def envelopes(project: TicketProject) -> list[dict[str, Any]]:
    """Every envelope of the only session, as stored in its file."""
    (log,) = (project.root / ".coterie" / "logs").glob("*/events.log")
    return [json.loads(path.read_text()) for path in sorted(log.parent.glob("*.json"))]


def team(project: TicketProject, **capabilities: str) -> None:
    """Write the team with these members' capabilities."""
    path = project.root / ".coterie" / "teams" / "crew" / "team.json"
    members = [
        {"id": name, "agent": agent, "capabilities": [capabilities[name]]}
        if name in capabilities
        else {"id": name, "agent": agent}
        for name, agent in MEMBERS.items()
    ]
    path.write_text(json.dumps({"members": members}))


def test_the_user_confirms_the_report_and_a_plan_they_send_back_is_kept(
    project: TicketProject,
) -> None:
    assert project("run", "Add coupons only-one").code == 3
    assert project("answer", "q1", "change", "--say", "and a footer").code == 0
    assert project("resume", "last").code == 3
    assert project("answer", "q2", "approve").code == 0
    parked = project("resume", "last", "--json")
    assert parked.code == 3
    (asked,) = parked.of("interaction")[-1:]
    assert asked["title"] == "The final report: 2 done; no check was run"
    first = json.loads(asked["content"])[0]
    assert first == {
        "ticket": "T1",
        "state": "done",
        "who": "wren",
        "what": "Form",
        "checks": "none",
    }
    readable = next((project.root / ".coterie" / "sessions").glob("*/final_report.md"))
    assert "| T1 | done | wren | Form |" in readable.read_text()
    assert [one["id"] for one in asked["options"]] == ["approve", "change", "stop", "T1", "T2"]
    assert "is waiting, not completed" in project("accept", "last").err
    # Not what the user wanted: the manager changes the plan, and the user is asked about it.
    assert project("answer", asked["id"], "change", "--say", "drop the form").code == 0
    again = project("resume", "last", "--json")
    assert again.code == 3
    assert again.of("interaction")[-1]["title"].startswith("Changed plan with ")
    assert project("answer", again.of("interaction")[-1]["id"], "approve").code == 0
    report = project("resume", "last", "--json").of("interaction")[-1]
    assert report["title"].startswith("The final report: ")
    # Stopped here, the session asks about the report again; nothing is lost.
    assert project("answer", report["id"], "stop").code == 0
    stopped = project("resume", "last", "--json").of("interaction")[-1]
    assert project("answer", stopped["id"], "approve", "--say", "Thanks").code == 0
    assert project("resume", "last").code == 0
    said = envelopes(project)
    plans = [(one["source"], one["target"]) for one in said if one["payload_type"] == "plan"]
    assert plans == [("mira", "you"), ("mira", "coterie"), ("mira", "coterie")]
    reviews = [
        (one["source"], one["payload"]["decision"], one["payload"]["notes"])
        for one in said
        if one["payload_type"] == "review" and one["source"] == "you"
    ]
    assert reviews == [
        ("you", "changes_requested", "and a footer"),
        ("you", "changes_requested", "drop the form"),
        ("you", "approved", "Thanks"),
    ]
    assert project("accept", "last").code == 0


def test_yes_confirms_and_done_says_that_no_check_was_run(project: TicketProject) -> None:
    ran = project("run", "--yes", "Add coupons only-one")
    assert ran.code == 0
    assert "T1  done: approved and merged; no check was run" in ran.out
    assert " 1 done\n" in ran.out
    assert "CHECKED       nothing: no check was run" in ran.out
    assert "checked  nothing: no check was run" in project("show", "last/T1").out
    assert "summary  1 done; no check was run" in project("show", "last").out
    (folder,) = (project.root / ".coterie" / "sessions").iterdir()
    report = json.loads((folder / "final_report.json").read_text())
    assert report["summary"] == "1 done; no check was run"
    assert (
        "## Checked by Coterie\n\nNothing: no check was run."
        in (folder / "final_report.md").read_text()
    )


def test_a_ticket_has_its_whole_history_in_every_envelope(project: TicketProject) -> None:
    assert project("run", "--yes", "Add coupons only-one sent-back").code == 0
    tickets = [one["payload"] for one in envelopes(project) if one["payload_type"] == "ticket"]
    histories = [[line["event"] for line in one["history"]] for one in tickets]
    whole = histories[-1]
    assert histories == [whole[:count] for count in range(1, len(whole) + 1)]
    assert whole == [
        "created",
        "in_progress",
        "awaiting_review",
        "in_progress",
        "awaiting_review",
        "done",
    ]
    shown = json.loads(project("show", "last/T1", "--json").out)
    assert [line["event"] for line in shown["history"]] == whole


def test_a_crash_never_gives_a_ticket_to_who_cannot_do_it(project: TicketProject) -> None:
    team(project, wren="coding", finn="research")
    ran = project("run", "--yes", "--json", "Add coupons only-one needs-coding dies")
    assert ran.code == 3
    assert {one["owner"] for one in ran.of("ticket")} == {None, "wren"}
    (asked,) = ran.of("interaction")
    assert asked["title"] == "T1 needs coding, and wren failed at it: Form dies"
    assert [one["id"] for one in asked["options"]] == ["retry", "give-finn", "plan", "stop"]
    assert project("answer", asked["id"], "retry").code == 0
    again = project("resume", "last", "--json")
    assert {one["owner"] for one in again.of("ticket")} == {"wren"}
    (asked,) = again.of("interaction")[-1:]
    assert project("answer", asked["id"], "give-finn").code == 0
    given = project("resume", "last", "--json")
    assert ("in_progress", "finn") in {(one["state"], one["owner"]) for one in given.of("ticket")}


def test_what_a_worker_wrote_to_stderr_is_kept_and_its_errors_say_where(
    project: TicketProject,
) -> None:
    config = project.root / ".coterie" / "scheduler_config.json"
    config.write_text('{"retries": 0, "replans": 0}')
    ran = project("run", "--yes", "--json", "Add coupons only-one dies")
    assert ran.code == 3
    errors = [one["payload"] for one in envelopes(project) if one["payload_type"] == "error"]
    folder = ".coterie/teams/crew/wren"
    assert errors[0]["message"].startswith(f"wren ({folder}): the agent exited with code 3")
    assert all(f"wren ({folder})" in one["message"] for one in errors)
    task = ran.lines[-1]["task"]
    (failed,) = (one for one in ran.of("error") if one["code"] == "turn_exit")
    assert (failed["member"], failed["where"]) == ("wren", str(project.root / folder))
    assert failed["hint"] == f"coterie show {task} --stderr wren"
    shown = project("show", "last", "--stderr", "wren")
    assert (shown.code, "Segmentation fault in libcoupon" in shown.out) == (0, True)
    (kept,) = project("show", f"{task}/T1", "--stderr", "--json").of("stderr")
    place = project.root / folder / f"{task}.stderr.log"
    assert (kept["member"], kept["path"]) == ("wren", str(place))
    assert "Segmentation fault" in place.read_text()
    assert project("show", "last", "--stderr", "mira").out == "mira wrote nothing to stderr.\n"
    nobody = project("show", "last", "--stderr", "max")
    assert (nobody.code, 'No member "max"' in nobody.err) == (2, True)


def test_a_worker_registers_an_artifact_and_nothing_that_is_not_its_own(
    project: TicketProject,
) -> None:
    assert project("run", "--yes", "Add coupons only-one registers").code == 0
    said = envelopes(project)
    (ref,) = (one for one in said if one["payload_type"] == "artifact_ref")
    assert ref["source"] == "wren"
    payload = ref["payload"]
    digest = hashlib.sha256(b"day,sold\n").hexdigest()
    assert payload == {
        "label": "sales",
        "uri": f"T1/{digest[:12]}-sales.csv",
        "digest": f"sha256:{digest}",
        "content_type": "text/csv",
        "size_bytes": 9,
        "description": "by day",
    }
    (task,) = {one["session_id"] for one in said}
    folder = project.root / ".coterie" / "sessions" / task / "artifacts"
    assert (folder / payload["uri"]).read_text() == "day,sold\n"
    (error,) = (one["payload"] for one in said if one["payload_type"] == "error")
    assert error["code"] == "artifact_wrong"
    assert "wren (.coterie/teams/crew/wren): " in error["message"]
    assert "artifact sales: text/csv · 9 bytes" in project("show", "last/T1").out
    report = json.loads((folder.parent / "final_report.json").read_text())
    assert [one["label"] for one in report["artifacts"]] == ["sales"]


def test_where_all_can_do_it_another_takes_over(project: TicketProject) -> None:
    team(project, wren="coding", finn="coding")
    config = project.root / ".coterie" / "scheduler_config.json"
    config.write_text('{"retries": 1, "replans": 0}')
    ran = project("run", "--yes", "--json", "Add coupons only-one needs-coding dies")
    owners = [one["owner"] for one in ran.of("ticket") if one["state"] == "in_progress"]
    assert owners == ["wren", "finn"]


def test_a_setting_bounds_how_often_a_worker_is_doubled(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(concurrency=3, instances=1)
    path = project.root / ".coterie" / "teams" / "crew" / "team.json"
    members = [
        {"id": "mira", "agent": "claude"},
        {"id": "wren", "agent": "codex", "supportsMultipleInstances": True},
    ]
    path.write_text(json.dumps({"members": members}))
    ran = project("run", "--yes", "--json", "Add coupons")
    assert ran.code == 0
    assert {one["owner"] for one in ran.of("ticket") if one["owner"]} == {"wren"}


SEED: dict[str, Any] = {
    "roles": [
        {
            "role_id": "manager_codex",
            "display_name": "Codex Manager CLI",
            "type": "manager",
            "cli_command": ["codex", "cli"],
            "capabilities": ["clarification", "planning", "review"],
            "supports_multiple_instances": False,
        },
        {
            "role_id": "worker_claude",
            "display_name": "Claude Worker CLI",
            "type": "worker",
            "cli_command": ["claude", "code", "cli"],
            "capabilities": ["research", "coding", "scraping"],
            "supports_multiple_instances": True,
            "metadata": {"rate_limit": {"turns_per_minute": 2}, "permissions": "read"},
        },
    ]
}


def test_a_role_file_of_the_design_is_read_and_what_cannot_be_held_is_refused(bare: Cli) -> None:
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = {name: {"command": name, "capabilities": {}} for name in ("codex", "claude")}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    path = init_project(bare.user.project) / "roles.json"
    path.write_text(json.dumps(SEED, indent=1))
    ran = bare("run", "--dry-run", "Add coupons")
    assert ran.code == 0
    assert "codex cli" not in ran.out
    assert "worker · claude · read" in ran.out
    assert 'manager_codex: "cli" in its cli_command is ignored' in ran.err
    assert 'worker_claude: "code cli" in its cli_command is ignored' in ran.err
    SEED["roles"][1]["metadata"] = {"network": "isolated", "auth_profile": "default_worker"}
    path.write_text(json.dumps(SEED, indent=1))
    refused = bare("run", "Add coupons")
    assert refused.code == 2
    assert re.findall(r"roles\[1\]\.metadata\.\w+", refused.err) == [
        "roles[1].metadata.network",
        "roles[1].metadata.auth_profile",
    ]


def test_a_role_runs_its_own_program_and_a_cli_only_as_the_registry_has_it(bare: Cli) -> None:
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    agents = {"tester": {"command": "python3", "baseArgs": ["tester.py"]}}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    path = init_project(bare.user.project) / "roles.json"

    def entered(wren: object) -> CommandResult:
        commands = {"mira": "python3 plan.py", "wren": wren, "finn": ["python3", "tester.py", "-v"]}
        roles = [
            {"role_id": name, "type": "worker" if name != "mira" else "manager", "cli_command": one}
            for name, one in commands.items()
        ]
        path.write_text(json.dumps({"roles": roles}))
        return bare("run", "--dry-run", "--json", "Add coupons")

    members = {one["member"]: one for one in entered("python3 code.py").of("dry_run")[0]["members"]}
    assert {
        name: (one["agent"], *map(os.path.basename, one["words"])) for name, one in members.items()
    } == snapshot(
        {
            "mira": ("python3", "python3", "plan.py"),
            "wren": ("python3-wren", "python3", "code.py"),
            "finn": ("tester", "python3", "tester.py", "-v"),
        }
    )
    (refused,) = entered(["codex", "cli"]).of("error")
    assert 'roles[1].cli_command is "codex"; known: ' in refused["message"]
    assert refused["hint"] == "coterie agents scan"
