"""Nothing outlives Coterie, and a question outlives everything: real commands, real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import pytest

from coterie.testing import agent as scripted
from tests.cli.command import Cli, CommandResult, ForkedCommand, InProcessCli
from tests.conftest import IsolatedUser

KEEPERS = ["bubblewrap", "subreaper"]


@dataclass(frozen=True)
class CommandHarness:
    """A project, a registry with the scripted agent, and commands to run there."""

    user: IsolatedUser

    def set_up(self, keeper: str = "auto", *acts: str) -> None:
        registry = self.user.coterie_home / "agents"
        registry.mkdir(parents=True)
        entry = {
            "command": sys.executable,
            "baseArgs": ["-I", "-S", scripted.__file__, *acts],
            "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        }
        config = {"schemaVersion": "1.2", "agents": {"scripted": entry}}
        (registry / "config.json").write_text(json.dumps(config))
        settings = self.user.coterie_home / "settings.json"
        settings.write_text(json.dumps({"keeper": keeper}))

    def start(self, *words: str) -> ForkedCommand:
        return Cli(self.user).start(*words, "--json")

    def run(self, *words: str) -> CommandResult:
        """Run a command to its end, in a process of its own."""
        return Cli(self.user)(*words, "--json")

    def look(self, *words: str) -> CommandResult:
        """Run a command in this process, which is none of those that run tasks."""
        return InProcessCli(self.user)(*words, "--json")


@pytest.fixture
def harness(user: IsolatedUser) -> CommandHarness:
    return CommandHarness(user)


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a condition is true."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.02)


def pids_with_argument(token: str) -> list[int]:
    """Return the pids of the processes that have the token as an argument."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if token in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("way", ["ctrl-c", "stop", "kill -9"])
def test_a_daemon_of_an_agent_is_gone_within_five_seconds(
    harness: CommandHarness, keeper: str, way: str
) -> None:
    """Its child calls setsid, forks twice, ignores TERM and has an empty environment."""
    token = f"daemon-{os.getpid()}-{keeper}-{way.replace(' ', '')}"
    harness.set_up(keeper, "--deaf")
    # The first turn leaves the daemon behind, then the agent hangs.
    command = harness.start("chat", "--agents", "a=scripted", f"go\n!daemon-hang {token}")
    until(lambda: pids_with_argument(token))
    began = time.monotonic()
    if way == "ctrl-c":
        command.send_signal(signal.SIGINT)
    elif way == "stop":
        assert harness.look("stop", "last").code == 0
    else:
        command.send_signal(signal.SIGKILL)
    until(lambda: not pids_with_argument(token), 5)
    assert time.monotonic() - began < 5
    code = command.wait(10)
    assert code == (-signal.SIGKILL if way == "kill -9" else 130)
    command.communicate()


def human_team(harness: CommandHarness) -> str:
    path = harness.user.home / "team.json"
    members = [{"id": "ada", "agent": "scripted"}, {"id": "max", "type": "human"}]
    path.write_text(json.dumps({"name": "talk", "members": members}))
    return str(path)


def test_a_human_turn_survives_a_kill_and_is_answered_from_another_process(
    harness: CommandHarness,
) -> None:
    harness.set_up()
    command = harness.start("chat", "-t", human_team(harness), "--wait", "10m", "hello there")
    until(lambda: harness.look("inbox").of("interaction"))
    command.send_signal(signal.SIGKILL)
    command.communicate()

    assert harness.look("answer", "q1", "--say", "go on then [DONE]").code == 0
    late = harness.look("answer", "q1", "--say", "no, wait")
    assert late.code == 2
    assert 'q1 was already answered "go on then [DONE]"' in late.lines[-1]["message"]

    resumed = harness.run("resume", "last")
    assert resumed.code == 0
    [result] = resumed.of("result")
    assert resumed.lines[-1] == result
    assert (result["status"], result["reason"]) == ("completed", "ended")
    said = harness.look("log", "last").of("message")
    assert [(line["member"], line["text"]) for line in said][-1] == ("max", "go on then")


def test_without_a_terminal_a_human_turn_waits_with_exit_3(harness: CommandHarness) -> None:
    harness.set_up()
    ran = harness.run("chat", "-t", human_team(harness), "hello there")
    assert ran.code == 3
    assert (ran.lines[-1]["status"], ran.lines[-1]["reason"]) == ("waiting", "question")


def test_an_owner_stopped_by_a_signal_keeps_its_task(harness: CommandHarness) -> None:
    harness.set_up()
    command = harness.start("chat", "--agents", "a=scripted", "go\n!hang")
    until(lambda: harness.look("ps").lines)
    command.send_signal(signal.SIGSTOP)
    try:
        follower = harness.start("resume", "last")
        told = follower.err.readline()
        assert f"pid {command.pid}" in told
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=60)
    finally:
        command.send_signal(signal.SIGCONT)
    assert harness.look("stop", "last").code == 0
    assert command.wait(60) == 130
    command.communicate()


def test_cancel_is_final_and_ends_the_agents(harness: CommandHarness) -> None:
    token = f"cancel-{os.getpid()}"
    harness.set_up("auto", "--deaf")
    command = harness.start("chat", "--agents", "a=scripted", f"go\n!daemon-hang {token}")
    until(lambda: pids_with_argument(token))
    assert harness.look("cancel", "last", "--yes").code == 0
    assert not pids_with_argument(token)
    assert command.wait(10) == 1
    command.communicate()
    resumed = harness.look("resume", "last")
    assert (resumed.code, resumed.lines[-1]["status"]) == (1, "canceled")
