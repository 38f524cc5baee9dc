"""Agents with their own adapters in a team: programs that speak like the real ones."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cli.command import InProcessCli
from tests.contract import test_claude as claude
from tests.contract import test_codex as codex
from tests.contract.acp import timeline_agent
from tests.contract.claude.timeline import HELLO

Step = dict[str, Any]
SIGNED_IN = 'case "$*" in *"auth status") exit 0 ;; esac'
_CODEX = codex.turn(
    codex.notification("item/agentMessage/delta", itemId="a", delta="codex says so")
)
SPEAKS: dict[str, tuple[list[Step], list[Step]]] = {
    # The steps of the reply, then the event that marks the end of the turn.
    "claude": ([*HELLO, *claude.BEGINS, claude.assistant_text("claude says so")], claude.ENDS),
    "codex": (_CODEX[:-1], _CODEX[-1:]),
    "gemini": (
        [*timeline_agent.hello(), timeline_agent.PROMPT, timeline_agent.says("gemini says so")],
        [timeline_agent.done()],
    ),
    "other": (
        [*timeline_agent.hello(), timeline_agent.PROMPT, timeline_agent.says("other says so")],
        [timeline_agent.done()],
    ),
}


def install(cli: InProcessCli, name: str, steps: Sequence[Step]) -> dict[str, Any]:
    """Install a program that plays these steps and records its input; return its registry entry."""
    folder = cli.user.home / name
    folder.mkdir()
    (folder / "heard").mkdir()
    recording = folder / "recording.jsonl"
    recording.write_text("".join(json.dumps(step) + "\n" for step in steps))
    player = [timeline_agent.PLAYER, folder / "heard", recording, "--"]
    if name == "codex":
        player = [codex.PLAYER, recording, "plain"]
    words = shlex.join([sys.executable, "-I", "-S", *map(str, player)])
    program = folder / name
    program.write_text(f'#!/bin/sh\n{SIGNED_IN}\nexec {words} "$@"\n')
    program.chmod(0o755)
    # Silence would end the turns of a program that is known only by this entry.
    silent = {"completionDetection": "idleTimeout", "idleTimeoutMs": 50}
    adapter = "acp" if name == "other" else name
    return {"command": str(program), "adapter": adapter, "capabilities": silent}


def received_by(cli: InProcessCli, name: str) -> str:
    """How a program was started, and all the input it received."""
    folder = cli.user.home / name
    return "".join(path.read_text() for path in folder.rglob("*.jsonl") if path.stem != "recording")


def test_each_gets_the_message_and_gives_its_reply(in_process: InProcessCli) -> None:
    programs = {
        name: install(in_process, name, [*said, *end]) for name, (said, end) in SPEAKS.items()
    }
    in_process.registry(**programs)
    ran = in_process("chat", "--json", "--agents", ",".join(SPEAKS), "Is it so?")
    assert (ran.code, ran.of("error")) == (0, [])
    assert [(one["member"], one["text"]) for one in ran.of("message")] == [
        (name, f"{name} says so") for name in SPEAKS
    ]
    for name in SPEAKS:
        assert "Is it so?" in received_by(in_process, name), name
        assert "[DONE]" not in received_by(in_process, name) + ran.out


@pytest.mark.parametrize("name", SPEAKS)
def test_silence_is_no_end_where_the_program_says_when_it_ends(
    in_process: InProcessCli, name: str
) -> None:
    in_process.registry(**{name: install(in_process, name, SPEAKS[name][0])})
    in_process.members({"id": "ada", "agent": name, "timeoutMs": 400})
    ran = in_process("chat", "--json", "Is it so?")
    assert (ran.code, ran.of("message")) == (3, [])
    assert ran.of("error")[0]["code"] == "turn_timeout"
    assert "stuck" in [one["state"] for one in ran.of("member")]
