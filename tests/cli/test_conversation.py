"""A conversation: what each member is sent, who speaks next, and what a marker in a reply does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.command import CommandResult, InProcessCli

SAYS = r"""
n=$(ls "$HOME" | grep -c heard)
cat > "$HOME/heard$n"
while test $n -gt 0 && test $# -gt 1; do shift; n=$((n-1)); done
printf %s "$1"
"""
"""Stores what it is sent, and prints its arguments one by one, then repeats the last one."""


@pytest.fixture
def talk(in_process: InProcessCli) -> InProcessCli:
    """Register an agent that replies with its member's arguments; its exit ends the reply."""
    in_process.registry(says={"command": "/bin/sh", "baseArgs": ["-c", SAYS, "says"]})
    return in_process


def member(who: str, *replies: str, **more: Any) -> dict[str, Any]:
    return {"id": who, "agent": "says", "additionalArgs": replies, **more}


def replies(ran: CommandResult) -> list[tuple[str, str]]:
    return [(one["member"], one["text"]) for one in ran.of("message")]


def sent(cli: InProcessCli, name: str, number: int) -> str:
    """What a member was sent in one of its turns, counted from 0."""
    home = cli.user.project / ".coterie" / "teams" / "pair" / name / "home"
    return (home / f"heard{number}").read_text().removesuffix("\n")


# -- what is sent ---------------------------------------------------------------------------------


def test_the_last_messages_and_then_the_newest(talk: InProcessCli) -> None:
    ada = member("ada", "a1", "a2\nin two lines", "a3", name="lovelace", displayName="Ada")
    talk.members(ada, member("rex", "r1", "r2", "r3"), contextMessageCount=3)
    assert talk("chat", "--max-rounds", "3", "hello").code == 0
    assert sent(talk, "ada", 0) == "[MESSAGE]\nhello"
    assert sent(talk, "rex", 0) == "[CONTEXT]\nyou: hello\n\n[MESSAGE]\na1"
    assert sent(talk, "ada", 1) == "[CONTEXT]\nyou: hello\nlovelace: a1\n\n[MESSAGE]\nr1"
    lines = "rex: r1\nlovelace: a2\nin two lines\nrex: r2"
    assert sent(talk, "rex", 2) == f"[CONTEXT]\n{lines}\n\n[MESSAGE]\na3"


@pytest.mark.parametrize(
    ("bounds", "turns", "context"),
    [
        ({}, 24, [f"ada: {number}" for number in range(3, 23)]),
        ({"contextCharacters": 13}, 5, ["ada: 2", "ada: 3"]),
        ({"contextMessageCount": 0}, 3, []),
    ],
    ids=["twenty", "characters", "none"],
)
def test_how_much_of_it(
    talk: InProcessCli, bounds: dict[str, int], turns: int, context: list[str]
) -> None:
    talk.members(member("ada", *map(str, range(1, turns))), **bounds)
    assert talk("chat", "--max-turns", str(turns), "hello").code == 0
    head = "\n".join(["[CONTEXT]", *context, "", ""]) if context else ""
    assert sent(talk, "ada", turns - 1) == f"{head}[MESSAGE]\n{turns - 1}"


# -- who speaks next ------------------------------------------------------------------------------

UNKNOWN = 'ada named "{}" as next speaker; the team has ada, rex, cy.'
REPLIES: list[tuple[str, str, str, list[str]]] = [
    # ada's reply; the text read from it; who speaks next; the names warned about
    ("mine", "mine", "rex", []),
    ("to cy [NEXT: CY]", "to cy", "cy", []),
    ("by name [next:younger]", "by name", "cy", []),
    ("by another name\n\n[NEXT: cy young]\n", "by another name", "cy", []),
    ("the first known [NEXT: zoe, cy, rex]", "the first known", "cy", ["zoe"]),
    ("nobody [NEXT: zoe]", "nobody", "rex", ["zoe"]),
    ("two [NEXT: cy] [DONE]", "two", "cy", []),
    ("that is all [DONE]", "that is all", "rex", []),
    ("[NEXT: cy] and [DONE] are signs", "[NEXT: cy] and [DONE] are signs", "rex", []),
    ("such as `[NEXT: cy]`", "such as `[NEXT: cy]`", "rex", []),
    ("```\n[NEXT: cy]\n[DONE]", "```\n[NEXT: cy]\n[DONE]", "rex", []),
    ("```\n[DONE]\n```\n[NEXT: cy]", "```\n[DONE]\n```", "cy", []),
]


def test_who_speaks_next_and_what_is_read(talk: InProcessCli) -> None:
    """Ada gives one reply after the other; the next speaker hands the floor back to her."""
    talk.members(
        member("ada", *(text for text, _, _, _ in REPLIES)),
        member("rex", "back [NEXT: ada]"),
        member("cy", "back [NEXT: Ada] [DONE]", name="younger", displayName="Cy Young"),
    )
    ran = talk("chat", "--json", "--max-turns", str(2 * len(REPLIES)), "hello")
    assert (ran.code, ran.lines[-1]["status"]) == (0, "completed")
    spoken = replies(ran)
    assert spoken[::2] == [("ada", read) for _, read, _, _ in REPLIES]
    assert spoken[1::2] == [(following, "back") for _, _, following, _ in REPLIES]
    warned = [name for _, _, _, names in REPLIES for name in names]
    assert [one["message"] for one in ran.of("error")] == [UNKNOWN.format(one) for one in warned]
    shown = talk("log", "last").out
    assert shown.count("[NEXT") == shown.count("[NEXT: cy]") == 3, "only where it is text"


@pytest.mark.parametrize(
    ("words", "turns"),
    [
        ("never mind [DONE]", 0),
        ("/end", 0),
        ("```\ncode\n```\n[DONE]", 0),
        ("what does [DONE] mean?", 1),
        ("```\n[DONE]", 1),
        ("/end of the line is wrong", 1),
    ],
)
def test_a_person_ends_it_by_a_sign_at_the_end_of_their_message(
    talk: InProcessCli, words: str, turns: int
) -> None:
    talk.members(member("ada", "yes"))
    result = talk("chat", "--json", words).lines[-1]
    assert (result["status"], result["turns"]) == ("completed", turns)
    assert result["reason"] == ("max_rounds" if turns else "ended")
