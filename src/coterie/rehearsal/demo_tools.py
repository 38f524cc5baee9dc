"""How each agent is had to do something: read a file, make one, change one, run a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coterie.rehearsal.dialogue import Asked, Client, ToolCall


@dataclass(frozen=True)
class Look:
    """Read a file; before it is changed, for some agents change nothing that they did not see."""

    path: str


@dataclass(frozen=True)
class Make:
    """Write a new file."""

    path: str
    text: str


@dataclass(frozen=True)
class Change:
    """Put one piece of a file in the place of another."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Settle:
    """Write a whole file anew that holds both sides of a conflict."""

    path: str
    text: str


@dataclass(frozen=True)
class Run:
    """Run a command."""

    command: str


Act = Look | Make | Change | Settle | Run


def call_for(act: Act, asked: Asked) -> ToolCall:
    """The call of the client's own tool that does it."""
    return _TOOLS.get(asked.client, _builtin)(act, asked)


def _claude(act: Act, asked: Asked) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("Read", {"file_path": path})
        case Make(path, content) | Settle(path, content):
            return ToolCall("Write", {"file_path": path, "content": content})
        case Change(path, old, new):
            return ToolCall("Edit", {"file_path": path, "old_string": old, "new_string": new})
        case Run(command):
            return ToolCall("Bash", {"command": command})


def _codex(act: Act, asked: Asked) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("exec_command", {"cmd": f"cat {path}"})
        case Make(path, content) | Settle(path, content):
            return _patch(f"Add File: {path}", _marked("+", content))
        case Change(path, old, new):
            return _patch(f"Update File: {path}\n@@", _marked("-", old) + _marked("+", new))
        case Run(command):
            return ToolCall("exec_command", {"cmd": command})


def _patch(what: str, lines: str) -> ToolCall:
    return ToolCall("apply_patch", f"*** Begin Patch\n*** {what}\n{lines}*** End Patch\n")


def _marked(mark: str, lines: str) -> str:
    return "".join(f"{mark}{line}\n" for line in lines.splitlines())


def _gemini(act: Act, asked: Asked) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("read_file", {"file_path": path})
        case Make(path, content) | Settle(path, content):
            return ToolCall("write_file", {"file_path": path, "content": content})
        case Change(path, old, new):
            said = {"instruction": f"Change {path}.", "old_string": old, "new_string": new}
            return ToolCall("replace", {"file_path": path, **said})
        case Run(command):
            return ToolCall("run_shell_command", {"command": command, "description": "Run tests."})


def _builtin(act: Act, asked: Asked) -> ToolCall:
    match act:
        case Look(path):
            return ToolCall("readFile", {"path": path})
        case Make(path, content):
            return ToolCall("editFile", {"path": path, "oldStr": "", "newStr": content})
        case Change(path, old, new):
            return ToolCall("editFile", {"path": path, "oldStr": old, "newStr": new})
        case Settle(path, content):
            # It cannot write a file anew, so all that it just read is put out.
            old, new = _seen(asked), content.rstrip("\n")
            return ToolCall("editFile", {"path": path, "oldStr": old, "newStr": new})
        case Run(command):
            return ToolCall("runCommand", {"command": command})


def _seen(asked: Asked) -> str:
    """The text of the file that was just read: it comes after a few facts and an empty line."""
    return asked.results[-1].text.partition("\n\n")[2] if asked.results else ""


_TOOLS: Mapping[Client, Callable[[Act, Asked], ToolCall]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "builtin": _builtin,
}
