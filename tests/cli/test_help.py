"""What the command line says about itself, and what that costs."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from inline_snapshot import snapshot

from coterie.cli.main import VERBS, Verbs
from tests.cli.command import Cli


def test_help_groups_what_works(bare: Cli) -> None:
    assert bare("--help").out == snapshot("""\
coterie: the coding agents you have, as one team

  Start    demo · doctor · init
  Work     chat   talk with a team            run  goal to tickets to checked work
           build  goal to a tested commit     do   one agent, one job
  Answer   inbox · answer · say
  Look     tasks · show · log · attach · diff · cost · audit · export · ps
  Steer    stop · resume · cancel · accept · revert · clean
  Set up   team · agents · config · serve · completion

  coterie "text" talks to your default team.   All: coterie help --all
""")
    assert bare("help").out == bare("--help").out == bare("-h").out


def test_alone_it_says_where_to_start(bare: Cli) -> None:
    ran = bare()
    assert (ran.out, ran.err, ran.code) == snapshot(
        (
            """\
Nothing here yet.   Look first:    coterie demo     (10 s, no login, no tokens)
                    Your agents:   coterie doctor
                    Start:         coterie init
""",
            "",
            0,
        )
    )


def test_the_long_help_names_every_verb(bare: Cli) -> None:
    shown = bare("help", "--all").out
    assert [verb for verb in VERBS if f"    {verb} " not in shown] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_the_options_of_all(bare: Cli, verb: str) -> None:
    ran = bare(verb, "--help")
    assert ran.code == 0
    for part in ("Example:  ", "--json", "--debug", "-C DIR"):
        assert part in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_what_may_be_left_out_stands_in_brackets(verb: str) -> None:
    verbs = Verbs("coterie")
    context = click.Context(verbs)
    found = verbs.get_command(context, verb)
    assert found is not None
    for one in found.params:
        if isinstance(one, click.Argument):
            assert one.make_metavar(context).startswith("[") == (not one.required)


def test_help_of_a_verb(bare: Cli) -> None:
    assert bare("help", "logs").out == snapshot("""\
Usage: coterie log [OPTIONS] [ID]

  What happened in a task or a ticket (k3f9/T2), in order; every line names
  the member.

  Without ID: the last task that you started.

Options:
  --store URL   The database that machines share (COTERIE_STORE).
  -C DIR        The project's folder.
  --json        Print one JSON object per line.
  --debug       Show a stack trace.
  -f, --follow  Keep printing until the task ends.
  -h, --help    Show this message and exit.

  Example:  coterie log last --follow
""")


def test_version(bare: Cli) -> None:
    assert bare("--version").out == snapshot("coterie 0.1.0\n")


def test_help_imports_nothing_heavy(bare: Cli) -> None:
    heavy = "pydantic prompt_toolkit anyio asyncio psutil sqlite3 json dataclasses traceback"
    code = (
        "import sys; from coterie.cli.main import run; run(['--help'])\n"
        f"sys.exit(' '.join(set('{heavy}'.split()) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() in ("", "json")


def test_a_shell_is_given_completions(bare: Cli) -> None:
    asked = {"_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": "coterie ta", "COMP_CWORD": "1"}
    assert Cli(bare.user, asked)().out == "plain,tasks\n"
    asked = {**asked, "COMP_WORDS": "coterie cost --by ", "COMP_CWORD": "3"}
    keys = ("task", "ticket", "member", "agent", "day")
    assert Cli(bare.user, asked)().out == "".join(f"plain,{key}\n" for key in keys)
    for shell in ("bash", "zsh", "fish"):
        assert "_COTERIE_COMPLETE" in bare("completion", shell).out
