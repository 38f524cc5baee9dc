"""Nothing outlives Coterie, and a question outlives everything: real commands, real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from coterie.testing import agent as scripted

KEEPERS = ["bubblewrap", "subreaper"]


class House:
    """A project, a registry of the scripted agent, and the commands run in it."""

    def __init__(self, folder: Path, keeper: str = "auto", *acts: str) -> None:
        self.folder = folder
        registry = folder / "user" / "agents"
        registry.mkdir(parents=True)
        entry = {
            "command": sys.executable,
            "baseArgs": ["-I", "-S", scripted.__file__, *acts],
            "capabilities": {"completionDetection": "jsonl", "completionTypes": ["result"]},
        }
        config = {"schemaVersion": "1.2", "agents": {"scripted": entry}}
        (registry / "config.json").write_text(json.dumps(config))
        (folder / "user" / "settings.json").write_text(json.dumps({"keeper": keeper}))
        (folder / "work").mkdir()

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "coterie", "-C", str(self.folder / "work"), *words, "--json"],
            env={
                **os.environ,
                "COTERIE_HOME": str(self.folder / "user"),
                "HOME": str(self.folder / "user"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, list[dict[str, object]]]:
        process = self.start(*words)
        out, _ = process.communicate(timeout=60)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return process.returncode, lines


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for something that is about to be true."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not come true"
        time.sleep(0.02)


def carrying(token: str) -> list[int]:
    """The processes that have the token as an argument."""
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
    tmp_path: Path, keeper: str, way: str
) -> None:
    """Its child calls setsid, forks twice, ignores TERM and has an empty environment."""
    token = f"daemon-{os.getpid()}-{keeper}-{way.replace(' ', '')}"
    house = House(tmp_path, keeper, "--deaf")
    # The daemon is left behind by the first turn's act, then the agent hangs.
    command = house.start("chat", "--agents", "a=scripted", f"go\n!daemon-hang {token}")
    until(lambda: carrying(token))
    began = time.monotonic()
    if way == "ctrl-c":
        command.send_signal(signal.SIGINT)
    elif way == "stop":
        assert house.run("stop", "last")[0] == 0
    else:
        command.send_signal(signal.SIGKILL)
    until(lambda: not carrying(token), 5)
    assert time.monotonic() - began < 5
    code = command.wait(10)
    assert code == (-signal.SIGKILL if way == "kill -9" else 130)
    command.communicate()


def human_team(house: House) -> str:
    path = house.folder / "team.json"
    members = [{"id": "ada", "agent": "scripted"}, {"id": "max", "type": "human"}]
    path.write_text(json.dumps({"name": "talk", "members": members}))
    return str(path)


def test_a_human_turn_survives_a_kill_and_is_answered_from_another_process(tmp_path: Path) -> None:
    house = House(tmp_path)
    command = house.start("chat", "-t", human_team(house), "--wait", "10m", "hello there")
    until(lambda: any(line["type"] == "interaction" for line in house.run("inbox")[1]))
    command.send_signal(signal.SIGKILL)
    command.communicate()

    code, lines = house.run("answer", "q1", "--say", "go on then [DONE]")
    assert code == 0
    code, lines = house.run("answer", "q1", "--say", "no, wait")
    assert code == 2
    assert 'q1 was answered "go on then [DONE]"' in str(lines[-1]["message"])

    code, lines = house.run("resume", "last")
    assert code == 0
    assert (lines[-1]["type"], lines[-1]["status"], lines[-1]["reason"]) == (
        "result",
        "completed",
        "ended",
    )
    said = [line for line in house.run("log", "last")[1] if line["type"] == "message"]
    assert [(line["member"], line["text"]) for line in said][-1] == ("max", "go on then")


def test_without_a_terminal_a_human_turn_waits_with_exit_3(tmp_path: Path) -> None:
    house = House(tmp_path)
    code, lines = house.run("chat", "-t", human_team(house), "hello there")
    assert code == 3
    assert (lines[-1]["status"], lines[-1]["reason"]) == ("waiting", "question")


def test_an_owner_stopped_by_a_signal_keeps_its_task(tmp_path: Path) -> None:
    house = House(tmp_path)
    command = house.start("chat", "--agents", "a=scripted", "go\n!hang")
    until(lambda: house.run("ps")[1])
    command.send_signal(signal.SIGSTOP)
    try:
        follower = house.start("resume", "last")
        assert follower.stderr is not None
        told = follower.stderr.readline()
        assert f"pid {command.pid}" in told
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=10)
    finally:
        command.send_signal(signal.SIGCONT)
    assert house.run("stop", "last")[0] == 0
    assert command.wait(10) == 130
    command.communicate()


def test_cancel_is_final_and_ends_the_agents(tmp_path: Path) -> None:
    token = f"cancel-{os.getpid()}"
    house = House(tmp_path, "auto", "--deaf")
    command = house.start("chat", "--agents", "a=scripted", f"go\n!daemon-hang {token}")
    until(lambda: carrying(token))
    assert house.run("cancel", "last", "--yes")[0] == 0
    assert not carrying(token)
    assert command.wait(10) == 1
    command.communicate()
    code, lines = house.run("resume", "last")
    assert (code, lines[-1]["status"]) == (1, "canceled")
