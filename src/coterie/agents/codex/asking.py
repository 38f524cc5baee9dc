"""What Codex asks before it goes on, as questions to the user; and the answers it understands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from coterie.agents.codex.calls import PATCH, SHELL, Calls, changes_of, command_of
from coterie.agents.fields import bounded
from coterie.agents.wire import Object
from coterie.model.interaction import ContentKind, Display, Option
from coterie.model.update import Asked, PendingCall

OPTIONS = (
    Option(id="approve", label="this once", style="primary"),
    Option(id="reject", label="no", style="danger"),
)
GAVE_NONE = "gave none"


@dataclass(frozen=True)
class Around:
    """What stands around a question: where it works, what it said last, what it does."""

    cwd: str
    said: str
    calls: Calls


@dataclass(frozen=True)
class Request:
    """A request of Codex that a yes or a no answers."""

    id: object
    asked: Asked
    yes: Object
    no: Object


_Content = tuple[str, str, ContentKind, PendingCall]


def request_of(message: Object, around: Around) -> Request | None:
    """The question in a request; None where it is not one that a yes or a no answers."""
    method = str(message.get("method"))
    read = _READ.get(method)
    params = (
        cast("Object", message.get("params")) if isinstance(message.get("params"), dict) else {}
    )
    found = read(params, around) if read else None
    if found is None:
        return None
    title, content, kind, call = found
    reason = str(params.get("reason") or "").strip()
    said = f"\nIt last said: {around.said}" if around.said else ""
    asked = Asked(
        key=f"{message.get('id')}",
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(
            title=title,
            description=bounded(f"In {call.cwd}\nWhy: {reason or GAVE_NONE}{said}"),
            content=bounded(content),
            content_kind=kind,
        ),
        options=OPTIONS,
        call=call,
    )
    by_action = method == _ELICITATION
    yes: Object = {"action": "accept", "content": None} if by_action else {"decision": "accept"}
    no: Object = {"action": "decline", "content": None} if by_action else {"decision": "decline"}
    return Request(message.get("id"), asked, yes, no)


def _command(params: Object, around: Around) -> _Content:
    command = command_of(params.get("command"))
    call_id, cwd = str(params.get("itemId")), str(params.get("cwd") or around.cwd)
    call = PendingCall(call_id, SHELL, bounded({"command": command}), cwd)
    return "Run a command outside its sandbox", command, "PlainText", call


def _edit(params: Object, around: Around) -> _Content:
    call_id = str(params.get("itemId"))
    begun = around.calls.get(call_id)  # the diff stands in its item alone
    given: Object = dict(begun.input) if begun else {}
    diff = "\n".join(map(_diff, changes_of(given)))
    call = PendingCall(call_id, PATCH, given, around.cwd)
    return "Change files outside its folder", diff, "Diff", call


def _tool(params: Object, around: Around) -> _Content | None:
    """The use of a tool of an MCP server; a form that a server wants filled in is none."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or cast("Object", meta).get("codex_approval_kind") is None:
        return None
    prefix = f"mcp__{params.get('serverName')}__"
    running = [call for call in around.calls.running if call.name.startswith(prefix)]
    if not running:
        return None
    call = running[-1]
    pending = PendingCall(call.call_id, call.name, call.input, around.cwd)
    return "Use a tool", f"{call.name} {dict(call.input)}", "PlainText", pending


_ELICITATION = "mcpServer/elicitation/request"
_READ: Mapping[str, Callable[[Object, Around], _Content | None]] = {
    "item/commandExecution/requestApproval": _command,
    "item/fileChange/requestApproval": _edit,
    _ELICITATION: _tool,
}


def _diff(change: Object) -> str:
    """One file's change as a diff; of a file that comes or goes Codex gives its text alone."""
    kind, path, text = change.get("kind"), change.get("path"), str(change.get("diff", ""))
    name = cast("Object", kind).get("type") if isinstance(kind, dict) else kind
    if name == "update":
        return f"--- {path}\n+++ {path}\n{text}"
    sign, old, new = ("-", path, "/dev/null") if name == "delete" else ("+", "/dev/null", path)
    lines = "\n".join(f"{sign}{line}" for line in text.splitlines())
    return f"--- {old}\n+++ {new}\n{lines}"
