"""Plays an agent from recordings: prints the recorded output in reaction to its input.

    recordings_player.py HEARD TIMELINE... -- whatever the agent would be started with

The first start plays the first timeline, the next the second, and so on; the last one is repeated.
The arguments and input of a start are written to HEARD/<number>.jsonl.  A timeline has one JSON
object per line, a step:

    {"in": {...}, "as": {"name": "path.to.a.value"}}   read on until a line contains all of this
    {"out": {...}}                                     print this as a line
    {"repeat": {...}}                                  print this as a line until terminated
    {"raw": "..."}                                     print exactly this
    {"err": "..."}                                     print this to stderr
    {"tool": "...", "given": {...}}                    call a tool of the first server it was
                                                       given, and report the result over ACP
    {"exit": 3}                                        exit

In what a step prints, "{{name}}" is replaced by the value that an earlier step remembered.
At the end of a timeline the player reads all further input and exits when it ends.  It uses
only the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def holds(found: Any, wanted: Any) -> bool:
    """Whether everything wanted is found; anything else found does not matter."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and holds(found[key], value) for key, value in wanted.items()
        )
    return found == wanted


def at(found: Any, path: str) -> Any:
    for key in path.split("."):
        found = found[key]
    return found


def filled(value: Any, known: dict[str, Any]) -> Any:
    """A value with remembered values filled in."""
    if isinstance(value, dict):
        return {key: filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, known) for item in value]
    if isinstance(value, str) and value.startswith("{{") and value.endswith("}}"):
        return known[value[2:-2]]
    return value


class Player:
    def __init__(self, heard: Path) -> None:
        self.heard = heard
        self.known: dict[str, Any] = {}
        self.said = 0

    def play(self, steps: list[dict[str, Any]]) -> int:
        for step in steps:
            if "in" in step:
                if not self.wait_for(step):
                    return 0
            elif "exit" in step:
                return step["exit"]
            elif "tool" in step:
                self.call(step)
            else:
                self.say(step)
        while self.line():
            pass
        return 0

    def wait_for(self, step: dict[str, Any]) -> bool:
        while line := self.line():
            told = json.loads(line)
            if holds(told, step["in"]):
                for name, path in step.get("as", {}).items():
                    self.known[name] = at(told, path)
                return True
        return False

    def line(self) -> bytes:
        line = sys.stdin.buffer.readline()
        self.note(line)
        return line

    def call(self, step: dict[str, Any]) -> None:
        """Start the server, call the tool, and once it responds, report the result."""
        server = self.known["servers"][0]
        command = [server["command"], *server["args"]]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
            given = {"name": step["tool"], "arguments": step["given"]}
            reply: dict[str, Any] = {}
            for number, (method, params) in enumerate(
                [("initialize", hello), ("tools/list", {}), ("tools/call", given)]
            ):
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                child.stdin.write(json.dumps(request) + "\n")
                child.stdin.flush()
                if method == "tools/call" and "first" in step:
                    self.wait_for(step["first"])
                reply = json.loads(child.stdout.readline())
            child.stdin.close()
        text = reply["result"]["content"][0]["text"]
        block = {"type": "text", "text": text}
        self.said += 1
        name = f"m{self.said}"
        told = {"sessionUpdate": "agent_message_chunk", "content": block, "messageId": name}
        params = {"sessionId": "s1", "update": told}
        self.say({"out": {"jsonrpc": "2.0", "method": "session/update", "params": params}})

    def say(self, step: dict[str, Any]) -> None:
        while "repeat" in step:
            self.say({"out": step["repeat"]})
            time.sleep(0.05)
        if "err" in step:
            os.write(2, step["err"].encode())
        raw = step.get("raw", "").encode("utf-8", "surrogateescape")
        if "out" in step:
            raw = json.dumps(filled(step["out"], self.known)).encode() + b"\n"
        while raw:
            raw = raw[os.write(1, raw) :]

    def note(self, line: bytes) -> None:
        with self.heard.open("ab") as file:
            file.write(line)


def main() -> int:
    cut = sys.argv.index("--")
    folder, *timelines = sys.argv[1:cut]
    started = len(list(Path(folder).iterdir()))
    player = Player(Path(folder) / f"{started}.jsonl")
    player.note(json.dumps(sys.argv[cut + 1 :]).encode() + b"\n")
    timeline = Path(timelines[min(started, len(timelines) - 1)])
    lines = timeline.read_text(encoding="utf-8").splitlines()
    return player.play([json.loads(line) for line in lines if line.strip()])


if __name__ == "__main__":
    sys.exit(main())
