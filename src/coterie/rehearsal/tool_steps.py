"""The tool calls of a stand-in for a model: each step uses the client's own tool for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

from coterie.rehearsal import model_api as api
from coterie.rehearsal.model_api import CompletionRequest
from coterie.rehearsal.prompt_facts import any_case, comment

StepKind = Literal["read", "create", "replace", "overwrite", "append", "run"]


@dataclass(frozen=True)
class ToolStep:
    """One tool call, independent of the agent that makes it."""

    kind: StepKind
    target: str
    """The file, or the command to run."""
    old: str = ""
    new: str = ""


_Tools = Mapping[StepKind, tuple[str, Mapping[str, str]]]


def _file_tools(names: str, arguments: str) -> _Tools:
    """Describe the tools that read, create and edit a file, and the names of their arguments for
    the path, the whole text, the old text and the new text."""
    read, create, edit = names.split()
    path, whole, old, new = arguments.split()
    return {
        "read": (read, {path: "{target}"}),
        "create": (create, {path: "{target}", whole: "{new}"}),
        "replace": (edit, {path: "{target}", old: "{old}", new: "{new}"}),
    }


_SNAKE = "file_path content old_string new_string"
_RUN = {"command": "{target}", "description": "Run tests."}
_GEMINI = _file_tools("read_file write_file replace", _SNAKE)
_TOOLS: Mapping[api.Client, _Tools] = {
    "claude": {
        **_file_tools("Read Write Edit", _SNAKE),
        "run": ("Bash", {"command": "{target}"}),
    },
    "codex": {
        "read": ("exec_command", {"cmd": "cat {target}"}),
        "run": ("exec_command", {"cmd": "{target}"}),
    },
    "gemini": {
        **_GEMINI,
        "replace": ("replace", {**_GEMINI["replace"][1], "instruction": "Change {target}."}),
        "run": ("run_shell_command", _RUN),
    },
    # A fork of Gemini CLI; of these tools, only the one that replaces text differs.
    "qwen": {
        **_file_tools("read_file write_file edit", _SNAKE),
        "run": ("run_shell_command", _RUN),
    },
    "opencode": {
        **_file_tools("read write edit", "filePath content oldString newString"),
        "run": ("bash", _RUN),
    },
    "builtin": {
        **_file_tools("readFile editFile editFile", "path newStr oldStr newStr"),
        "create": ("editFile", {"path": "{target}", "oldStr": "", "newStr": "{new}"}),
        "run": ("runCommand", {"command": "{target}"}),
    },
    "stand-in": _file_tools("read_file write_file edit_file", "path text old new"),
}
_PATCH = "apply_patch"
"""Codex's only tool for changing files."""


def can_edit(request: CompletionRequest) -> bool:
    """Whether the client offers a tool that writes files."""
    if request.client == "codex":
        return _PATCH in request.tools
    tools = _TOOLS.get(request.client, {})
    return "create" in tools and tools["create"][0] in request.tools


def call_for(step: ToolStep, request: CompletionRequest) -> api.ToolCall:
    """Build the call of the client's own tool that performs a step."""
    client = request.client if request.client in _TOOLS else "builtin"
    if client == "codex" and step.kind not in ("read", "run"):
        return api.ToolCall(_PATCH, _patch(step))
    if step.kind == "append":
        # No client has a tool that appends to a file, so its last lines are replaced.
        end = _last_lines(just_read(request))
        step = replace(step, kind="replace", old=end, new=f"{end}\n{step.new.rstrip()}")
    if step.kind == "overwrite" and client == "builtin":
        # The built-in agent has no tool for that, so the whole text just read is replaced.
        step = replace(step, kind="replace", old=just_read(request), new=step.new.rstrip("\n"))
    name, arguments = _TOOLS[client]["create" if step.kind == "overwrite" else step.kind]
    fields = {"target": step.target, "old": step.old, "new": step.new}
    return api.ToolCall(name, {key: value.format(**fields) for key, value in arguments.items()})


def _patch(step: ToolStep) -> str:
    added = "".join(f"+{line}\n" for line in step.new.splitlines())
    removed = "".join(f"-{line}\n" for line in step.old.splitlines())
    changes = step.kind in ("replace", "append")
    head = f"Update File: {step.target}\n@@" if changes else f"Add File: {step.target}"
    return f"*** Begin Patch\n*** {head}\n{removed}{added}*** End Patch\n"


_LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|\| ?|: )", re.MULTILINE)
_ANCHOR = 12
"""How many last lines of a file are enough to identify its end."""


def just_read(request: CompletionRequest) -> str:
    """Return the text of the file just read, without what the client's tool wraps around it."""
    shown = request.results[-1].text if request.results else ""
    match request.client:
        case "builtin":  # after a few fields and an empty line; a single line is a field itself
            one_line = re.search(r"^text: (.*)$", shown, re.MULTILINE)
            return one_line[1] if one_line else shown.partition("\n\n")[2]
        case "claude":
            return _LINE_NUMBER.sub("", shown.partition("<system-reminder>")[0])
        case "opencode":
            inside = re.search(r"<(file|content)>\n?(.*?)\n?(?:\n\(End of file|</\1>)", shown, re.S)
            return _LINE_NUMBER.sub("", inside[2] if inside else shown)
        case _:
            return shown


def _last_lines(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[-_ANCHOR:])


def since_prompt(request: CompletionRequest) -> list[api.ConversationItem]:
    """Return the tool calls since the prompt and their results, newest first."""
    since: list[api.ConversationItem] = []
    for item in reversed(request.conversation):
        if (
            isinstance(item, api.TextMessage)
            and item.role == "user"
            and request.newest in item.text
        ):
            break
        since.append(item)
    return since


_ABSENT = any_case(
    r"no such file|not? (?:file was )?found|does not exist|ENOENT|there is no"
    r"|exited with code [1-9]",
)
_FAILED = any_case(
    r"^\W*(?:error|failed)|denied|rejected|not permitted|not found|verification failed",
)
_SAYS_FAILED: tuple[api.Dialect, ...] = ("anthropic", "gemini")
"""Formats in which a result is flagged as a failure; in others its text must tell."""
_BRIEF = 400
"""A tool's report of a failure is shorter than this; anything longer is a file."""
_CONFLICT_MARKS = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?\n", re.MULTILINE)
WORDS = "A stand-in for a model wrote this in a rehearsal"


def next_step(request: CompletionRequest, files: Sequence[str], folder: str) -> ToolStep | str:
    """Return the next step of writing to these files, else what went wrong; empty if all is done.

    A file is read first, as it may exist: then a line is appended to it, or a conflict in it is
    resolved by keeping both sides.
    """
    if not can_edit(request):
        return "No tool that writes files is available."
    since = list(reversed(since_prompt(request)))
    results = {item.call_id: item for item in since if isinstance(item, api.ToolResult)}
    calls = [item for item in since if isinstance(item, api.ToolCall)]
    for file in files:
        target = _target(request, file, folder)
        place = re.compile(rf"(?<![\w-]){re.escape(target)}(?![\w-])")
        mine = [results.get(call.id) for call in calls if place.search(call.arguments)]
        match mine:
            case []:
                return ToolStep("read", target)
            case [read]:
                return _writing(request, file, target, read)
            case [*_, written] if written is not None and _is_failure(request, written, _FAILED):
                return " ".join(written.text.split())[:_BRIEF]
            case _:
                pass
    return ""


def _writing(
    request: CompletionRequest, file: str, target: str, read: api.ToolResult | None
) -> ToolStep:
    form = comment(file)
    text = "" if read is None else just_read(request)
    if read is None or _is_failure(request, read, _ABSENT) or not text.strip():
        title = PurePosixPath(file).stem.replace("-", " ").replace("_", " ")
        return ToolStep("create", target, new=f"{form.format(f'{title}: {WORDS}.')}\n")
    if _CONFLICT_MARKS.search(text):
        settled = _CONFLICT_MARKS.sub("", text).rstrip("\n")
        return ToolStep("replace", target, old=text.rstrip("\n"), new=settled)
    return ToolStep("append", target, new=form.format(f"{WORDS}, below the existing content."))


def _is_failure(
    request: CompletionRequest, result: api.ToolResult, says_so: re.Pattern[str]
) -> bool:
    if result.failed or request.dialect in _SAYS_FAILED:
        return result.failed
    return len(result.text) < _BRIEF and says_so.search(result.text) is not None


def _target(request: CompletionRequest, file: str, folder: str) -> str:
    """Return the path of a file for a client's tools, most of which accept no relative path."""
    relative = request.client in ("codex", "builtin", "stand-in")
    return file if relative else str(PurePosixPath(folder, file))
