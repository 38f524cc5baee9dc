"""An agent that changes files: `python editing_agent.py`, speaking the Agent Client Protocol.

It carries out the lines of the newest message: `!write PATH WORD…`, `!remove PATH` and
`!run COMMAND`, each after asking for permission, and `!hang`, which lasts until the agent ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

NUMBERS = count(1)


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)


def update(**told: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": "s", "update": told}})


def allowed(call: dict[str, Any]) -> bool:
    number = f"leave-{next(NUMBERS)}"
    options = [{"optionId": word, "name": word, "kind": f"{word}_once"} for word in OPTIONS]
    params = {"sessionId": "s", "toolCall": call, "options": options}
    send({"id": number, "method": "session/request_permission", "params": params})
    while True:
        heard = receive()
        if heard.get("id") == number:
            return heard["result"]["outcome"].get("optionId") == "allow"


OPTIONS = ("allow", "reject")


def carry_out(line: str) -> None:
    verb, _, rest = line.partition(" ")
    if verb == "!hang":
        threading.Event().wait()
    call: dict[str, Any] = {"toolCallId": f"c{next(NUMBERS)}", "status": "pending"}
    if verb == "!run":
        call |= {"kind": "execute", "title": rest, "rawInput": {"command": rest}}
    else:
        path = str(Path(rest.partition(" ")[0]).absolute())
        call |= {"kind": "edit", "title": rest, "locations": [{"path": path}]}
    done = allowed(call) and execute(verb, rest)
    status = "completed" if done else "failed"
    update(sessionUpdate="tool_call_update", toolCallId=call["toolCallId"], status=status)


def execute(verb: str, rest: str) -> bool:
    if verb == "!run":
        return (
            subprocess.run(rest, shell=True, stdin=subprocess.DEVNULL, check=False).returncode == 0
        )
    path, _, text = rest.partition(" ")
    if verb == "!remove":
        Path(path).unlink()
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text.replace("\\n", "\n") + "\n")
    return True


def main() -> None:
    while True:
        heard = receive()
        match heard.get("method"):
            case "initialize":
                send({"id": heard["id"], "result": {"protocolVersion": 1}})
            case "session/new":
                send({"id": heard["id"], "result": {"sessionId": "s"}})
            case "session/prompt":
                said = "".join(part.get("text", "") for part in heard["params"]["prompt"])
                for line in said.rpartition("[MESSAGE]\n")[2].splitlines():
                    if line.startswith("!"):
                        carry_out(line)
                text = {"type": "text", "text": "Done."}
                update(sessionUpdate="agent_message_chunk", content=text)
                send({"id": heard["id"], "result": {"stopReason": "end_turn"}})
            case _:
                pass


main()
