"""Problems that once cost users five minutes each: odd names, odd input, odd project states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli
from tests.cli.ticket_project import TicketProject, git, register_agents

LATIN = "caf\udce9 est ferm\udce9"
"""Text that is not UTF-8, as Python decodes it."""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_traceback(cli: Cli, closed: str) -> None:
    command = f'"$0" -m coterie do --agent ada "be quick" {closed}'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, "Traceback" in ran.stderr, "bug" in ran.stderr) == (0, False, False)
    assert cli("tasks", "--json").of("task")[0]["status"] == "completed"


def test_without_a_message_on_a_closed_stdin_nothing_is_begun(cli: Cli) -> None:
    command = '"$0" -m coterie do --agent ada <&-'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == snapshot(
        (2, '! No message given.\n  coterie do "what should be done"\n')
    )


@pytest.mark.parametrize("words", [("chat", "--agents", "ada"), ("do", "--agent", "ada")])
def test_a_message_that_is_not_utf_8_is_delivered(cli: Cli, words: tuple[str, ...]) -> None:
    piped = cli(*words, stdin=LATIN)
    assert (piped.code, "caf<0xE9> est ferm<0xE9>" in piped.out) == (0, True)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.write_bytes(b"one\ncaf\xe9"), ".coterie/prompts/plan.md:2 is not UTF-8"),
        (Path.mkdir, ".coterie/prompts/plan.md cannot be read: Is a directory."),
    ],
)
def test_a_prompt_file_that_cannot_be_read_is_named(bare: Cli, make: object, problem: str) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    prompt = project.root / ".coterie" / "prompts" / "plan.md"
    prompt.parent.mkdir()
    assert callable(make)
    make(prompt)
    ran = project("run", "Add coupons")
    assert (ran.code, problem in ran.err, "bug" in ran.err) == (2, True, False)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"id": "you", "agent": "ada"}, 'id is "you", which is the person at the terminal'),
        ({"id": "You", "agent": "ada"}, 'id is "You", which is the person at the terminal'),
        ({"id": "a", "agent": "ada", "displayName": "you"}, 'displayName is "you", which is the'),
        ({"id": "coterie"}, 'id is "coterie", which is reserved for Coterie'),
    ],
)
def test_a_name_that_means_somebody_else_is_refused(
    cli: Cli, entry: dict[str, str], problem: str
) -> None:
    path = cli.team("ada")
    path.write_text(json.dumps({"members": [{"id": "rex", "agent": "rex"}, entry]}))
    checked = cli("team", "validate")
    assert (checked.code, f"members[1].{problem}" in checked.err) == (2, True)


def test_nobody_can_be_made_you_by_another_way(cli: Cli) -> None:
    cli.team("ada", "you")
    assert cli("team", "validate").code == 0, "a human may be called so"
    assert cli("chat", "--agents", "you=ada", "hi").code == 2
    assert cli("team", "add", "You", "--agent", "rex").code == 2


def test_a_member_is_found_by_any_name_in_any_script(cli: Cli) -> None:
    entries = [
        {"id": "ada", "agent": "ada"},
        {"id": "lilei", "agent": "rex", "displayName": "李雷"},
    ]
    cli.team("ada").write_text(json.dumps({"members": entries}))
    ran = cli("chat", "--json", "--max-turns", "1", "请@李雷看看这个")
    said = [line["member"] for line in ran.of("message")]
    assert (said[-1], ran.of("error")) == ("lilei", [])


def test_the_doctor_finds_what_would_be_started(cli: Cli) -> None:
    registry = cli.user.coterie_home / "agents" / "config.json"
    tools = cli.user.home / "tools"
    tools.mkdir()
    (tools / "mytool").symlink_to(sys.executable)
    entries = json.loads(registry.read_text())["agents"]
    generic = {**entries["ada"], "adapter": "generic"}
    agents = {
        "mine": {**generic, "command": "mytool", "env": {"PATH": f"{tools}:/usr/bin:/bin"}},
        "builtin": generic,
        "brain": {"command": "none", "adapter": "builtin"},
        "gone": {"command": "/nowhere/at-all"},
    }
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    found = {
        one["name"]: (one["state"], one["ready"]) for one in cli("doctor", "--json").of("agent")
    }
    assert {name: found[name] for name in agents} == snapshot(
        {
            "mine": ("ready", True),
            "builtin": ("ready", True),
            "brain": ("no model key", False),
            "gone": ("not installed", False),
        }
    )
    assert cli("do", "--agent", "mine", "hi").code == 0


def test_a_file_name_that_is_no_text_is_worked_on_like_any_other(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    assert project("run", "--yes", "Add coupons odd-name").code == 0
    assert "caf<0xE9>.txt  +1  -0" in project("diff", "last", "--stat").out
    assert project("accept", "last").code == 0
    assert Path(os.fsdecode(bytes(project.root) + b"/caf\xe9.txt")).read_text() == "closed\n"
    assert "caf<0xE9>.txt" in project("revert", "last").out


def test_an_answer_that_is_not_utf_8_is_taken(cli: Cli) -> None:
    cli.team("ada", "you")
    cli("chat", "hello")
    answered = cli("answer", "q1", "--say", LATIN)
    assert (answered.code, "bug" in answered.err) == (0, False)
    assert cli("resume", "last").code in (0, 3)
    assert "0xE9> est" in cli("log", "last").out


def test_work_in_a_submodule_is_refused_by_name(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(retries=0, replans=0)
    library = project.root.parent / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    git(library, "commit", "-q", "--allow-empty", "-m", "begin")
    git(
        project.root,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        str(library),
        "lib",
    )
    git(project.root, "commit", "-qm", "a library")
    ran = project("run", "--yes", "Add coupons in-submodule")
    assert (ran.code, "lib is a submodule, whose files a commit does not contain" in ran.out) == (
        3,
        True,
    )
    assert "green" not in ran.out.rpartition("T3")[2]


def test_a_session_that_the_database_does_not_know_is_reported(cli: Cli) -> None:
    assert cli("do", "--agent", "ada", "it").code == 0
    assert cli("audit", "--verify").code == 0
    left = cli.user.project / ".coterie" / "logs" / "k3f9" / "000001-plan.json"
    left.parent.mkdir()
    left.write_text("{}")
    checked = cli("audit", "--verify")
    assert (checked.code, "logs/k3f9 belongs to a session that" in checked.err) == (1, True)


def test_a_database_that_is_gone_is_not_an_empty_project(cli: Cli) -> None:
    cli.task("--agents", "ada", "hello")
    for path in (cli.user.project / ".coterie").glob("coterie.db*"):
        path.unlink()
    for words in (("audit", "--verify"), ("tasks",), ("log", "last")):
        ran = cli(*words)
        assert (ran.code, "the database is gone, and it held 3 events" in ran.err) == (1, True)
    database = next(one for one in cli("doctor", "--json").of("check") if one["name"] == "database")
    assert not database["ok"]


def test_a_moved_project_is_reported_and_adopted(cli: Cli, tmp_path: Path) -> None:
    cli.team("ada", "you")
    cli("chat", "hello")
    moved, elsewhere = tmp_path / "moved", tmp_path / "elsewhere"
    elsewhere.mkdir()
    cli.user.project.rename(moved)
    lost = cli("inbox", cwd=elsewhere)
    assert f"is now {moved}" in lost.err
    assert f"coterie project adopt -C {moved}" in lost.err
    cli("project", "adopt", "-C", str(moved), cwd=elsewhere)
    back = cli("inbox", cwd=elsewhere)
    assert ("q1" in back.out, back.err) == (True, "")
    moved.rename(elsewhere / "again")
    hidden = cli("inbox", cwd=tmp_path / "home")
    assert f"coterie project forget {moved}" in hidden.err
    assert cli("project", "forget", "../moved", cwd=elsewhere).code == 0
    assert cli("inbox", cwd=elsewhere).err == ""
    assert cli("project", "forget", str(moved), cwd=elsewhere).code == 2


@pytest.mark.parametrize("place", ["elsewhere", "home"])
def test_a_task_of_another_project_is_found_by_its_id(cli: Cli, tmp_path: Path, place: str) -> None:
    cli.team("ada", "you")
    task = cli.task("hello")
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    for words in (("stop",), ("show",), ("log",), ("cost",), ("audit",), ("cancel", "--yes")):
        ran = cli(words[0], task, *words[1:], cwd=folder)
        assert (ran.code, ran.err) == (0, f"In {cli.user.project}:\n")
    assert cli("tasks", "--json").of("task")[0]["status"] == "canceled"
    assert cli("stop", "last", cwd=folder).code == 2
    assert cli("stop", task, "-C", str(tmp_path / "elsewhere"), cwd=cli.user.project).code == 2


def test_the_result_of_a_session_says_what_it_changed(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    result = project("run", "--yes", "--json", "Add coupons").lines[-1]
    assert result["changed"] == ["T1.py +1 -0", "T2.py +1 -0", "form.py +1 -0"]


def test_a_session_that_nobody_runs_is_not_called_running(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    with project.cli.start("run", "--yes", "Add coupons hangs") as started:
        started.until("T3  wren starts")
        started.kill()
    assert project.normalized(project("accept", "last")) == snapshot("""\
! Not accepted: k3f9 is parked, not completed.
  coterie resume k3f9
""")


def test_the_log_names_who_worked_at_the_time(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up(replans=0)
    project("run", "--yes", "Add coupons dies")
    moved = [one for one in project("log", "last", "--json").of("ticket") if one["id"] == "T3"]
    assert [(one["state"], one["owner"]) for one in moved] == snapshot(
        [
            ("pending", None),
            ("in_progress", "wren"),
            ("blocked", "wren"),
            ("in_progress", "finn"),
            ("blocked", "finn"),
            ("in_progress", "wren"),
            ("blocked", "wren"),
            ("error", "wren"),
        ]
    )


def test_a_newer_plan_takes_the_place_of_the_question_about_the_last(bare: Cli) -> None:
    project = TicketProject(register_agents(bare)).set_up()
    project("run", "Add coupons")
    project("answer", "q1", "approve")
    project("say", "last", "drop the form")
    with project.cli.start("resume", "last", "--wait", "30s") as started:
        started.until("q2")
        project("say", "last", "and be quick")
        started.until("be quick")
        started.kill()
    project("resume", "last")
    (asked,) = project("inbox", "--json").of("interaction")
    assert asked["about"]["kind"] == "plan_approval"
    late = project("answer", "q2", "approve")
    assert (late.code, "there is a newer plan" in late.err) == (2, True)


def test_what_a_kill_left_among_the_files_is_cleaned(cli: Cli) -> None:
    cli.task("--agents", "ada", "hello")
    left, young = (cli.user.project / f".coterie-{letter * 12}" for letter in "ab")
    left.write_text("half")
    young.write_text("half")
    os.utime(left, (0, 0))
    cleaned = cli("clean", "--yes", "--only", "draft", "--json")
    assert [one["name"] for one in cleaned.of("leftover")] == [left.name]
    assert (left.exists(), young.exists()) == (False, True)
