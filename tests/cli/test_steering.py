"""Inspecting and steering tasks from other processes, in this project and in others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, ForkedCommand, normalize
from tests.conftest import init_project


@contextmanager
def running(cli: Cli) -> Iterator[tuple[ForkedCommand, str]]:
    """A chat whose second member never ends its turn, and its task's id."""
    with cli.start("chat", "--json", "rex-hangs") as child:
        child.until('"member":"rex","state":"working"')
        try:
            yield child, cli("tasks", "--json").lines[-1]["id"]
        finally:
            child.terminate()


def normalize_output(text: str, task: str) -> str:
    return normalize(text).replace(task, "k3f9")


def test_tasks_show_and_log(cli: Cli) -> None:
    cli.team("ada", "rex")
    task = cli.task("hello there")
    assert normalize_output(cli("tasks").out, task) == snapshot(
        "  k3f9  completed  0.1s  hello there\n"
    )
    assert normalize_output(cli("show", task[:3]).out, task) == snapshot("""\
k3f9  chat  completed  2 turns
  goal     hello there
  why      every member has spoken
  summary  rex heard "ada heard 'hello there'"
  started  12:00
  updated  12:00
  team     pair
    ada  ada  .coterie/teams/pair/ada
    rex  rex  .coterie/teams/pair/rex
  next     coterie log k3f9
""")
    # Entries of the same millisecond may appear in either order.
    log = sorted(normalize_output(cli("log", "last").out, task).splitlines())
    assert log == snapshot(
        [
            "  ada      ada  .coterie/teams/pair/ada",
            "  rex      rex  .coterie/teams/pair/rex",
            "12:00:00  ada      (0.1s)",
            "12:00:00  ada      ada heard 'hello there'",
            "12:00:00  coterie  task completed",
            "12:00:00  coterie  task created",
            "12:00:00  coterie  task running",
            "12:00:00  rex      (0.1s)",
            "12:00:00  rex      rex heard \"ada heard 'hello there'\"",
            "12:00:00  you      hello there",
            "k3f9  chat  hello there",
        ]
    )
    assert cli("logs", task).out == cli("log", task).out


def test_log_as_objects(cli: Cli) -> None:
    cli.team("ada")
    task = cli.task("hello")
    kinds = [line["type"] for line in cli("log", task, "--json").lines]
    assert sorted(kinds) == ["message", "message", "task", "task", "task"]


def test_a_running_task_is_seen_followed_and_stopped(cli: Cli) -> None:
    cli.team("ada", "rex")
    with running(cli) as (child, task):
        (rex,) = [one for one in cli("ps", "--json").of("member") if one["member"] == "rex"]
        assert rex["state"] == "working"
        assert rex["label"] == "rex-rex"
        assert rex["folder"].endswith(".coterie/teams/pair/rex")
        assert "Available agents: coterie agents" in cli("ps").out
        assert f"Running  {task}" in cli().out
        with cli.start("log", task, "--follow") as follower, cli.start("resume", task) as second:
            assert "Following it" in second.err.readline()
            follower.until("ada heard")
            assert cli("say", task, "be quick").out == "It will be read after the current turn.\n"
            stopped = cli("stop", task)
            assert (stopped.out, stopped.code) == (f"Parked: coterie resume {task}\n", 0)
            assert "It is not running." in follower.out.read()
            assert (follower.wait(30), second.wait(30)) == (0, 130)
            assert "you stopped it; nothing is lost" in second.out.read()
        assert child.wait(30) == 130
    assert cli("stop", task).out == f"{task} is not running.  coterie resume {task}\n"


def test_cancel_is_final_and_asks(cli: Cli) -> None:
    cli.team("ada", "you")
    task = cli.task("hello")
    refused = cli("cancel", task)
    assert refused.code == 2
    assert normalize_output(refused.err, task) == snapshot("""\
! cancel is final, and there is no terminal to ask on.
  coterie cancel k3f9 --yes, or coterie stop k3f9 to keep it
""")
    assert cli("cancel", task, "--yes").out == f"Canceled {task}.\n"
    assert cli("resume", task).code == 1
    assert cli("cancel", task, "--yes").code == 2
    assert cli("say", task, "hello?").code == 2


def test_cancel_of_a_running_task_ends_it(cli: Cli) -> None:
    cli.team("ada", "rex")
    with running(cli) as (child, task):
        assert cli("cancel", task, "--yes").code == 0
        assert child.wait(30) == 1


def test_what_is_over_is_not_resumed_and_says_what_it_was(cli: Cli) -> None:
    cli.team("ada", "rex")
    task = cli.task("hello there")
    (result,) = cli("resume", "--json", task).of("result")
    assert (result["status"], result["reason"], result["turns"]) == ("completed", "max_rounds", 2)


def test_resume_alone_takes_the_only_one_or_lists_them(cli: Cli) -> None:
    cli.team("ada", "you")
    assert cli("resume").out.startswith("Nothing has been done")
    first, second = cli.task("one"), cli.task("two")
    ran = cli("resume")
    assert ran.code == 2
    assert re.sub(rf"{first}|{second}", "k3f9", normalize(ran.err)) == snapshot("""\
! Which one? Unfinished tasks:
    k3f9  waiting for q1  0.1s  one
    k3f9  waiting for q2  0.1s  two
  coterie resume k3f9
""")
    cli("cancel", first, "--yes")
    assert cli("resume", "--json").lines[-1]["task"] == second
    cli("cancel", second, "--yes")
    assert cli("resume").code == 2


def test_a_failing_member_is_asked_about(cli: Cli) -> None:
    cli.team("ada", "rex")
    assert cli("chat", "ada-fails now").code == 3
    shown = cli("inbox").out
    assert re.sub(r"[a-z][a-z0-9]{3}(?= ada-fails)", "k3f9", normalize(shown)) == snapshot("""\
 ▲ q1  ada (ada) asks · k3f9 ada-fails now · waiting 0.1s
     ada cannot speak (turn 1)
     the agent exited with code 3 before finishing its reply

         stream disconnected
     1 retry         try again
     2 skip          skip ada this time
     3 replace-rex   let rex take ada's turns
     4 stop          stop for now
     coterie answer q1 retry|skip|replace-rex|stop

""")
    wrong = cli("answer", "q1", "maybe")
    assert wrong.code == 2
    assert normalize(wrong.err) == snapshot("""\
! q1 has no choice "maybe"; it has: retry, skip, replace-rex, stop.
  coterie show q1
""")
    assert cli("answer", "q1", "2").out.startswith("q1 answered: skip\n")
    assert cli("resume").code == 0
    assert cli("inbox").out == "Nothing is waiting for you.\n"
    shown = cli("show", "q1").out
    assert normalize(shown.splitlines()[-1]) == snapshot('answered at 12:00 by you: "skip"')


@pytest.fixture
def elsewhere(cli: Cli) -> Path:
    """Another project, with a question waiting."""
    folder = cli.user.project.parent / "elsewhere"
    folder.mkdir()
    cli.team("ada", "you", project=folder)
    assert cli("chat", "over there", cwd=folder).code == 3
    return folder


def test_the_inbox_covers_every_project(cli: Cli, elsewhere: Path) -> None:
    (line,) = cli("inbox", "--json").of("interaction")
    assert (line["id"], line["project"]) == ("q1", str(elsewhere))
    assert f"coterie answer -C {elsewhere} q1 --say" in cli("inbox").out
    assert cli("answer", "q1", "/end").code == 0  # there is no other q1
    assert cli("inbox").out == "Nothing is waiting for you.\n"


def test_the_inbox_opens_anywhere(cli: Cli, elsewhere: Path) -> None:
    home = cli.user.home
    assert f"answer -C {elsewhere} q1" in cli("inbox", cwd=home).out
    assert "Waiting  q1  your turn\n" in cli(cwd=home).out
    assert cli("answer", "q1", "--say", "/end", cwd=home).code == 0


def test_an_answer_never_slips_into_another_project(cli: Cli, elsewhere: Path) -> None:
    cli.team("ada", "you")
    assert cli("chat", "over here").code == 3
    assert cli("answer", "q1", "--say", "/end").code == 0
    late = cli("answer", "q1", "--say", "me too")
    assert late.code == 2
    assert "Your answer was not used." in late.err
    assert [line["project"] for line in cli("inbox", "--json").lines] == [str(elsewhere)]


def test_a_name_for_two_questions_is_refused(cli: Cli, elsewhere: Path) -> None:
    third = elsewhere.parent / "third"
    third.mkdir()
    cli.team("ada", "you", project=third)
    assert cli("chat", "there too", cwd=third).code == 3
    ran = cli("answer", "q1", "--say", "which?")
    assert ran.code == 2
    assert "-C DIR" in ran.err
    assert len(cli("inbox", "--json").lines) == 2


def test_several_questions_at_once(cli: Cli) -> None:
    cli.team("ada", "rex")
    assert cli("chat", "ada-fails 1").code == cli("chat", "ada-fails 2").code == 3
    ran = cli("answer", "q1", "q2", "q7", "skip", "--json")
    assert ran.code == 2
    assert [line["type"] for line in ran.lines] == ["interaction", "interaction", "error"]
    assert cli("inbox").out == "Nothing is waiting for you.\n"


def test_one_broken_project_does_not_hide_the_others(cli: Cli, elsewhere: Path) -> None:
    (init_project(cli.user.project) / "coterie.db").write_bytes(b"no database at all" * 300)
    ran = cli("inbox")
    assert ran.code == 0
    assert "q1" in ran.out
    assert ran.err.startswith("! ")
