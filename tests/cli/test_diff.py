"""A task's changes: shown, applied elsewhere, reverted."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.command import Cli, CommandResult, normalize
from tests.conftest import init_project

EDITOR = Path(__file__).with_name("editing_agent.py")
CART = "one\ntwo\n"


@pytest.fixture
def shop(bare: Cli) -> Cli:
    """A project with one file, and a team whose only member makes the changes it is told to."""
    registry = bare.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    editor = {"command": sys.executable, "baseArgs": [str(EDITOR)], "adapter": "acp"}
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": {"editor": editor}}))
    team = init_project(bare.user.project) / "teams" / "shop"
    team.mkdir(parents=True)
    (team / "team.json").write_text(json.dumps({"members": [{"id": "ada", "agent": "editor"}]}))
    (bare.user.project / "cart.py").write_text(CART)
    return bare


def carried_out(shop: Cli, *deeds: str, choice: str = "approve", json_: bool = True) -> str:
    """Have ada carry out some actions, each answered from another process; return the output."""
    output = ("--json",) if json_ else ()
    printed = ""
    with shop.start("chat", *output, "--wait", "60s", "\n".join(("please", *deeds))) as child:
        for line in child.out:
            printed += line
            asked = re.search(r'"id":"(q\d+)".*"state":"open"|coterie answer (q\d+)', line)
            if asked:
                shop("answer", asked[1] or asked[2], choice)
        assert child.wait() == 0, child.err.read()
    return printed


def result(printed: str) -> dict[str, Any]:
    last = json.loads(printed.splitlines()[-1])
    assert last["type"] == "result"
    return last


def normalize_output(ran: CommandResult, task: str) -> str:
    return normalize(ran.out + ran.err).replace(task, "k3f9")


def test_a_patch_that_git_takes(shop: Cli, tmp_path: Path) -> None:
    done = result(carried_out(shop, r"!write cart.py one\n2", "!write new/file hello"))
    assert done["changed"] == ["cart.py +1 -1", "new/file +1 -0"]
    shown = shop("diff")
    assert (shown.out, shown.err, shown.code) == snapshot(
        (
            """\
diff --git a/cart.py b/cart.py
index 814f4a4..99b356d 100644
--- a/cart.py
+++ b/cart.py
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/new/file b/new/file
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/new/file
@@ -0,0 +1 @@
+hello
""",
            "",
            0,
        )
    )
    other = tmp_path / "other"
    other.mkdir()
    (other / "cart.py").write_text(CART)
    subprocess.run(["git", "apply"], input=shown.out, text=True, cwd=other, check=True)
    assert (other / "cart.py").read_text() == "one\n2\n"
    assert (other / "new" / "file").read_text() == "hello\n"
    assert shop("diff", "last", "--stat").out == snapshot("""\
  cart.py   +1  -1
  new/file  +1  -0
2 files     +2  -1
""")
    (told,) = shop("diff", "--json").lines
    assert told["patches"] == [
        {
            "folder": str(shop.user.project),
            "files": [
                {"path": "cart.py", "added": 1, "removed": 1},
                {"path": "new/file", "added": 1, "removed": 0},
            ],
            "patch": shown.out,
        }
    ]
    (told,) = shop("diff", "--stat", "--json").lines
    assert "patch" not in told["patches"][0]


def test_bytes_that_are_no_text(shop: Cli, tmp_path: Path) -> None:
    carried_out(shop, r"!run printf '\000\001' > bin; printf 'caf\351\n' > latin1")
    patch = subprocess.run(
        [sys.executable, "-m", "coterie", "diff"],
        capture_output=True,
        check=True,
        cwd=shop.user.project,
        env={**os.environ, **shop.env},
    ).stdout
    subprocess.run(["git", "apply"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "bin").read_bytes() == b"\0\1"
    assert (tmp_path / "latin1").read_bytes() == b"caf\xe9\n"


def test_revert_and_back(shop: Cli) -> None:
    project = shop.user.project
    task = result(carried_out(shop, r"!write cart.py one\n2", "!write new/file hello"))["task"]
    assert normalize_output(shop("revert", task, "--dry-run"), task) == snapshot("""\
Would revert k3f9
  restored  cart.py
  removed   new/file
""")
    assert (project / "cart.py").read_text() == "one\n2\n"
    assert normalize_output(shop("revert", "last"), task) == snapshot("""\
Reverted k3f9
  restored  cart.py
  removed   new/file
  undo      coterie revert k3f9 --undo
""")
    assert (project / "cart.py").read_text() == CART
    assert not (project / "new").exists()
    again = shop("revert", "last")
    assert (again.code, again.out) == (2, "")
    assert normalize_output(again, task) == snapshot("""\
! k3f9 was reverted already.
  coterie revert k3f9 --undo
""")
    assert normalize_output(shop("diff"), task) == snapshot(
        "k3f9 was reverted at 12:00.   Undo: coterie revert k3f9 --undo\n"
    )
    (told,) = shop("revert", "last", "--undo", "--json").lines
    assert {key: value for key, value in told.items() if key not in ("at", "task")} == snapshot(
        {
            "type": "revert",
            "seq": 1,
            "undo": True,
            "dry_run": False,
            "restored": ["cart.py", "new/file"],
            "merged": [],
            "removed": [],
            "kept": [],
        }
    )
    assert (project / "cart.py").read_text() == "one\n2\n"
    assert shop("revert", "last", "--undo").code == 2


def test_what_somebody_else_changed_is_named(shop: Cli) -> None:
    task = result(carried_out(shop, "!write cart.py 2", "!write other 2"))["task"]
    (shop.user.project / "cart.py").write_text("mine\n")
    kept = shop("revert", task)
    assert kept.code == 1
    assert normalize_output(kept, task) == snapshot("""\
Reverted k3f9
  removed   other
  kept      cart.py: somebody has changed the same lines since
  undo      coterie revert k3f9 --undo
""")
    assert (shop.user.project / "cart.py").read_text() == "mine\n"


def test_a_task_that_changed_nothing(shop: Cli) -> None:
    done = result(carried_out(shop))
    assert done["changed"] == []
    # A snapshot is taken before a little-known agent begins, but none is kept for its turn.
    snapshots = shop.user.project / ".coterie" / "snapshots.git"
    assert not (snapshots / "refs" / "tasks").exists()
    done = result(carried_out(shop, "!write cart.py 2", choice="reject"))
    assert done["changed"] == []
    shown = shop("diff")
    assert (shown.out, normalize_output(shown, done["task"]), shown.code) == snapshot(
        ("", "k3f9 changed no files.\n", 0)
    )
    assert normalize_output(shop("revert", "last"), done["task"]) == snapshot(
        "Nothing to revert in k3f9.\n"
    )


def test_the_report_says_what_was_changed_and_what_was_run(shop: Cli) -> None:
    printed = carried_out(
        shop, "!write cart.py 2", "!run python3 -c pass", "!run python3 -c missing", json_=False
    )
    report = normalize(printed[printed.index("Done  ") :])
    assert re.sub(r"\b(Done  |diff |revert |log )\w{4}\b", r"\1k3f9", report) == snapshot("""\
Done  k3f9 · 1 turn · 0.1s
  why      every member has spoken
  changed  cart.py +1 -2, in your tree   coterie diff k3f9
  ran      python3 -c pass (ada, you allowed it once): ok   not a check by Coterie
           python3 -c missing (ada, you allowed it once): failed
  undo     coterie revert k3f9
  next     coterie log k3f9
""")


def test_a_running_task_is_not_reverted(shop: Cli) -> None:
    with shop.start("chat", "--json", "--wait", "60s", "please\n!write cart.py 2\n!hang") as child:
        child.until('"state":"open"')
        shop("answer", "q1", "approve")
        child.until('"status":"completed"')
        task = shop("tasks", "--json").lines[-1]["id"]
        assert "+2" in shop("diff").out  # the changes so far
        for words in (("revert", task), ("revert", task, "--dry-run")):
            refused = shop(*words)
            assert refused.code == 1
            assert f"coterie stop {task}" in refused.err
        child.kill()
    # Nothing says how the turn ended, so it counts until now.
    assert shop("revert", task).code == 0
    assert (shop.user.project / "cart.py").read_text() == CART


def test_a_turn_that_was_stopped_ends_there(shop: Cli) -> None:
    with shop.start("chat", "--json", "--wait", "60s", "please\n!write cart.py 2\n!hang") as child:
        child.until('"state":"open"')
        shop("answer", "q1", "approve")
        child.until('"status":"completed"')
        task = shop("tasks", "--json").lines[-1]["id"]
        shop("stop", task)
    (shop.user.project / "mine").write_text("by somebody else\n")
    assert shop("diff", task, "--stat").out.split() == snapshot(
        ["cart.py", "+1", "-2", "1", "file", "+1", "-2"]
    )


def test_without_git(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(shop.user.home))
    done = result(printed := carried_out(shop, "!write cart.py 2"))
    assert (done["status"], done["changed"]) == ("completed", [])
    (told,) = [line for line in map(json.loads, printed.splitlines()) if line["type"] == "error"]
    assert (told["code"], told["message"], told["hint"]) == snapshot(
        (
            "not_kept",
            "Changes can be neither shown nor reverted: git is not installed.",
            "Install git.",
        )
    )
    shown = shop("diff")
    assert shown.code == 1
    assert normalize_output(shown, done["task"]) == snapshot(
        "! It cannot be shown: git is not installed.\n"
    )


def test_on_a_terminal_in_colour(shop: Cli) -> None:
    carried_out(shop, "!write cart.py 2", r"!run printf '\000\001' > bin")
    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "coterie", "diff"],
        stdout=slave,
        check=True,
        cwd=shop.user.project,
        env={**os.environ, **shop.env, "TERM": "xterm-256color"},
    )
    os.close(slave)
    shown = os.read(master, 100_000).decode().replace("\r\n", "\n")
    os.close(master)
    assert shown == snapshot("""\
\x1b[1mdiff --git a/bin b/bin\x1b[0m
new file mode 100644
index 0000000000000000000000000000000000000000..bdc955b7b2e610ad5a72302b139a2e6cb325519a
binary
\x1b[1mdiff --git a/cart.py b/cart.py\x1b[0m
index 814f4a4..0cfbf08 100644
\x1b[1m--- a/cart.py\x1b[0m
\x1b[1m+++ b/cart.py\x1b[0m
\x1b[36m@@ -1,2 +1 @@\x1b[0m
\x1b[31m-one\x1b[0m
\x1b[31m-two\x1b[0m
\x1b[32m+2\x1b[0m
""")
