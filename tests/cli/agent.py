"""A small agent for these tests: `python agent.py NAME`, the prompt on stdin, one JSON line out.

A keyword in the newest message makes it do something other than repeat that message.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    name = sys.argv[1]
    said = sys.stdin.read().rpartition("[MESSAGE]\n")[2].strip()
    if f"{name}-fails" in said:
        sys.stderr.write("stream disconnected\n")
        sys.exit(3)
    if f"{name}-hangs" in said:
        time.sleep(600)
    text = f"{name} heard {said.splitlines()[0]!r}"
    if f"{name}-escapes" in said:
        text = "a \x1b[31mred\x1b[0m word\x07 and \u202ebackwards"
    print(json.dumps({"type": "result", "text": text}), flush=True)


main()
