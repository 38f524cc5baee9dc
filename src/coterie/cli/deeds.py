"""What an agent did with a tool, in a few words.

"ran" is what an agent did and Coterie only saw; "checked" is kept for what Coterie did itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from coterie.cli.text import one_line

_TELLING = ("file_path", "path", "command", "pattern", "query", "url", "question")
"""Fields of a tool's input that say most about a call, in this order."""
_CHANGING = re.compile(r"edit|write|patch|replace|delete|move", re.I)
_READING = re.compile(r"read|view|list", re.I)


def telling(given: Mapping[str, object]) -> str:
    """A tool's input in a few words."""
    for key in _TELLING:
        value = given.get(key)
        if isinstance(value, str) and value:
            return one_line(value)
    return one_line(json.dumps(given, ensure_ascii=False, default=str)) if given else ""


def deed(name: str, given: Mapping[str, object]) -> str:
    """`ran pytest -q`, `changed cart.py`, `used WebSearch …`."""
    command = given.get("command")
    if isinstance(command, str) and command.strip():
        return f"ran {one_line(command)}"
    for verb, tools in (("changed", _CHANGING), ("read", _READING)):
        if tools.search(name) and any(key in given for key in ("file_path", "path")):
            return f"{verb} {telling(given)}"
    return f"used {one_line(name)} {telling(given)}".rstrip()
