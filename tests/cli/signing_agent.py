"""Speaks the Agent Client Protocol as Gemini does, and renews its login as a careless CLI does: it
reads the file, takes its time, and writes it, without a lock.  Each renewal is a line in `renewed`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

LOGIN = Path(os.environ["HOME"]) / ".gemini" / "oauth_creds.json"


def sign_in() -> None:
    login = json.loads(LOGIN.read_text())
    if login["expiry_date"] / 1000 > time.time():
        return
    time.sleep(0.7)
    with (LOGIN.resolve().parent / "renewed").open("a") as file:
        file.write("once\n")
    LOGIN.write_text(json.dumps({**login, "expiry_date": (time.time() + 3600) * 1000}))


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        result: dict[str, Any] = {}
        match asked.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentInfo": {"name": "fake", "version": "1"}}
            case "session/new":
                result = {"sessionId": "s1"}
            case "session/prompt":
                sign_in()
                words = {"type": "text", "text": "signed in"}
                said = {"sessionUpdate": "agent_message_chunk", "content": words}
                send({"method": "session/update", "params": {"sessionId": "s1", "update": said}})
                result = {"stopReason": "end_turn"}
            case _:
                continue
        send({"id": asked["id"], "result": result})


if "--version" in sys.argv:
    print("1.0.0")
else:
    main()
