"""The hook before Codex's commands: a command that awaits permission does not run without it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.agents.codex import hook
from coterie.agents.codex.calls import CodexCalls
from coterie.agents.codex.permissions import CodexRequest, CodexRequestReader
from coterie.agents.codex.permits import WaitingCommand

COMMAND = "echo ran; printf '%s' \"$X\" 'it''s'\nexit 3\n"


@pytest.fixture
def permits(tmp_path: Path) -> Path:
    folder = tmp_path / "it's a folder; with $signs"
    folder.mkdir()
    return folder


def hooked(permits: Path, call_id: str, command: str) -> str:
    """Return what the hook turns a command into, run as Codex runs it."""
    told = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call_id}
    ran = subprocess.run(
        [sys.executable, "-I", "-S", hook.__file__, str(permits)],
        input=json.dumps(told).encode(),
        capture_output=True,
        check=True,
    )
    answer = json.loads(ran.stdout)["hookSpecificOutput"]
    assert answer["permissionDecision"] == "allow"
    return str(answer["updatedInput"]["command"])


def run(command: str, shell: str = "sh") -> tuple[int, str]:
    ran = subprocess.run([shell, "-c", command], capture_output=True, check=False, text=True)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("shell", [one for one in ("sh", "bash", "zsh") if shutil.which(one)])
def test_a_command_runs_only_with_a_permit(permits: Path, shell: str) -> None:
    command = hooked(permits, "call_1", COMMAND)
    assert hook.original(str(permits), "call_1", command) == COMMAND
    code, output = run(command, shell)
    assert (code != 0, output) == (True, "")
    key = hook.key_of("call_1", COMMAND)
    (permits / f"{key}.look").write_text("echo seen\nexit 7\n")
    assert run(command, shell) == (7, "seen\n")
    (permits / f"{key}.look").unlink()
    (permits / f"{key}.work").touch()
    assert run(command, shell) == (3, "ran\nits")


def test_the_permit_of_one_call_does_not_count_for_another(permits: Path) -> None:
    """Whatever ids a model makes up, and whatever its commands begin with."""
    folder = str(permits)
    allowed = hook.key_of("call_1", "make")
    (permits / f"{allowed}.work").touch()
    assert hook.key_of("call_1", "cat x") != allowed != hook.key_of("call_2", "make")
    borrowed = hook.condition(folder, allowed) + "touch y"
    # Without the hook, the line does not belong to this call and is shown like any other.
    assert hook.original(folder, "call_2", borrowed) is None
    assert hook.original(folder, "call_1", borrowed) is None
    again = hooked(permits, "call_2", borrowed)
    assert hook.original(folder, "call_2", again) == borrowed
    code, output = run(again)
    assert (code != 0, output) == (True, "")
    elsewhere = hook.condition("/tmp/x", hook.key_of("call_2", "ls")) + "ls"
    assert hook.original(folder, "call_2", elsewhere) is None


def test_an_id_gets_nowhere(permits: Path) -> None:
    command = hooked(permits, "';touch x;'/../$(id)\n", "ls")
    assert [line for line in command.splitlines() if "touch" in line] == []


def test_the_question_is_about_the_original(permits: Path) -> None:
    ledger = CodexCalls(str(permits))

    def asked(command: str, shell: str = "/bin/bash") -> CodexRequest:
        line = shlex.join([shell, "-c", command])
        given = {"itemId": "call_1", "command": line, "cwd": "/w"}
        message = {"id": 3, "method": "item/commandExecution/requestApproval", "params": given}
        found = CodexRequestReader(message, "/w", "", ledger).request()
        assert found is not None
        return found

    plain, waiting = asked(COMMAND), asked(hooked(permits, "call_1", COMMAND))
    assert (plain.waiting, waiting.waiting) == (None, WaitingCommand("call_1", COMMAND, "/w"))
    calls = [one.asked.call for one in (plain, waiting)]
    assert [call.input for call in calls if call] == [
        {"command": COMMAND, "line": shlex.join(["/bin/bash", "-c", COMMAND])}
    ] * 2
    actions = [call.action for call in calls if call]
    assert [one.read_only_sandbox for one in actions if one] == [False, True]
    # How another shell interprets a command is unknown; it is asked about, and waits too.
    other = asked(hooked(permits, "call_1", COMMAND), "/usr/bin/fish")
    assert other.waiting == waiting.waiting
    assert other.asked.call is not None
    action = other.asked.call.action
    assert action is not None
    assert action.command == shlex.join(["/usr/bin/fish", "-c", COMMAND])
    assert not action.read_only_sandbox
