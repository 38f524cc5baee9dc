"""An agent that replies or fails with texts from a file: `python leaky_agent.py FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    planted = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    prompt = sys.stdin.read().rpartition("[MESSAGE]\n")[2]
    if "fail" in prompt:
        sys.stderr.write(planted["error"])
        sys.exit(3)
    print(json.dumps({"type": "result", "text": planted["message"]}), flush=True)


main()
