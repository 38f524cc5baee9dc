"""Leave that an agent asks for, as a question to the user; and the answers it understands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coterie.agents.acp.calls import Call
from coterie.agents.fields import bounded, mapping, mappings, text
from coterie.agents.wire import Object
from coterie.model.interaction import ContentKind, Display, Option
from coterie.model.team import Mode
from coterie.model.update import Asked, PendingCall

APPROVE, REJECT = "approve", "reject"
_OPTIONS = (
    Option(id=APPROVE, label="this once", style="primary"),
    Option(id=REJECT, label="no", style="danger"),
)
CANCELLED: Object = {"outcome": {"outcome": "cancelled"}}
_LOOKING = frozenset({"read", "search", "think"})
_ASKED_EVEN_SO = frozenset({".git", ".coterie"})
"""Whoever writes here has commands run later, or changes what agents are run by."""


@dataclass(frozen=True)
class Permission:
    """A request for leave."""

    id: object
    call: Call
    options: Sequence[Object]

    @property
    def key(self) -> str:
        """Its name among the agent's questions."""
        return str(self.id)

    def reply(self, approved: bool) -> Object:
        """The answer by what an option means; a standing yes or no is never given."""
        wanted = "allow_once" if approved else "reject_once"
        for option in self.options:
            if option.get("kind") == wanted:
                chosen = {"outcome": "selected", "optionId": option.get("optionId")}
                return {"outcome": chosen}
        return CANCELLED


def options_of(params: Object) -> list[Object]:
    """What the agent offers to answer."""
    return mappings(params.get("options"))


def decided(mode: Mode, call: Call, cwd: str) -> bool | None:
    """The answer where the member's mode gives it; None where a person must.  Looks at files."""
    match mode:
        case "full":
            return True
        case "read" if call.kind in _LOOKING:
            return True
        case "read" if call.kind != "fetch":
            return False
        case "accept-edits" if call.kind == "edit" and _inside(call.paths, Path(cwd)):
            return True
        case _:
            return None


def _inside(paths: Sequence[str], cwd: Path) -> bool:
    found = [(cwd / path).resolve() for path in paths]
    return bool(found) and all(
        path.is_relative_to(cwd) and not _ASKED_EVEN_SO.intersection(path.relative_to(cwd).parts)
        for path in found
    )


def asked(permission: Permission, cwd: str, said: str) -> Asked:
    """The question of an agent that works here and last said this."""
    call = permission.call
    title, content, kind = _shown(call)
    last = f"\nIt last said: {said}" if said else ""
    times = f"#{call.asked}" if call.asked > 1 else ""
    return Asked(
        key=permission.key,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(
            title=title,
            description=str(bounded(f"In {cwd}\nWhy: {_why(call)}{last}")),
            content=str(bounded(content)),
            content_kind=kind,
        ),
        options=_OPTIONS,
        # A further question about the same call is another question.
        call=PendingCall(f"{call.id}{times}", call.name, call.input, cwd),
    )


def _shown(call: Call) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    where = ", ".join(call.paths)
    given = call.input
    if call.diffs:
        return f"Change {where}", call.diff, "Diff"
    if text(given.get("command")):
        return "Run a command", text(given["command"]), "PlainText"
    return f"Use {call.name}", json.dumps(given, indent=2, ensure_ascii=False), "Json"


def _why(call: Call) -> str:
    given = mapping(call.told.get("rawInput"))
    return text(given.get("description")) or call.why or "gave none"
