"""`coterie do`: one member, one job."""

from __future__ import annotations

import json
import re

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, normalize


def without_task_id(text: str) -> str:
    return re.sub(
        r"\b(Done|Waiting|resume|log)(  ?)[a-z][a-z0-9]{3}\b", r"\1\2k3f9", normalize(text)
    )


def test_the_first_member_does_it(cli: Cli) -> None:
    cli.team("you", "ada", "rex")
    ran = cli("do", "make", "it", "fast")
    assert (ran.err, ran.code) == ("", 0)
    assert without_task_id(ran.out) == snapshot("""\

 you   make it fast

 ada   ada
       ada heard 'make it fast'
                                                                            0.1s

Done  k3f9 · 1 turn · 0.1s
  next     coterie log k3f9
""")


@pytest.mark.parametrize(
    ("words", "member", "text"),
    [
        (["--as", "rex", "look"], "rex", "rex heard 'look'"),
        (["-t", "pair", "--as", "Rex", "look"], "rex", "rex heard 'look'"),
        (["--agent", "cy", "look"], "cy", "cy heard 'look'"),
    ],
)
def test_who_does_it(cli: Cli, words: list[str], member: str, text: str) -> None:
    cli.team("ada", "rex")
    ran = cli("do", "--json", *words)
    assert ran.code == 0
    assert ran.of("task")[0]["workflow"] == "solo"
    (said,) = ran.of("message")
    assert (said["member"], said["text"]) == (member, text)
    result = ran.lines[-1]
    assert (result["type"], result["status"], result["reason"]) == ("result", "completed", "done")


def test_an_agent_needs_no_team(cli: Cli) -> None:
    ran = cli("do", "--agent", "ada", "look around")
    assert ran.code == 0
    assert "ada heard 'look around'" in ran.out


def test_a_goal_may_be_piped_in(cli: Cli) -> None:
    cli.team("ada")
    assert cli("do", "--json", stdin="from a pipe\n").of("message")[0]["text"] == (
        "ada heard 'from a pipe'"
    )


def test_a_failing_agent_asks_and_resume_goes_on(cli: Cli) -> None:
    cli.team("ada", "rex")
    assert cli("do", "ada-fails now").code == 3
    assert cli("answer", "q1", "skip").code == 0
    done = cli("resume", "--json")
    result = done.lines[-1]
    assert (done.code, result["status"], result["reason"]) == (1, "failed", "skipped")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--agent", "ada", "--as", "rex", "x"],
            snapshot("""\
! --agent cannot be combined with -t or --as.
  Give --agent, or -t and --as.
"""),
        ),
        (
            ["--as", "nobody", "x"],
            snapshot('! No member "nobody" in team pair. Here: ada, rex, you.\n'),
        ),
        (
            ["--as", "you", "x"],
            snapshot("""\
! you is a human: only a member with an agent can do a job.
  coterie team show
"""),
        ),
        (
            ["--agent", "ada,rex", "x"],
            snapshot("""\
! --agent takes one agent.
  --agent claude, or --agent claude:opus
"""),
        ),
        (
            ["--agent", "codx", "x"],
            snapshot("""\
! --agent: codx.agent is "codx"; known: ada, rex, cy, builtin.
  coterie agents scan
"""),
        ),
        (
            ["--agent", "my agent", "x"],
            snapshot("""\
! "my agent" in --agent is not understood.
  Write it like --agent claude or --agent claude:opus
"""),
        ),
        (
            ["--agent", "ada"],
            snapshot("""\
! No message given.
  coterie do "what should be done"
"""),
        ),
    ],
)
def test_what_cannot_be(cli: Cli, words: list[str], told: str) -> None:
    cli.team("ada", "rex", "you")
    ran = cli("do", *words)
    assert (ran.out, ran.code) == ("", 2)
    assert normalize(ran.err) == told


def test_without_a_team_it_says_what_to_type(cli: Cli) -> None:
    ran = cli("do", "make it fast")
    assert (ran.code, ran.err) == snapshot(
        (
            2,
            """\
! There is no team here yet.
  coterie init, or --agent claude
""",
        )
    )
    assert cli("team", "add", "rex").err == snapshot("""\
! There is no team here yet.
  coterie init, or coterie team new NAME
""")
    assert not (cli.user.project / ".coterie").exists()


def test_a_budget_refuses_the_next_turn_and_asks(cli: Cli) -> None:
    path = cli.team("ada", "rex")
    team = json.loads(path.read_text())
    path.write_text(json.dumps({**team, "budget": {"turns": 1}}))
    assert "  budget 1 turns\n" in cli("team", "show").out
    ran = cli("chat", "hello there")
    assert ran.code == 3
    assert "rex heard" not in ran.out
    asked = ran.out[ran.out.index(" ▲ q1") :]
    assert without_task_id(re.sub(r"\w{4} used", "k3f9 used", asked)) == snapshot("""\
 ▲ q1  coterie asks
     k3f9 used 1 of 1 turns
     The next call was not made. How much more, such as +5, or stop?
     coterie answer q1 +5

Waiting  k3f9 · 1 turn · 0.1s
  why      a question is waiting for your answer
  next     coterie inbox · coterie resume k3f9
""")
    refused = cli("answer", "q1", "lots")
    assert (refused.code, refused.err) == snapshot(
        (
            2,
            """\
! q1 needs an amount such as +5, or stop. It stays open.
  coterie show q1
""",
        )
    )
    assert cli("answer", "q1", "+5").code == 0
    done = cli("resume", "--json")
    assert (done.code, done.lines[-1]["reason"]) == (0, "max_rounds")
