"""An agent that changes files without reporting it: `python writing_agent.py [--stay]`, prompts on
stdin, one JSON line out for each.

It carries out each line of a message that it knows: `write FILE TEXT`, `remove FILE`, `hang`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def take(prompt: str) -> None:
    for line in prompt.rpartition("[MESSAGE]\n")[2].splitlines():
        verb, *rest = line.split(" ", 2)
        if verb == "write":
            place = Path(rest[0])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{rest[1]}\n")
        elif verb == "remove":
            Path(rest[0]).unlink()
        elif verb == "hang":
            time.sleep(600)
    print(json.dumps({"type": "result", "text": "So be it."}), flush=True)


if "--stay" in sys.argv:
    for line in sys.stdin:
        take(json.loads(line)["text"])
else:
    take(sys.stdin.read())
