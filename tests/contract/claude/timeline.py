"""Turns a raw recording of Claude Code into a timeline for the recordings player.

    python -m tests.contract.claude.timeline RECORDING > tests/contract/fixtures/claude/NAME.jsonl

RECORDING is a folder with `stdout.jsonl` and, if anything was sent, `stdin.jsonl`.  Claude's
output is kept unchanged, except for long lists that are irrelevant to the protocol.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.contract.recordings_player import holds

Json = dict[str, Any]

LONG = frozenset(
    {
        "agents",
        "mcp_servers",
        "plugins",
        "skills",
        "slash_commands",
        "subagent_stats",
        "tools",
    }
)
OPENINGS: list[Json] = [
    {"subtype": "session_state_changed", "state": "running"},
    {"type": "command_lifecycle", "state": "queued"},
    {"subtype": "init"},
]
"""Marks of the beginning of a turn, most reliable first."""
HELLO: list[Json] = [
    {
        "in": {"type": "control_request", "request": {"subtype": "initialize"}},
        "as": {"hello": "request_id"},
    },
    {
        "out": {
            "type": "control_response",
            "response": {
                "subtype": "success",
                "request_id": "{{hello}}",
                "response": {"claude_code_version": "2.1.325"},
            },
        }
    },
]


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def steps(recording: Path) -> Iterator[Json]:
    sent, printed = lines_of(recording / "stdin.jsonl"), lines_of(recording / "stdout.jsonl")
    mine = {line["uuid"] for line in sent if line.get("uuid")}
    answers = {line["response"]["request_id"] for line in sent if "response" in line}
    asked = [line["request"]["subtype"] for line in sent if line["type"] == "control_request"]
    # A prompt given as an argument counts as one.  Later turns began by themselves.
    prompts = sum(line["type"] == "user" for line in sent) or 1
    opening = next(mark for mark in OPENINGS if any(holds(line, mark) for line in printed))
    yield from HELLO
    waited = False
    for line in printed:
        kind = line.get("type")
        if kind == "control_response" and "commands" in json.dumps(line):
            asked.remove("initialize")
            continue
        if kind in ("control_response", "control_cancel_request") and not waited:
            yield input_step("control_request", "ours", {"request": {"subtype": asked.pop(0)}})
        waited = kind == "control_cancel_request"
        if kind == "control_response":
            line["response"]["request_id"] = "{{ours}}"
        if prompts and holds(line, opening):
            yield {"in": {"type": "user"}, "as": {"message": "uuid"}}
            prompts -= 1
        yield {"out": renamed(trimmed(line), mine)}
        if kind == "control_request" and line["request_id"] in answers:
            response = {"response": {"request_id": line["request_id"]}}
            yield {"in": {"type": "control_response", **response}}


def input_step(kind: str, name: str, more: Json) -> Json:
    return {"in": {"type": kind, **more}, "as": {name: "request_id"}}


def trimmed(line: Json) -> Json:
    return {key: value for key, value in line.items() if key not in LONG}


def renamed(value: Any, mine: set[str]) -> Any:
    """Replace the recorded message ids with that of the message being sent now."""
    if isinstance(value, dict):
        return {key: renamed(item, mine) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, mine) for item in value]
    return "{{message}}" if isinstance(value, str) and value in mine else value


if __name__ == "__main__":
    for step in steps(Path(sys.argv[1])):
        print(json.dumps(step, ensure_ascii=False, separators=(",", ":")))
