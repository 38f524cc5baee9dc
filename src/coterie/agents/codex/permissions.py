"""What Codex asks before it goes on, as questions to the user; and the answers it understands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coterie.agents.codex.calls import PATCH, SHELL, TYPED, CodexCalls, changes_of, command_of
from coterie.agents.codex.looks import WaitingCommand
from coterie.agents.fields import brief, exact_text, exactly, mapping, text
from coterie.agents.process import Object
from coterie.agents.questions import permission
from coterie.model.interaction import ContentKind, Display
from coterie.model.tool_call import Action
from coterie.model.update import Asked, PendingCall
from coterie.model.visible import patch_name

_LEAVES = "It would leave Codex's sandbox, and could write anywhere."
_ACCEPT, _DECLINE = {"decision": "accept"}, {"decision": "decline"}


@dataclass(frozen=True)
class CodexRequestContext:
    """What stands around a question: where it works, what it said last, what it does."""

    cwd: str
    said: str
    calls: CodexCalls
    confined: bool = False
    """Whether its commands can do no more than look, and only at the folder it works in."""


@dataclass(frozen=True)
class CodexRequest:
    """A request of Codex that a yes or a no answers."""

    id: object
    asked: Asked
    yes: Object
    """The reply that grants it, for this once."""
    no: Object
    waiting: WaitingCommand | None = None
    """The command that needs our word besides."""
    is_work: bool = False
    """Whether it is a command that Codex's sandbox holds."""


@dataclass(frozen=True)
class _Question:
    """The call that is asked about."""

    call_id: str
    input: Object
    action: Action
    note: str = ""
    """What a person should know besides."""
    diff: str = ""
    display: Display | None = None
    """What is shown, where the call does not say it."""
    waiting: WaitingCommand | None = None
    is_work: bool = False


def request_of(message: Object, around: CodexRequestContext) -> CodexRequest | None:
    """The question in a request; None where it is not one that a yes or a no answers."""
    method, params = text(message.get("method")), mapping(message.get("params"))
    read = _READ.get(method)
    found = read(params, around) if read else None
    if found is None:
        return None
    call = PendingCall(
        call_id=around.calls.asked(found.call_id),
        name=found.action.tool,
        input=exactly(found.input),
        cwd=found.action.cwd,
        action=found.action,
        why=brief(text(params.get("reason")).strip()),
        said=brief(around.said),
        note=found.note,
        diff=found.diff,
    )
    asked = replace(permission(f"{message.get('id')}", call), display=found.display)
    answers, command = _answers(method, params), (found.waiting, found.is_work)
    return CodexRequest(message.get("id"), asked, *answers, *command)


def _answers(method: str, params: Object) -> tuple[Object, Object]:
    """A yes for this once, and a no."""
    if method == _ELICITATION:
        return {"action": "accept", "content": None}, {"action": "decline", "content": None}
    if method == _PERMISSIONS:
        granted = {"permissions": mapping(params.get("permissions")), "scope": "turn"}
        return granted, {"permissions": {}, "scope": "turn"}
    return _ACCEPT, _DECLINE


def _command(params: Object, around: CodexRequestContext) -> _Question:
    if params.get("kind") == "writeStdin":
        return _typed(params, around)
    reached = mapping(params.get("networkApprovalContext"))
    if reached:
        return _reached(reached, params, around)
    line, call_id = exact_text(params.get("command")), text(params.get("itemId"))
    line, original = around.calls.waiting(call_id, line)
    command, cwd = command_of(line), text(params.get("cwd")) or around.cwd
    waiting = None if original is None else WaitingCommand(call_id, original, cwd)
    given: Object = {"command": command, "line": line}
    leaves = _leaves_sandbox(params, around)
    if leaves:
        given["sandbox"] = "none"
    # What another shell than ours makes of its words, nobody can say.
    held = (command == original or around.confined) and not leaves
    action = Action("run", SHELL, cwd, command=command, read_only_sandbox=held)
    note = _LEAVES if leaves else ""
    return _Question(call_id, given, action, note=note, waiting=waiting, is_work=not leaves)


def _leaves_sandbox(params: Object, around: CodexRequestContext) -> bool:
    """Whether a command is to run without the sandbox; only one that is gives a reason."""
    wanted = around.calls.wanted(text(params.get("itemId"))).get("sandbox_permissions")
    more = params.get("reason") or params.get("additionalPermissions")
    return wanted == "require_escalated" or bool(more)


def _typed(params: Object, around: CodexRequestContext) -> _Question:
    line, cwd = exact_text(params.get("command")), text(params.get("cwd")) or around.cwd
    # Into whatever runs there: what it does with it, no rule can tell.
    return _Question(
        text(params.get("approvalId")),
        {"command": line},
        Action("other", TYPED, cwd),
        note=_LEAVES,
        display=_display("Type into a terminal", line),
    )


def _reached(reached: Object, params: Object, around: CodexRequestContext) -> _Question:
    host = text(reached.get("host"))
    address = f"{text(reached.get('protocol'))}://{host}"
    action = Action("fetch", "network", around.cwd, target=host)
    call_id = text(params.get("approvalId")) or text(params.get("itemId"))
    shown = _display("Reach the network", address)
    return _Question(call_id, {"address": address}, action, display=shown)


def _edit(params: Object, around: CodexRequestContext) -> _Question:
    call_id = text(params.get("itemId"))
    begun = around.calls.started.get(call_id)  # the diff stands in its item alone
    given: Object = dict(begun.input) if begun else {}
    changes = changes_of(given)
    paths = tuple(dict.fromkeys(path for change in changes for path in _paths(change)))
    action = Action("write", PATCH, around.cwd, paths=paths)
    return _Question(call_id, given, action, diff="\n".join(map(_diff, changes)))


def _paths(change: Object) -> list[str]:
    """The file that a change is about, and where it would be moved to."""
    moved = text(mapping(change.get("kind")).get("move_path"))
    return [path for path in (text(change.get("path")), moved) if path]


def _diff(change: Object) -> str:
    """One file's change as a diff; of a file that comes or goes Codex gives its text alone."""
    kind, said = change.get("kind"), exact_text(change.get("diff"))
    path, moved = (*map(patch_name, _paths(change)), "", "")[:2]
    match mapping(kind).get("type") or kind:
        case "update":
            return f"--- {path}\n+++ {moved or path}\n{said}"
        case "delete":
            sign, old, new = "-", path, "/dev/null"
        case _:
            sign, old, new = "+", "/dev/null", path
    lines = "\n".join(f"{sign}{line}" for line in said.removesuffix("\n").split("\n"))
    return f"--- {old}\n+++ {new}\n{lines}"


def _tool(params: Object, around: CodexRequestContext) -> _Question | None:
    """The use of a tool of an MCP server; a form that a server wants filled in is none."""
    if mapping(params.get("_meta")).get("codex_approval_kind") is None:
        return None
    prefix = f"mcp__{params.get('serverName')}__"
    running = [call for call in around.calls.running if call.name.startswith(prefix)]
    if not running:
        return None
    call = running[-1]
    return _Question(call.call_id, dict(call.input), Action("other", call.name, around.cwd))


def _more(params: Object, around: CodexRequestContext) -> _Question:
    """More than the sandbox allows, for all that comes in this turn."""
    wanted = mapping(params.get("permissions"))
    network = mapping(wanted.get("network")).get("enabled") is True
    cwd = text(params.get("cwd")) or around.cwd
    effect = "fetch" if network and not wanted.get("fileSystem") else "other"
    whole = json.dumps(wanted, indent=2, ensure_ascii=False)
    return _Question(
        text(params.get("itemId")),
        {"permissions": wanted},
        Action(effect, "request_permissions", cwd),
        display=_display("Have more permissions", whole, "Json"),
    )


def _display(title: str, content: str, kind: ContentKind = "PlainText") -> Display:
    return Display(title=title, content=content, content_kind=kind)


_ELICITATION = "mcpServer/elicitation/request"
_PERMISSIONS = "item/permissions/requestApproval"
_READ: Mapping[str, Callable[[Object, CodexRequestContext], _Question | None]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _edit,
    _ELICITATION: _tool,
    _PERMISSIONS: _more,
}
