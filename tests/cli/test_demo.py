"""`coterie demo`: real processes and a real repository, but nothing that belongs to the user."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from coterie.app.demo import DemoCheck
from coterie.cli.demo import _print_summary
from coterie.cli.main import Call
from coterie.rehearsal import demo_shop
from coterie.rehearsal.demo_shop import DemoShop
from coterie.rehearsal.model_api import Answer, CompletionRequest, reply
from tests.cli.command import Cli, InProcessCli

SHIPPED = Path(__file__).parents[2] / "src" / "coterie" / "rehearsal"
TESTS = ("python3", "-m", "unittest", "-q")


@pytest.fixture
def bare(bare: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, with temporary folders where the test cleans up."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return Cli(bare.user, {"TMPDIR": str(tmp_path / "tmp")})


def run_in(folder: Path, *command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# -- tickets -----------------------------------------------------------------------------------


def test_a_goal_becomes_checked_work(bare: Cli) -> None:
    ran = bare("demo")
    assert (ran.err, ran.code) == ("", 0)
    assert "plan with 4 tickets" in ran.out
    promises = re.findall(r"^ ok +([^:]+): (.+)$", ran.out, re.M)
    assert [what for what, _ in promises] == [
        "done",
        "discussed first",
        "sent back by review",
        "had a conflict, resolved by its author",
        "tests green, run by Coterie",
    ]
    assert dict(promises)["sent back by review"] == "T4"
    assert list(bare.user.project.iterdir()) == []
    # The demo is kept and belongs to the user: only that, and what its members may do, is recorded.
    noted = {path.name for path in bare.user.home.rglob("*") if path.suffix != ".lock"}
    assert noted == {".coterie", "projects.json", "trusted.json", "key"}

    looked = re.search(r"^ Look +cd (.+)$", ran.out, re.M)
    assert looked is not None
    shop = Path(looked[1])
    code, said = run_in(shop, *TESTS)
    assert code != 0, "the user's own tree is as it was"
    assert "test_a_coupon_takes_its_part_off" in said
    assert _summary(_report(shop)) == {
        "T1": ("coupons", "done", True),
        "T2": ("receipt", "done", True),
        "T3": ("cart", "done", True),
        "T4": ("checkout", "done", True),
    }
    commands = re.findall(r"^ {8}coterie (.+?)  +\S", ran.out, re.M)
    assert [command.split()[0] for command in commands] == [
        "tickets",
        "show",
        "log",
        "diff",
        "accept",
    ]
    shown = {one: InProcessCli(bare.user)(*one.split(), "-C", str(shop)) for one in commands}
    assert {one: (done.err, done.code) for one, done in shown.items()} == dict.fromkeys(
        commands, ("", 0)
    )
    assert run_in(shop, *TESTS)[0] == 0


def _report(shop: Path) -> dict[str, Any]:
    [folder] = (shop / ".coterie" / "sessions").iterdir()
    assert "Next" in (folder / "final_report.md").read_text()
    return json.loads((folder / "final_report.json").read_text())


def _summary(report: dict[str, Any]) -> dict[str, tuple[str, str, bool]]:
    return {
        one["id"]: (
            one["task_id"],
            one["state"],
            all(one["checks"].values()) and one["checks"] != {},
        )
        for one in report["tickets"]
    }


class LenientManager(DemoShop):
    """A manager that approves everything."""

    async def answer(self, request: CompletionRequest) -> Answer:
        if "Is it done?" in request.newest:
            return reply('{"decision": "approved"}')
        return await super().answer(request)


def test_a_promise_that_is_not_kept_is_a_failure(
    bare: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_shop, "DemoShop", LenientManager)
    ran = InProcessCli(bare.user)("demo", "--json")
    assert (ran.err, ran.code) == ("", 1)
    outcome, result = ran.lines[-2:]
    assert (result["type"], result["status"], result["reason"]) == ("result", "completed", "done")
    assert outcome["promises"] == {
        "done": True,
        "discussed first": True,
        "sent back by review": False,
        "had a conflict, resolved by its author": True,
        "tests green, run by Coterie": True,
    }


class NarrowCall(Call):
    @property
    def width(self) -> int:
        return 44


def test_a_narrow_terminal_breaks_no_word_and_no_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check = DemoCheck("had a conflict, resolved by its author", "T2, T3 and T4", passed=True)
    _print_summary(NarrowCall(), Path("/shop"), "k3f9", [check])
    assert capsys.readouterr().out == snapshot("""\

 ok     had a conflict, resolved by its
        author: T2, T3 and T4

 Look   cd /shop
        coterie tickets
          the tickets, and who did them
        coterie show k3f9/T4
          the one that was sent back
        coterie log k3f9
          the whole conversation
        coterie diff k3f9
          what was changed
        coterie accept k3f9
          merge it into main; until then it
          is on a branch
""")


def test_a_missing_agent_is_reported(bare: Cli) -> None:
    ran = bare("demo", "--agents", "claud,codex")
    assert ran.code == 2
    assert "There is no agent claud." in ran.err
    assert list((bare.user.home.parent / "tmp").iterdir()) == []


# -- a conversation ----------------------------------------------------------------------------


def test_a_chat_names_real_lines_and_leaves_nothing(bare: Cli) -> None:
    ran = bare("demo", "--chat")
    assert (ran.err, ran.code) == ("", 0)
    for part in ("security", "performance", "readability", "answered with its default in the demo"):
        assert part in ran.out
    assert "Done  " in ran.out
    assert "coterie init" in ran.out
    assert list(bare.user.project.iterdir()) == []
    assert list(bare.user.home.iterdir()) == []
    assert list((bare.user.home.parent / "tmp").iterdir()) == []
    source = (SHIPPED / "demo" / "cart.py.txt").read_text().splitlines()
    named = {int(number) for number in re.findall(r"cart\.py:(\d+)", ran.out)}
    found = {source[number - 1].strip() for number in named}
    assert any("execute(f" in line for line in found)
    assert any("WHERE id = ?" in line for line in found)


def test_a_chat_as_json_ends_with_the_result_and_can_be_looked_at(bare: Cli) -> None:
    ran = bare("demo", "--chat", "--keep", "--json")
    assert (ran.err, ran.code) == ("", 0)
    assert ran.lines[-1]["type"] == "result"
    assert (ran.lines[-1]["status"], ran.lines[-1]["reason"]) == ("completed", "ended")
    assert len(ran.of("message")) == 4
    folder = ran.of("demo")[0]["folder"]
    shown = bare("log", "last", "-C", folder)
    assert shown.code == 0
    assert "cart.py:" in shown.out
