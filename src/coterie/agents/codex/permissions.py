"""Codex's requests for permission as questions to the user, and the answers it understands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coterie.agents.codex.calls import PATCH, SHELL, TYPED, CodexCalls, changes_of, command_of
from coterie.agents.codex.permits import WaitingCommand
from coterie.agents.fields import brief, exact_text, mapping, text, verbatim
from coterie.agents.process import Object
from coterie.agents.questions import permission
from coterie.model.interaction import ContentKind, Display
from coterie.model.tool_call import Action
from coterie.model.update import Asked, PendingCall
from coterie.model.visible import patch_name

_LEAVES = "It would leave Codex's sandbox, and could write anywhere."


@dataclass(frozen=True)
class CodexRequest:
    """A request from Codex that a yes or a no answers."""

    id: object
    asked: Asked
    yes: Object
    """The reply that grants it, this once."""
    no: Object
    waiting: WaitingCommand | None = None
    """The command that also needs our permit."""
    is_sandboxed: bool = False
    """Whether it is a command that runs in Codex's sandbox."""


@dataclass(frozen=True)
class CodexRequestReader:
    """Reads one message of Codex, with what is known of its turn."""

    message: Object
    cwd: str
    last_text: str
    """The last thing that Codex said."""
    calls: CodexCalls
    confined: bool = False
    """Whether its commands can only read, and only in the folder it works in."""

    def request(self) -> CodexRequest | None:
        """Return the question in it; None if a yes or a no is not an answer to it."""
        read = _READ.get(text(self.message.get("method")))
        return read(self) if read else None

    @property
    def _params(self) -> Object:
        return mapping(self.message.get("params"))

    @property
    def _item(self) -> str:
        return text(self._params.get("itemId"))

    @property
    def _own_cwd(self) -> str:
        """The working directory that the request itself names, else the turn's."""
        return text(self._params.get("cwd")) or self.cwd

    def _about(
        self, call_id: str, given: Object, action: Action, note: str = "", diff: str = ""
    ) -> CodexRequest:
        """Return the question whether a call may be made."""
        call = PendingCall(
            call_id=call_id,
            name=action.tool,
            input=verbatim(given),
            cwd=action.cwd,
            action=action,
            why=brief(text(self._params.get("reason")).strip()),
            said=brief(self.last_text),
            note=note,
            diff=diff,
            number=self.calls.asked(call_id),
        )
        number = self.message.get("id")
        asked = permission(f"{number}", call)
        return CodexRequest(number, asked, {"decision": "accept"}, {"decision": "decline"})

    def command(self) -> CodexRequest:
        """Ask about a command, input typed into one, or a host that one wants to reach."""
        if self._params.get("kind") == "writeStdin":
            return self._typed()
        reached = mapping(self._params.get("networkApprovalContext"))
        if reached:
            return self._reached(reached)
        line, original = self.calls.waiting(self._item, exact_text(self._params.get("command")))
        command, cwd = command_of(line), self._own_cwd
        waiting = None if original is None else WaitingCommand(self._item, original, cwd)
        given: Object = {"command": command, "line": line}
        leaves = self._leaves_sandbox()
        if leaves:
            given["sandbox"] = "none"
        # How a shell other than ours would read its words is unknown.
        held = (command == original or self.confined) and not leaves
        action = Action("run", SHELL, cwd, command=command, read_only_sandbox=held)
        request = self._about(self._item, given, action, note=_LEAVES if leaves else "")
        return replace(request, waiting=waiting, is_sandboxed=not leaves)

    def _leaves_sandbox(self) -> bool:
        """Whether a command would run without the sandbox; only such a command gives a reason."""
        wanted = self.calls.wanted(self._item).get("sandbox_permissions")
        more = self._params.get("reason") or self._params.get("additionalPermissions")
        return wanted == "require_escalated" or bool(more)

    def _typed(self) -> CodexRequest:
        call_id = text(self._params.get("approvalId"))
        line = exact_text(self._params.get("command"))
        # No rule can tell what the running program does with the input.
        action = Action("other", TYPED, self._own_cwd)
        request = self._about(call_id, {"command": line}, action, note=_LEAVES)
        return _shown(request, "Type into a terminal", line)

    def _reached(self, reached: Object) -> CodexRequest:
        host = text(reached.get("host"))
        address = f"{text(reached.get('protocol'))}://{host}"
        action = Action("fetch", "network", self.cwd, target=host)
        call_id = text(self._params.get("approvalId")) or self._item
        request = self._about(call_id, {"address": address}, action)
        return _shown(request, "Access the network", address)

    def edit(self) -> CodexRequest:
        """Ask about a patch."""
        begun = self.calls.started.get(self._item)  # only its item has the diff
        given: Object = dict(begun.input) if begun else {}
        changes = changes_of(given)
        paths = tuple(dict.fromkeys(path for change in changes for path in _paths(change)))
        action = Action("write", PATCH, self.cwd, paths=paths)
        return self._about(self._item, given, action, diff="\n".join(map(_diff, changes)))

    def tool(self) -> CodexRequest | None:
        """Ask about a tool of an MCP server; None for a form that a server wants filled in."""
        if mapping(self._params.get("_meta")).get("codex_approval_kind") is None:
            return None
        prefix = f"mcp__{self._params.get('serverName')}__"
        running = [call for call in self.calls.running if call.name.startswith(prefix)]
        if not running:
            return None
        call = running[-1]
        action = Action("other", call.name, self.cwd)
        yes, no = ({"action": word, "content": None} for word in ("accept", "decline"))
        return replace(self._about(call.call_id, dict(call.input), action), yes=yes, no=no)

    def permissions(self) -> CodexRequest:
        """Ask for more than the sandbox allows, for the rest of this turn."""
        wanted = mapping(self._params.get("permissions"))
        network = mapping(wanted.get("network")).get("enabled") is True
        effect = "fetch" if network and not wanted.get("fileSystem") else "other"
        action = Action(effect, "request_permissions", self._own_cwd)
        yes, no = ({"permissions": given, "scope": "turn"} for given in (wanted, {}))
        request = self._about(self._item, {"permissions": wanted}, action)
        whole = json.dumps(wanted, indent=2, ensure_ascii=False)
        return replace(_shown(request, "Grant more permissions", whole, "Json"), yes=yes, no=no)


_READ: Mapping[str, Callable[[CodexRequestReader], CodexRequest | None]] = {
    "item/commandExecution/requestApproval": CodexRequestReader.command,
    "item/fileChange/requestApproval": CodexRequestReader.edit,
    "mcpServer/elicitation/request": CodexRequestReader.tool,
    "item/permissions/requestApproval": CodexRequestReader.permissions,
}


def _shown(
    request: CodexRequest, title: str, content: str, kind: ContentKind = "PlainText"
) -> CodexRequest:
    """Return a request with the text to show, for a call that does not say it itself."""
    display = Display(title=title, content=content, content_kind=kind)
    return replace(request, asked=replace(request.asked, display=display))


def _paths(change: Object) -> list[str]:
    """Return the file that a change is about, and where it would be moved to."""
    moved = text(mapping(change.get("kind")).get("move_path"))
    return [path for path in (text(change.get("path")), moved) if path]


def _diff(change: Object) -> str:
    """Return one file's change as a diff; Codex gives only the text of an added or deleted file."""
    kind, diff = change.get("kind"), exact_text(change.get("diff"))
    path, moved = (*map(patch_name, _paths(change)), "", "")[:2]
    match mapping(kind).get("type") or kind:
        case "update":
            return f"--- {path}\n+++ {moved or path}\n{diff}"
        case "delete":
            sign, old, new = "-", path, "/dev/null"
        case _:
            sign, old, new = "+", "/dev/null", path
    lines = "\n".join(f"{sign}{line}" for line in diff.removesuffix("\n").split("\n"))
    return f"--- {old}\n+++ {new}\n{lines}"
