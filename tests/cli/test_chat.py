"""`coterie chat` without a terminal: what it prints, when it ends, how it is stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, normalize

FIELDS = {
    "task": {"id", "workflow", "status"},
    "member": {"task", "member", "state", "reason", "since"},
    "message": {"task", "turn", "member", "text", "next"},
    "interaction": {
        "id",
        "task",
        "member",
        "kind",
        "purpose",
        "title",
        "description",
        "content",
        "content_kind",
        "options",
        "validation",
        "state",
    },
    "error": {"code", "message", "hint", "member", "where"},
    "result": {
        "task",
        "status",
        "reason",
        "summary",
        "turns",
        "usage",
        "changed",
        "checks",
        "next",
    },
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def without_task_id(text: str) -> str:
    """Replace the task's id."""
    text = re.sub(r"\b[a-z][a-z0-9]{3}(?= is not running)", "k3f9", normalize(text))
    return re.sub(
        r"\b(Done|Waiting|Parked|resume|log|show)(  ?)[a-z][a-z0-9]{3}\b", r"\1\2k3f9", text
    )


def test_one_round_in_plain_lines(cli: Cli) -> None:
    cli.team("ada", "rex")
    ran = cli("why is it slow?")
    assert (ran.err, ran.code) == ("", 0)
    assert without_task_id(ran.out) == snapshot("""\

 you   why is it slow?

 ada   ada
       ada heard 'why is it slow?'
                                                                            0.1s

 rex   rex
       rex heard "ada heard 'why is it slow?'"
                                                                            0.1s

Done  k3f9 · 2 turns · 0.1s
  why      every member has spoken
  next     coterie log k3f9
""")


def test_a_new_project_is_announced_and_nothing_else_is_touched(cli: Cli) -> None:
    ran = cli("chat", "--agents", "ada,rex", "hello")
    assert ran.code == 0
    assert normalize(ran.err) == snapshot(
        "Created /project/.coterie (git ignores it; nothing else was touched).\n"
    )
    assert [path.name for path in cli.user.project.iterdir()] == [".coterie"]
    assert (cli.user.project / ".coterie" / ".gitignore").read_text() == "*\n"


def test_every_line_of_json_keeps_the_contract(cli: Cli) -> None:
    cli.team("ada", "rex", "you")
    ran = cli("chat", "--json", "ada-fails")
    assert (ran.err, ran.code) == ("", 3)
    assert [line["seq"] for line in ran.lines] == list(range(1, len(ran.lines) + 1))
    for line in ran.lines:
        assert INSTANT.fullmatch(line["at"])
        assert FIELDS[line["type"]] <= set(line), line
    assert {line["type"] for line in ran.lines} >= {"task", "member", "interaction", "error"}
    assert ran.lines[-1]["type"] == "result"
    (asked,) = ran.of("interaction")
    assert (asked["kind"], asked["member"], asked["state"]) == ("Select", "ada", "open")
    assert [option["id"] for option in asked["options"]] == ["retry", "skip", "replace-rex", "stop"]


def test_the_result_is_what_the_design_says(cli: Cli) -> None:
    cli.team("ada", "rex")
    result = cli("chat", "--json", "hello").lines[-1]
    task = result.pop("task")
    del result["at"], result["seq"]
    assert task in result.pop("next")[0]
    assert result == snapshot(
        {
            "type": "result",
            "status": "completed",
            "reason": "max_rounds",
            "summary": "rex heard \"ada heard 'hello'\"",
            "turns": 2,
            "usage": None,
            "changed": [],
            "checks": [],
            "stop": None,
        }
    )


@pytest.mark.parametrize(
    ("options", "turns", "reason"),
    [
        ([], 2, "max_rounds"),
        (["--max-rounds", "2"], 4, "max_rounds"),
        (["--max-turns", "5"], 5, "max_turns"),
        (["--max-turns", "1"], 1, "max_turns"),
        (["--max-turns", "5", "--max-rounds", "1"], 2, "max_rounds"),
    ],
)
def test_caps(cli: Cli, options: list[str], turns: int, reason: str) -> None:
    cli.team("ada", "rex")
    ran = cli("chat", "--json", *options, "hello")
    result = ran.lines[-1]
    assert (ran.code, result["status"]) == (0, "completed")
    assert (result["turns"], result["reason"]) == (turns, reason)


def test_a_message_may_be_piped_in(cli: Cli) -> None:
    cli.team("ada")
    ran = cli("chat", "--json", stdin="from a pipe\nsecond line\n")
    assert (ran.code, ran.of("message")[-1]["text"]) == (0, "ada heard 'from a pipe'")


def test_words_need_no_quotes_after_chat(cli: Cli) -> None:
    cli.team("ada")
    ran = cli("chat", "--json", "two", "words")
    assert ran.of("message")[-1]["text"] == "ada heard 'two words'"


def test_a_humans_turn_waits_and_its_answer_counts(cli: Cli) -> None:
    cli.team("ada", "you")
    ran = cli("chat", "hello")
    assert ran.code == 3
    assert without_task_id(ran.out) == snapshot("""\

 you   hello

 ada   ada
       ada heard 'hello'
                                                                            0.1s

 ▲ q1  your turn
     Say something, or /end to end the conversation.
     coterie answer q1 --say "…"

Waiting  k3f9 · 1 turn · 0.1s
  why      a question is waiting for your answer
  next     coterie inbox · coterie resume k3f9
""")
    assert without_task_id(cli("answer", "q1", "--say", "thank you [DONE]").out) == snapshot("""\
q1 answered: thank you [DONE]
k3f9 is not running:  coterie resume k3f9
""")
    again = cli("answer", "q1", "--say", "no")
    assert again.code == 2
    assert normalize(again.err) == snapshot("""\
! q1 was already answered "thank you [DONE]" at 12:00 by you. Your answer was not used.
  coterie inbox
""")
    done = cli("resume", "--json")
    assert (done.code, done.lines[-1]["reason"]) == (0, "ended")


def test_a_question_is_waited_for_when_asked_to(cli: Cli) -> None:
    cli.team("ada", "you")
    with cli.start("chat", "--json", "--wait", "1m", "hello") as child:
        child.until('"interaction"')
        assert cli("answer", "q1", "--say", "/end").code == 0
        assert '"reason":"ended"' in child.out.read()
        assert child.wait(30) == 0


def test_control_characters_never_reach_the_reader(cli: Cli) -> None:
    cli.team("ada")
    ran = cli("chat", "ada-escapes")
    assert "a <U+001B>[31mred<U+001B>[0m word<U+0007> and <U+202E>backwards" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("json", [True, False])
def test_a_signal_parks_and_a_second_one_breaks_nothing(
    cli: Cli, number: signal.Signals, json: bool
) -> None:
    cli.team("ada", "rex")
    with cli.start("chat", *(["--json"] if json else []), "rex-hangs") as child:
        child.until("ada heard")
        child.send_signal(number)
        child.send_signal(signal.SIGINT)
        child.send_signal(number)
        out, err = child.out.read(), child.err.read()
        assert child.wait(30) == 130
    assert "Traceback" not in err
    if json:
        assert '"reason":"interrupted"' in out.splitlines()[-1]
    else:
        assert without_task_id(err) == "Parked: coterie resume k3f9\n"
    assert "No member is running." in cli("ps").out
    assert cli("tasks", "--json").lines[0]["resumable"] is True


def test_a_reader_who_leaves_parks_the_task(cli: Cli) -> None:
    cli.team("ada", "rex")
    with cli.launch("chat", "--json", "hello") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert without_task_id(child.stderr.read()) == "Parked: coterie resume k3f9\n"
        assert child.wait(30) == 130


def test_plain_output_imports_no_screen_and_the_embedded_store_no_other(cli: Cli) -> None:
    cli.team("ada")
    code = (
        "import sys; from coterie.cli.main import run; run(['chat', 'hello'])\n"
        "assert not {'prompt_toolkit', 'psycopg', 'procrastinate'} & set(sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 0
    )
