"""Recordings of the three CLIs, through the command line: only their protocol counts."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import CommandResult, InProcessCli
from tests.contract.acp.timeline_agent import PLAYER, recorded_steps
from tests.contract.test_codex import PLAYER as CODEX_PLAYER
from tests.contract.test_codex import notification, turn

SCREEN = {"raw": "\x1b[2J> All done! [DONE]\n$ \n"}
"""Output that a person would mistake for the end of a reply, or for a prompt."""
HELLO = notification("item/completed", item={"type": "agentMessage", "id": "a", "text": "Hello."})
REPLIES = {"claude": "one two three four five", "codex": "Hello.", "gemini": "one two three four"}


def first_turn(name: str, prompt: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a recording up to the second prompt, with screen output as noise before each."""
    steps = recorded_steps(name)
    prompts = [number for number, step in enumerate(steps) if step.get("in") == prompt]
    return [part for step in steps[: prompts[1]] for part in (SCREEN, step)]


@pytest.fixture
def clis(in_process: InProcessCli, tmp_path: Path) -> InProcessCli:
    """Programs that replay Claude Code, Codex and Gemini CLI, with noise in between."""
    heard = tmp_path / "heard"
    heard.mkdir()
    timelines = {
        "claude": first_turn("claude/b2_longlived_initialize_partial", {"type": "user"}),
        "gemini": first_turn("gemini/talk", {"method": "session/prompt"}),
        "codex": turn(HELLO),
    }
    agents: dict[str, dict[str, str]] = {}
    for name, steps in timelines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in steps))
        words = [sys.executable, "-I", "-S"]
        played = str(tmp_path / f"{name}.jsonl")
        if name == "codex":
            words += [str(CODEX_PLAYER), played, "noise"]
        else:
            (heard / name).mkdir()
            words += [str(PLAYER), str(heard / name), played, "--"]
        program = tmp_path / name
        # Codex creates such folders to shield them from commands, and leaves them behind.
        made = "mkdir -p .git .aws .agents; touch .agents/mine\n" if name == "codex" else ""
        status = 'case "$*" in *"auth status") exit 0 ;; esac\n'
        program.write_text(f'#!/bin/sh\n{status}{made}exec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        agents[name] = {"command": str(program)}
    registry = in_process.user.coterie_home / "agents" / "config.json"
    registry.parent.mkdir(parents=True)
    registry.write_text(json.dumps({"schemaVersion": "1.2", "agents": agents}))
    return in_process


def replies(ran: CommandResult) -> dict[str, str]:
    return {line["member"]: line["text"] for line in ran.of("message")}


def test_a_message_is_acknowledged_by_the_protocol_and_nothing_is_read_off_a_screen(
    clis: InProcessCli,
) -> None:
    """F3b, F7d."""
    ran = clis("chat", "--json", "--agents", ",".join(REPLIES), "hello")
    assert (ran.code, replies(ran)) == (0, REPLIES)
    heard = (clis.user.home.parent / "heard" / "claude" / "0.jsonl").read_text().splitlines()
    assert [json.loads(line).get("type") for line in heard[1:]].count("user") == 1, "sent once"
    left = sorted(path.name for path in clis.user.project.iterdir())
    assert left == [".agents", ".coterie"], "what holds something is not its leftover"


def test_words_without_the_event_that_ends_them_are_no_reply(clis: InProcessCli) -> None:
    """F3b: the agent printed its whole reply, and "All done!", and exited."""
    played = clis.user.home.parent / "claude.jsonl"
    steps = [json.loads(line) for line in played.read_text().splitlines()]
    end = next(n for n, one in enumerate(steps) if one.get("out", {}).get("type") == "result")
    played.write_text("".join(f"{json.dumps(one)}\n" for one in [*steps[:end], {"exit": 0}]))
    ran = clis("chat", "--json", "--agents", "claude", "hello")
    assert (ran.code, replies(ran)) == (3, {})
    (asked,) = ran.of("interaction")
    assert asked["about"]["kind"] == "failed_turn"
