"""The tool calls of a turn, each reported once, from the two ways in which Codex reports them.

An item says more (the exit code, the diff), but a command that the sandbox stopped may have no
item, or one that never ends.  The raw response items miss none, so whichever comes first begins a
call; its item ends it or, failing that, the raw output that follows.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import cast

from coterie.agents.codex import hook
from coterie.agents.fields import bounded, mapping, mappings, verbatim
from coterie.agents.process import Object
from coterie.agents.program import CallLedger, CallUpdate
from coterie.agents.team_tools.serving import is_ours
from coterie.model.tool_call import Effect
from coterie.model.update import ToolCallStarted

SHELL = "shell"
PATCH = "apply_patch"
TYPED = "write_stdin"
_EXIT = re.compile(r"exited with code (-?\d+)")
_GOES_ON = re.compile(r"running with session ID \d+")
_OWN_NAMES = {"exec_command": SHELL}
_EFFECTS: Mapping[str, Effect] = {
    SHELL: "run",
    TYPED: "run",
    PATCH: "write",
    **dict.fromkeys(("tool_search_call", "update_plan", "view_image"), "read"),
}
_SHELLS = frozenset(
    f"{folder}{name}"
    for folder in ("", "/bin/", "/usr/bin/")
    for name in ("bash", "dash", "sh", "zsh")
)


class CodexCalls(CallLedger):
    """Which calls of a turn have begun and which have ended."""

    def __init__(self, permits_folder: str = "") -> None:
        super().__init__()
        self._permits_folder = permits_folder
        """The folder of the permits that commands wait for; empty if they need none."""
        self._held: dict[str, ToolCallStarted] = {}
        """Patches that were only requested: their item, if they get one, describes them better."""
        self._with_item: set[str] = set()
        self._in_background: set[str] = set()
        self.left_behind: bool = False
        """Whether a command of the turn is still running after its end."""
        self._asked: Counter[str] = Counter()
        self._wanted: dict[str, Object] = {}
        """The model's arguments for each call, of which an item does not include all."""

    def wanted(self, call_id: str) -> Object:
        """Return the model's arguments for a call, as far as they are known."""
        return self._wanted.get(call_id, {})

    def waiting(self, call_id: str, line: str) -> tuple[str, str | None]:
        """Return Codex's command line without our condition, and the command in it that waits for
        our permit, whatever shell is to run it; None if it would run at once."""
        words = _split(line) if self._permits_folder else []
        original = hook.original(self._permits_folder, call_id, words[-1]) if words else None
        return (line, None) if original is None else (shlex.join((*words[:-1], original)), original)

    def asked(self, call_id: str) -> int:
        """Return the number of a question about a call."""
        self._asked[call_id] += 1
        return self._asked[call_id]

    def item_started(self, item: Object) -> Iterator[CallUpdate]:
        """Report that an item has begun."""
        call = self._call_of(item)
        if call is not None:
            self._with_item.add(call.call_id)
            yield from self.start(call)

    def item_completed(self, item: Object) -> Iterator[CallUpdate]:
        """Report that an item has ended, and that it began if that was missed."""
        yield from self.item_started(item)
        if self._call_of(item) is not None:
            failed = item.get("status") != "completed"
            yield from self.finish(str(item.get("id")), failed, _outcome(item))

    def raw(self, item: Object) -> Iterator[CallUpdate]:
        """Handle a raw response item: a call by the model, or the output that it was given."""
        call_id, kind = item.get("call_id"), str(item.get("type", ""))
        if not isinstance(call_id, str):
            return
        if kind.endswith("_call"):
            self._wanted[call_id] = _arguments(item)
            yield from self._asked_for(_raw_call(call_id, item))
        elif kind.endswith("_output"):
            yield from self._raw_output(call_id, item.get("output"))

    @property
    def runs_commands(self) -> bool:
        """Whether a command has begun but not ended, as far as is known."""
        return any(call.name == SHELL for call in self.running)

    def finish_open_calls(self, *, interrupted: bool) -> Iterator[CallUpdate]:
        """Finish open calls when the turn is over; background ones run on unless interrupted."""
        for call in self.running:
            if not interrupted and call.call_id in self._in_background:
                self.left_behind = True
                yield from self.finish(call.call_id, False, {"status": "running"})
        yield from super().finish_open_calls(interrupted=interrupted)

    def _call_of(self, item: Object) -> ToolCallStarted | None:
        if item.get("type") == "commandExecution":
            line, _ = self.waiting(str(item.get("id")), str(item.get("command") or ""))
            item = {**item, "command": line}
        return _call_of(item)

    def _raw_output(self, call_id: str, output: object) -> Iterator[CallUpdate]:
        if held := self._held.pop(call_id, None):
            yield from self.start(held)
        call = self.started.get(call_id)
        if call is None:
            return
        if call_id not in self._with_item:
            yield from self.finish(call_id, *_raw_outcome(call, output))
        elif call.name == SHELL:
            header = _header(_raw_text(output))
            if _GOES_ON.search(header):
                self._in_background.add(call_id)
            elif _EXIT.search(header):
                yield from self.finish(call_id, *_raw_outcome(call, output))

    def _asked_for(self, call: ToolCallStarted) -> Iterator[CallUpdate]:
        if call.name == PATCH:
            self._held[call.call_id] = call
        else:
            yield from self.start(call)


def _call_of(item: Object) -> ToolCallStarted | None:
    """Return the call that an item is about; None for messages, reasoning and unknown items."""
    given: Object
    match item.get("type"):
        case "commandExecution":
            name, given = SHELL, {"command": command_of(item.get("command"))}
        case "fileChange":
            changes = changes_of(item)
            paths = ", ".join(str(change.get("path", "")) for change in changes)
            name, given = PATCH, {"path": paths, "changes": changes}
        case "mcpToolCall":
            name = f"mcp__{item.get('server')}__{item.get('tool')}"  # as models call it
            given = mapping(item.get("arguments"))
        case "dynamicToolCall":
            name, given = str(item.get("tool")), mapping(item.get("arguments"))
        case _:
            return None
    return _started(str(item.get("id")), name, given)


def _started(call_id: str, name: str, given: Object) -> ToolCallStarted:
    effect = "read" if is_ours(name) else _EFFECTS.get(name, "other")
    return ToolCallStarted(call_id, name, verbatim(given), effect)


def _outcome(item: Object) -> Object:
    output = {
        "status": item.get("status"),
        "exit_code": item.get("exitCode"),
        "output": item.get("aggregatedOutput"),
        "result": item.get("result") or item.get("contentItems"),
        "error": item.get("error"),
    }
    return bounded({key: value for key, value in output.items() if value is not None})


def command_of(command: object) -> str:
    """Return the command itself, without the shell that Codex wraps around it."""
    text = str(command or "")
    words = _split(text)
    wrapped = len(words) == 3 and words[0] in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if wrapped else text


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []


def changes_of(item: Object) -> list[Object]:
    """Return the changes of a patch."""
    return mappings(item.get("changes"))


def _raw_call(call_id: str, item: Object) -> ToolCallStarted:
    name = str(item.get("name") or item.get("type"))
    namespace = item.get("namespace")
    given = _arguments(item)
    if name in _OWN_NAMES:
        given = {"command": given.get("cmd"), **{k: v for k, v in given.items() if k != "cmd"}}
    full = f"{namespace}__{name}" if namespace else _OWN_NAMES.get(name, name)
    return _started(call_id, full, given)


def _arguments(item: Object) -> Object:
    """Return a tool's arguments: JSON in a text, or the text itself (`apply_patch`, `exec`)."""
    text = item.get("arguments", item.get("input"))
    if isinstance(text, str):
        try:
            given: object = json.loads(text)
        except (ValueError, RecursionError):
            given = None
        return cast("Object", given) if isinstance(given, dict) else {"input": text}
    return mapping(text)


def _raw_text(output: object) -> str:
    if isinstance(output, list):
        parts = [mapping(part).get("text", "") for part in cast("list[object]", output)]
        return "\n".join(str(part) for part in parts if part)
    return output if isinstance(output, str) else json.dumps(output)


def _header(text: str) -> str:
    """Return what Codex says about a command, without what the command printed."""
    return text.partition("\nOutput:\n")[0]


def _raw_outcome(call: ToolCallStarted, output: object) -> tuple[bool, Object]:
    """Return whether a call without an item failed, and its output.

    A command gives its exit code above its output; a patch has an item unless it was refused.
    """
    text = _raw_text(output)
    match = _EXIT.search(_header(text))
    if call.name != SHELL or match is None:
        return call.name in (SHELL, PATCH), {"output": bounded(text)}
    code = int(match[1])
    return code != 0, {"exit_code": code, "output": bounded(text.partition("\nOutput:\n")[2])}
