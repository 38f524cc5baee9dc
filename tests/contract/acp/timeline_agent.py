"""A harness whose agent plays timelines, and the building blocks of timelines."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coterie.model.agent import AgentDefinition
from tests.contract.acp.harness import AcpHarness, MakeAdapter

HERE = Path(__file__).parent
PLAYER = HERE.parent / "recordings_player.py"
FIXTURES = HERE.parent / "fixtures"
SESSION = "s1"

Json = dict[str, Any]

NOISE = (
    "not JSON at all\n",
    '{"half": \n',
    "[1, 2]\n",
    "null\n",
    '{"jsonrpc": "2.0"}\n',
    '{"jsonrpc": "2.0", "id": 999, "result": {"stopReason": "end_turn"}}\n',
    '{"jsonrpc": "2.0", "method": "future/thing", "params": {"new": [1]}}\n',
    '{"jsonrpc": "2.0", "method": "session/update", "params": 5}\n',
    '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "another", "update": '
    '{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "lies"}}}}\n',
)


def recorded_steps(name: str) -> list[Json]:
    """The steps of a recording."""
    text = (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


class TimelineHarness(AcpHarness):
    """A harness whose agent is a program that plays timelines."""

    @classmethod
    def create(cls, root: Path, make: MakeAdapter, name: str) -> TimelineHarness:
        (root / "project").mkdir()
        (root / "heard").mkdir()
        return cls(root, make, AgentDefinition(name=name, command=str(root / name), adapter="acp"))

    def play(self, *timelines: Sequence[Json]) -> None:
        """Each start plays the next timeline; the last one is repeated."""
        paths: list[str] = []
        for number, steps in enumerate(timelines):
            path = self.root / f"timeline{number}.jsonl"
            path.write_text("".join(json.dumps(step) + "\n" for step in steps))
            paths.append(str(path))
        words = [sys.executable, "-I", "-S", str(PLAYER), str(self.root / "heard"), *paths, "--"]
        program = Path(self.agent.command)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)

    def received(self, start: int = 0) -> list[Json]:
        """What the agent received after its arguments, message by message."""
        return [json.loads(line) for line in self._lines(start)[1:]]

    def arguments(self, start: int = 0) -> list[str]:
        return json.loads(self._lines(start)[0])

    def replies(self, start: int = 0) -> list[Json]:
        """The responses the agent received."""
        told = [message for message in self.received(start) if "method" not in message]
        return [message.get("result") or message["error"] for message in told]

    def _lines(self, start: int) -> list[str]:
        return (self.root / "heard" / f"{start}.jsonl").read_text().splitlines()


# -- building blocks ---------------------------------------------------------------------------


def hello(*, version: int = 1, **new: Any) -> list[Json]:
    """An agent that starts and opens a session offering these options."""
    greeting = {"protocolVersion": version, "agentInfo": {"name": "fake", "version": "1.2.3"}}
    return [
        {"in": {"method": "initialize"}, "as": {"hello": "id"}},
        {"out": {"id": "{{hello}}", "result": greeting}},
        {
            "in": {"method": "session/new"},
            "as": {"new": "id", "servers": "params.mcpServers"},
        },
        {"out": {"id": "{{new}}", "result": {"sessionId": SESSION, **new}}},
    ]


PROMPT: Json = {"in": {"method": "session/prompt"}, "as": {"prompt": "id"}}


def done(reason: str = "end_turn", **more: Any) -> Json:
    return {"out": {"id": "{{prompt}}", "result": {"stopReason": reason, **more}}}


def broke(code: int, message: str, **more: Any) -> Json:
    error = {"code": code, "message": message, **more}
    return {"out": {"id": "{{prompt}}", "error": error}}


def update(kind: str, **more: Any) -> Json:
    told = {"sessionId": SESSION, "update": {"sessionUpdate": kind, **more}}
    return {"out": {"jsonrpc": "2.0", "method": "session/update", "params": told}}


def says(text: str, **more: Any) -> Json:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def text_block(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def call(call_id: str, **more: Any) -> Json:
    return update("tool_call", toolCallId=call_id, **more)


def called(call_id: str, **more: Any) -> Json:
    return update("tool_call_update", toolCallId=call_id, **more)


def request(number: int, method: str, **params: Any) -> Json:
    given = {"sessionId": SESSION, **params}
    return {"out": {"jsonrpc": "2.0", "id": number, "method": method, "params": given}}


def asks(number: int, call_id: str, *kinds: str, **tool_call: Any) -> Json:
    """Request permission for a call, with options of these kinds."""
    kinds = kinds or ("allow_always", "allow_once", "reject_once", "reject_always")
    options = [{"optionId": f"o-{kind}", "name": kind, "kind": kind} for kind in kinds]
    given = {"toolCallId": call_id, "status": "pending", **tool_call}
    return request(number, "session/request_permission", toolCall=given, options=options)


def answered(number: int) -> Json:
    return {"in": {"id": number, "result": {}}}


def chosen(kind: str) -> Json:
    """The response that chooses an option of this kind."""
    return {"outcome": {"outcome": "selected", "optionId": f"o-{kind}"}}
