"""Leave that an agent asks for, as a question to the user; and the answers it understands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.agents.acp.actions import action_of
from coterie.agents.acp.calls import Call
from coterie.agents.fields import bounded, brief, mappings, text
from coterie.agents.wire import Object
from coterie.model.action import Action
from coterie.model.interaction import APPROVE, REJECT, ContentKind, Display, Option
from coterie.model.update import Asked, PendingCall

_OPTIONS = (
    Option(id=APPROVE, label="this once", style="primary"),
    Option(id=REJECT, label="no", style="danger"),
)
CANCELLED: Object = {"outcome": {"outcome": "cancelled"}}
_GEMINIS = re.compile(r"\[(?:in|current working directory) [^\]]*\]\s*(?:\((?P<why>.*)\))?.*", re.S)
"""How Gemini puts the reason for a command, after its folder."""


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


def asked(permission: Permission, cwd: str, said: str) -> Asked:
    """The question of an agent that works here and last said this.  To compare may take a while."""
    call = permission.call
    action = action_of(call, cwd)
    title, content, kind = _shown(call, action)
    times = f"#{call.asked}" if call.asked > 1 else ""
    return Asked(
        key=permission.key,
        kind="Confirm",
        purpose="confirm_risky_action",
        display=Display(title=title, content=str(bounded(content)), content_kind=kind),
        options=_OPTIONS,
        call=PendingCall(
            # A further question about the same call is another question.
            call_id=f"{call.id}{times}",
            name=call.name,
            input=call.input,
            cwd=action.cwd,
            action=action,
            why=brief(_why(call)),
            said=brief(said),
        ),
        takes_words=False,
    )


def _shown(call: Call, action: Action) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    if action.effect == "run" and action.command:
        return "Run a command", action.command, "PlainText"
    if call.diffs:
        return f"Change {', '.join(action.paths)}", call.diff, "Diff"
    return f"Use {call.name}", json.dumps(call.input, indent=2, ensure_ascii=False), "Json"


def _why(call: Call) -> str:
    geminis = _GEMINIS.fullmatch(call.why)
    told = (geminis["why"] or "") if geminis else call.why
    return text(call.raw.get("description")) or told
