"""Plays a recording of Codex: `player.py RECORDING MODE app-server|exec …`.

As an app-server it answers a request with whatever follows the next request of the same method in
the recording, up to what the recorded client sent next.  As `exec` it prints the whole recording.
It uses only the standard library: to the adapter it is as foreign as Codex itself.

Modes: plain; halves (each line in pieces); noise (unknown messages between the lines);
exit:N (exits after N messages, in the middle of a line); silent; end (exits at once).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

UNRECORDED: dict[str, dict[str, Any]] = {
    "account/read": {"account": None, "requiresOpenaiAuth": False},
    "skills/list": {"data": [{"skills": [{"path": "/lab/work/.agents/skills/x/SKILL.md"}]}]},
}
NOISE = (
    "not JSON at all",
    '{"half": ',
    "[1, 2]",
    "null",
    '{"params": 5}',
    '{"method": "future/thing"}',
    '{"method": "turn/completed", "params": {"threadId": "another", "turn": {"id": "x"}}}',
    '{"method": "item/started", "params": {"threadId": "%(thread)s", "item": {"type": "future"}}}',
    '{"method": "item/completed", "params": {"threadId": "%(thread)s", "item": null}}',
    '{"method": "future/thing", "params": {"threadId": "%(thread)s", "new": {"deep": [1]}}}',
)


class Player:
    def __init__(self, rows: list[dict[str, Any]], mode: str) -> None:
        self.rows = rows
        self.mode = mode
        self.next = 0
        self.said = 0
        self.thread = ""

    def say(self, message: dict[str, Any]) -> None:
        if self.mode == "noise":
            for line in NOISE:
                self.write(line % {"thread": self.thread} + "\n")
            message = {**message, "unheard": {"of": 1}}
        line = json.dumps(message) + "\n"
        self.said += 1
        if self.mode == f"exit:{self.said}":
            self.write(line[: len(line) // 2])
            sys.stderr.write("\x1b[31mERROR\x1b[0m it broke\n")
            sys.exit(3)
        self.write(line)

    def write(self, line: str) -> None:
        data = line.encode()
        size = 7 if self.mode == "halves" else len(data)
        for start in range(0, len(data), size):
            os.write(1, data[start : start + size])

    def receive(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:  # a response to one of our requests
            if self.waits_for_answer():
                self.next += 1
                self.go_on(None, None)
        elif "id" in message:
            self.asked(message["id"], method)

    def asked(self, request: object, method: str) -> None:
        for place in range(self.next, len(self.rows)):
            row = self.rows[place]
            if row["dir"] == ">" and row["msg"].get("method") == method:
                self.next = place + 1
                self.go_on(request, row["msg"].get("id"))
                return
        self.say({"id": request, "result": UNRECORDED.get(method, {})})

    def go_on(self, request: object, recorded: object) -> None:
        while self.next < len(self.rows) and self.rows[self.next]["dir"] == "<":
            message = self.rows[self.next]["msg"]
            self.next += 1
            if "method" not in message and message.get("id") == recorded:
                message = {**message, "id": request}
                result = message.get("result", {})
                if "thread" in result:
                    self.thread = result["thread"]["id"]
                    profile = {"activePermissionProfile": {"id": "coterie"}}
                    message["result"] = {
                        **profile,
                        **without_nulls(result),
                        "approvalPolicy": "untrusted",
                    }
            self.say(message)

    def waits_for_answer(self) -> bool:
        if self.next >= len(self.rows):
            return False
        row = self.rows[self.next]
        return row["dir"] == ">" and "method" not in row["msg"]


def without_nulls(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if value is not None}


def main() -> int:
    recording, mode, way = sys.argv[1:4]
    rows = [json.loads(line) for line in Path(recording).read_text().splitlines()]
    if mode == "end":
        sys.stderr.write("boom\n")
        return 1
    if way == "exec":
        sys.stdin.read()
        player = Player([], mode)
        for row in rows:
            player.say(row)
        return 0
    player = Player(rows, mode)
    for line in sys.stdin:
        if Path(recording).name == "recording.jsonl":  # written by a test, not a fixture
            with Path(recording).with_name("heard.jsonl").open("a") as heard:
                heard.write(line)
        if mode != "silent":
            player.receive(json.loads(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
