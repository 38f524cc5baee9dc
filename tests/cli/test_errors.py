"""Errors: what happened, where, and what to paste, on stderr or as an object; and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, normalize


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            ["docter"],
            snapshot("""\
! Unknown command "docter". Did you mean doctor?
  coterie doctor
"""),
        ),
        (
            ["hello"],
            snapshot("""\
! Unknown command "hello".
  To send it to your team:  coterie chat "hello"
"""),
        ),
        (
            ["fix", "this", "now"],
            snapshot("""\
! Unknown command "fix".
  To send it to your team, quote it:  coterie "fix this now"
"""),
        ),
        (
            [""],
            snapshot("""\
! No command given.
  coterie help
"""),
        ),
        (
            ["chat", "--frobnicate"],
            snapshot("""\
! No such option '--frobnicate'.
  coterie chat --help
"""),
        ),
        (
            ["chat", "--max-turns", "0", "hello"],
            snapshot("""\
! Invalid value for '--max-turns': 0 is not in the range x>=1.
  coterie chat --help
"""),
        ),
        (
            ["chat", "--wait", "soon", "hello"],
            snapshot("""\
! Invalid value for '--wait': 'soon' is not a duration; write it like 90s, 30m or 1h30m.
  coterie chat --help
"""),
        ),
        (
            ["chat", "-t", "a", "--agents", "b", "hello"],
            snapshot("""\
! --team and --agents cannot be combined.
  Give one of them.
"""),
        ),
        (
            ["chat"],
            snapshot("""\
! No message given.
  coterie chat "what the team should do"
"""),
        ),
        (
            ["chat", "  "],
            snapshot("""\
! No message given.
  coterie chat "what the team should do"
"""),
        ),
        (
            ["chat", "-t", "pear", "hello"],
            snapshot('! No team "pear". Here: pair. Did you mean pair?\n'),
        ),
        (
            ["chat", "--agents", "nobody", "hello"],
            snapshot("""\
! --agents: nobody.agent is "nobody"; known: ada, rex, cy, builtin.
  coterie agents scan
"""),
        ),
        (["show", "k3f9"], snapshot('! No "k3f9": nothing has been done in /project yet.\n')),
        (
            ["answer"],
            snapshot("""\
! Missing argument 'Q… [CHOICE]'.
  coterie answer --help
"""),
        ),
        (
            ["answer", "q1"],
            snapshot("""\
! No answer given.
  coterie show q1
"""),
        ),
        (
            ["answer", "yes", "q1"],
            snapshot("""\
! Give the questions first, then one choice.
  coterie answer q3 q4 once
"""),
        ),
        (
            ["answer", "q9", "yes"],
            snapshot("""\
! No question "q9" in any project.
  coterie inbox
"""),
        ),
        (["cancel", "k3f9"], snapshot('! No "k3f9": nothing has been done in /project yet.\n')),
        (
            ["-C", "nowhere", "tasks"],
            snapshot("""\
! Invalid value for '-C': Directory 'nowhere' does not exist.
  coterie --help
"""),
        ),
        (
            ["help", "frobnicate"],
            snapshot("""\
! Unknown command "frobnicate".
  To send it to your team:  coterie chat "frobnicate"
"""),
        ),
        (["team", "validate", "nope"], snapshot('! No team "nope". Here: pair.\n')),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_to_do(cli: Cli, words: list[str], shown: str) -> None:
    cli.team("ada", "rex")
    ran = cli(*words)
    assert (ran.out, ran.code) == ("", 2)
    assert normalize(ran.err) == shown


def test_the_same_as_an_object(cli: Cli) -> None:
    ran = cli("chat", "--json", "-t", "pear", "hello")
    assert (ran.err, ran.code) == ("", 2)
    (line,) = ran.lines
    assert isinstance(line.pop("at"), str)
    assert line == snapshot(
        {
            "type": "error",
            "seq": 1,
            "code": "not_found",
            "message": 'No team "pear". Here: none.',
            "hint": "coterie team new pear --agents claude,codex",
            "member": None,
            "where": None,
        }
    )


def test_a_home_folder_is_no_project(cli: Cli) -> None:
    ran = cli("chat", "hello there", cwd=cli.user.home)
    assert ran.code == 2
    assert ran.shown == snapshot("""\
! A project cannot be your home folder.
  in /home
  cd into a project, or name one: -C DIR
""")
    assert cli(cwd=cli.user.home).code == 0


def test_a_team_file_with_mistakes_names_them_all(cli: Cli) -> None:
    path = cli.team("ada", "rex")
    path.write_text(
        '{"members": [\n {"id": "ada", "agent": "ad"},\n {"id": "rex", "agnt": "rex"}]}'
    )
    ran = cli("chat", "hello")
    assert (ran.out, ran.code) == ("", 2)
    assert normalize(ran.err) == snapshot("""\
! .coterie/teams/pair/team.json:2 members[0].agent is "ad"; known: ada, rex, cy, builtin. Did you mean ada?
  .coterie/teams/pair/team.json:3 members[1].agnt is not a known key. Did you mean agent?
""")  # noqa: E501


def test_a_look_where_nothing_was_done_writes_nothing(bare: Cli) -> None:
    for verb in ("tasks", "ps", "inbox", "team", "agents", "config", "resume"):
        assert bare(verb).code == 0
    assert list(bare.user.project.iterdir()) == []
    assert not bare.user.coterie_home.exists()
    assert bare("tasks").shown == snapshot("""\
Nothing has been done in /project yet.
Start:  coterie "what the team should do"
""")


def test_a_wrong_team_leaves_no_project_behind(cli: Cli) -> None:
    assert cli("chat", "--agents", "nobody", "hello").code == 2
    assert list(cli.user.project.iterdir()) == []


def test_a_team_from_elsewhere_is_looked_at_first(cli: Cli) -> None:
    path = cli.user.project / "team.json"
    entry = {"id": "ada", "agent": "ada", "additionalArgs": ["--fast"]}
    path.write_text(json.dumps({"members": [entry]}))
    ran = cli("chat", "-t", "./team.json", "hello")
    assert (ran.out, ran.code) == ("", 2)
    assert normalize(ran.err) == snapshot("""\
! team.json asks for powers that you have not reviewed (ada: additionalArgs).
  coterie team trust team.json
""")
    assert cli("team", "trust", "./team.json").code == 0
    assert cli("chat", "-t", "./team.json", "hello").code == 0


def test_a_reader_who_has_seen_enough(cli: Cli) -> None:
    cli.team("ada")
    task = cli.task("hello")
    with cli.launch("log", task) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert (child.stderr.read(), child.wait(30)) == ("", 0)


def test_no_stdout_at_all(cli: Cli) -> None:
    command = f"exec {sys.executable} -m coterie agents >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_full_disk_behind_stdout(cli: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        for words in (["agents"], ["agents", "--json"], ["--help"]):
            done = subprocess.run(
                [sys.executable, "-m", "coterie", *words],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert done.returncode == 1
            assert "No space left on device" in done.stderr
            assert "Traceback" not in done.stderr


BROKEN = (
    "import coterie.cli.tasks as tasks; tasks.run_in_project = None; "
    "from coterie.cli.main import run; "
)


def test_what_nobody_foresaw_is_our_bug(bare: Cli) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        code = f"{BROKEN} raise SystemExit(run({list(words)!r}))"
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )

    told = run("tasks")
    assert (told.stdout, told.stderr, told.returncode) == snapshot(
        (
            "",
            """\
! TypeError: 'NoneType' object is not callable (this is a bug in Coterie).
  Run it again with --debug and report what it prints.
""",
            1,
        )
    )
    assert "Traceback" in run("tasks", "--debug").stderr
    assert json.loads(run("tasks", "--json").stdout)["code"] == "bug"


def test_output_is_ascii_where_nothing_else_can_be_shown(cli: Cli) -> None:
    cli.team("ada", "you")
    plain = Cli(cli.user, {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"})
    ran = plain("chat", "how do you do — well?")
    assert ran.code == 3
    assert ran.out.isascii()
    assert "! q1  your turn" in ran.out


def test_an_unwritable_project(cli: Cli) -> None:
    if os.geteuid() == 0:
        folder = Path("/proc/self")  # not even root can write there
    else:
        folder = cli.user.project
        folder.chmod(0o500)
    ran = cli("-C", str(folder), "chat", "--agents", "ada", "hello")
    assert ran.code in (1, 2)
    assert "cannot be written" in ran.err or "Writing failed" in ran.err
    assert "Traceback" not in ran.err
