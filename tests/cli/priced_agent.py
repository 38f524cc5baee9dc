"""An agent that reports its costs: `python priced_agent.py`, speaking the Agent Client Protocol.
Every turn costs 100 tokens and ten cents.

`hold PATH` in the newest message keeps the turn going until that file exists; `PATH.begun` is
written when the turn begins.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(**told: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": told}})


def hold(said: str) -> None:
    found = re.search(r"hold (\S+)", said)
    if found:
        Path(f"{found[1]}.begun").touch()
        while not Path(found[1]).exists():
            time.sleep(0.02)


def main() -> None:
    turns = 0
    for line in sys.stdin:
        heard = json.loads(line)
        match heard.get("method"):
            case "initialize":
                send({"id": heard["id"], "result": {"protocolVersion": 1}})
            case "session/new":
                send({"id": heard["id"], "result": {"sessionId": "s"}})
            case "session/prompt":
                turns += 1
                said = "".join(part.get("text", "") for part in heard["params"]["prompt"])
                hold(said.rpartition("[MESSAGE]\n")[2])
                text = {"type": "text", "text": "Done."}
                update(sessionUpdate="agent_message_chunk", content=text)
                cost = {"currency": "USD", "amount": turns / 10}
                update(sessionUpdate="usage_update", used=100, size=1000, cost=cost)
                usage = {"inputTokens": 90, "outputTokens": 10, "totalTokens": 100}
                send({"id": heard["id"], "result": {"stopReason": "end_turn", "usage": usage}})
            case _:
                pass


main()
