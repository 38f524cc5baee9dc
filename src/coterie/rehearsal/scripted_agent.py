"""A scripted agent: a real process that really reads a file, with rules in place of a model.

Run as `python scripted_agent.py SCRIPT.json` in the folder of the file; the prompt comes on stdin,
the reply goes to stdout as one JSON line.  It uses only the standard library and imports nothing
from Coterie, so that it starts as fast as Python does and is as foreign to Coterie as any CLI.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def main() -> int:
    """Take one turn."""
    script = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    prompt = sys.stdin.read()
    emit("started", reads=script["reads"])
    time.sleep(script.get("seconds", 0))  # long enough for a person to see who is working
    source = Path(script["reads"]).read_text(encoding="utf-8").splitlines()
    emit("result", text=reply(script, source, prompt))
    return 0


def emit(kind: str, **fields: object) -> None:
    """Print one JSON line."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def reply(script: dict[str, Any], source: list[str], prompt: str) -> str:
    """Compose a reply with the findings about the source and their line numbers."""
    name = script["reads"]
    findings = sorted(finding for rule in script["rules"] for finding in applied(rule, source))
    if not findings:
        return f"I read {name} ({len(source)} lines) and found nothing."
    spoken = sorted({int(line) for line in re.findall(rf"\b{re.escape(name)}:(\d+)", prompt)})
    lines = ", ".join(map(str, spoken))
    notice = f" I heard about {'line' if len(spoken) == 1 else 'lines'} {lines}." if spoken else ""
    says = [f"- {name}:{number} {text}" for number, text in findings]
    return "\n".join([f"{script['opening']}{notice}", *says])


def applied(rule: dict[str, str], source: list[str]) -> list[tuple[int, str]]:
    """Return a finding, with its line number, for every match of the rule after its `after`."""
    findings: list[tuple[int, str]] = []
    reached = not rule.get("after")
    for number, line in enumerate(source, 1):
        if not reached:
            reached = re.search(rule["after"], line) is not None
        elif match := re.search(rule["pattern"], line):
            findings.append((number, rule["says"].format(*match.groups())))
            if rule.get("after"):
                reached = False
    return findings


if __name__ == "__main__":
    sys.exit(main())
