"""Turns a raw recording of an agent into a timeline for the recordings player.

    python -m tests.contract.acp.timeline RECORDING [TURN...] > tests/contract/fixtures/…/NAME.jsonl

RECORDING is a connection of the Agent Client Protocol, one message per line with its direction,
or a headless run of Gemini in one JSON object.  Of a connection, only the named turns (counted from
1) are kept, and long lists that are irrelevant to the protocol are truncated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LONG = ("availableCommands", "availableModels", "authMethods", "options")
KEPT = 3


def connection(rows: list[Json], turns: set[int]) -> Iterator[Json]:
    """The steps of a connection."""
    turn, kept = 0, True
    for row in rows:
        message, ours = row["msg"], row["dir"] == ">>"
        if ours and message.get("method") == "session/prompt":
            turn += 1
            kept = not turns or turn in turns
        if kept:
            yield expected_input(message) if ours else {"out": agent_output(message)}


def expected_input(message: Json) -> Json:
    """What the agent should wait for."""
    if "method" not in message:
        kind = "result" if "result" in message else "error"
        return {"in": {"id": message["id"], kind: {}}}
    step: Json = {"in": {"method": message["method"]}}
    if "id" in message:
        step["as"] = {f"r{message['id']}": "id"}
    return step


def agent_output(message: Json) -> Json:
    """What the agent says, with request ids replaced by those of the current run."""
    if "method" in message:
        return trimmed(message)
    return trimmed({**message, "id": f"{{{{r{message['id']}}}}}"})


def trimmed(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: trimmed(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [trimmed(part) for part in (value[:KEPT] if name in LONG else value)]
    return value


def run(recorded: Json) -> Iterator[Json]:
    """The steps of a headless run, which receives its prompt before it prints anything."""
    for _, line in recorded["stdout"]:
        yield {"raw": line}
    yield {"err": "".join(line for _, line in recorded["stderr"])[-2000:]}
    yield {"exit": recorded["exit"]}


def steps(recording: Path, turns: set[int]) -> Iterator[Json]:
    text = recording.read_text(encoding="utf-8")
    if recording.suffix == ".json":
        return run(json.loads(text))
    return connection([json.loads(line) for line in text.splitlines()], turns)


if __name__ == "__main__":
    for each in steps(Path(sys.argv[1]), set(map(int, sys.argv[2:]))):
        print(json.dumps(each, ensure_ascii=False, separators=(",", ":")))
