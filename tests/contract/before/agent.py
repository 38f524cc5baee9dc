"""A member of the fixture's chats: `python agent.py NAME [hang]`, the prompt on stdin.

With `hang` it never ends a turn whose newest message says `NAME-hangs`: that is where the
fixture's chats were interrupted or stopped.  Without it, as when they are resumed, every turn ends.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    name, *hang = sys.argv[1:]
    said = sys.stdin.read().rpartition("[MESSAGE]\n")[2].strip()
    if hang and f"{name}-hangs" in said:
        time.sleep(600)
    text = f"{name} heard {said.splitlines()[0]!r}"
    print(json.dumps({"type": "result", "text": text}), flush=True)


main()
