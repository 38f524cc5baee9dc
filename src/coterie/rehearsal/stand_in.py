"""A stand-in for an agent whose model cannot be replaced: a program that asks the rehearsal.

Run as `python stand_in.py ADDRESS may-write|reads-only …` in the folder to work in.  The prompt
comes on stdin, the reply goes to stdout as one JSON line; further arguments, meant for another
program, are ignored.  Like the agents that it stands in for, it does not report which files it
changes.  It uses only the standard library and imports nothing from Coterie.
"""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MAY_WRITE, READS_ONLY = "may-write", "reads-only"
CLIENT = "coterie-stand-in"
_MOST_CALLS = 50
_FIELDS = {
    "read_file": ("path",),
    "write_file": ("path", "text"),
    "edit_file": ("path", "old", "new"),
}


def main() -> int:
    """Take one turn."""
    address, may_write = sys.argv[1], sys.argv[2] == MAY_WRITE
    names = list(_FIELDS) if may_write else ["read_file"]
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    messages: list[dict[str, Any]] = [{"role": "user", "content": sys.stdin.read()}]
    for _ in range(_MOST_CALLS):
        content = ask(address, {"model": "rehearsal", "tools": tools, "messages": messages})
        calls = [block for block in content if block["type"] == "tool_use"]
        if not calls:
            reply = "".join(block["text"] for block in content if block["type"] == "text")
            sys.stdout.write(json.dumps({"type": "result", "result": reply}) + "\n")
            return 0
        results = [result(call, names) for call in calls]
        messages += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": results},
        ]
    sys.stderr.write(f"More than {_MOST_CALLS} tool calls in one turn.\n")
    return 1


def ask(address: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Send a request to the rehearsal and return the content of its answer."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)
    head = {"content-type": "application/json", "user-agent": CLIENT, "x-api-key": "rehearsal"}
    connection.request("POST", f"{url.path}/v1/messages", json.dumps(body), head)
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        sys.exit(f"{response.status}: {answer['error']['message']}")
    return answer["content"]


def result(call: dict[str, Any], allowed: list[str]) -> dict[str, Any]:
    """Run one tool call and return its result."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call["id"]}
    try:
        if call["name"] not in allowed:
            raise ValueError(f"unknown tool {call['name']}; available: {', '.join(allowed)}")
        arguments = [str(call["input"][field]) for field in _FIELDS[call["name"]]]
        return {**block, "content": _DO[call["name"]](*arguments)}
    except (OSError, ValueError, KeyError) as error:
        return {**block, "content": f"Error: {error}", "is_error": True}


def read_file(path: str) -> str:
    """Return the text of a file."""
    return place(path).read_text(encoding="utf-8")


def write_file(path: str, text: str) -> str:
    """Write a whole file, creating the folders it needs."""
    target = place(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return f"{path} was written."


def edit_file(path: str, old: str, new: str) -> str:
    """Replace one text with another."""
    text = read_file(path)
    if not old or text.count(old) != 1:
        raise ValueError(f"{path} does not contain that text exactly once")
    return write_file(path, text.replace(old, new))


def place(path: str) -> Path:
    """Resolve a path; refuses paths outside the folder, in `.git` and in `.coterie`."""
    folder = Path.cwd().resolve()
    target = (folder / path).resolve()
    if not target.is_relative_to(folder) or not {".git", ".coterie"}.isdisjoint(
        target.relative_to(folder).parts
    ):
        raise ValueError(f"{path} is outside the folder, or in .git or .coterie")
    return target


_DO: dict[str, Any] = {"read_file": read_file, "write_file": write_file, "edit_file": edit_file}


if __name__ == "__main__":
    sys.exit(main())
