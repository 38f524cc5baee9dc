"""What an agent asks before it goes on: what a call would do, the question, the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from coterie.agents.acp.calls import AcpCall
from coterie.agents.fields import PERMISSION_OPTIONS, bounded, brief, mappings, searched, text
from coterie.agents.process import Object
from coterie.model.interaction import ContentKind, Display
from coterie.model.tool_call import Action
from coterie.model.update import Asked, PendingCall

_FOLDERS = ("workdir", "directory", "dir_path", "cwd")
"""What agents call the folder that a command is to run in."""
_TARGETS = ("newPath", "new_path", "destination", "to")
"""What they call the place that a file is moved to."""
_IN = re.compile(r"\[in ([^\[\]]+)\].*", re.DOTALL)
"""Gemini tells of another folder only in what it says about a command."""


def action_of(call: AcpCall, cwd: str) -> Action:
    """What a call would do."""
    name, kind = call.name, call.kind
    if kind == "execute" or (kind == "other" and call.command):
        return Action("run", name, _folder(call, cwd), command=call.command)
    if kind in ("edit", "delete", "move") or call.diffs:
        return Action("write", name, cwd, paths=_written(call))
    if kind == "search":
        return Action("read", name, cwd, paths=(_searched(call),))
    if kind == "think":
        return Action("read", name, cwd)
    if kind == "read" and call.places:
        return Action("read", name, cwd, paths=tuple(call.places))
    if kind == "fetch":
        return Action("fetch", name, cwd, target=text(call.raw.get("url")))
    # Also one that reads nobody knows what.
    return Action("other", name, cwd)


def _folder(call: AcpCall, cwd: str) -> str:
    named = next((text(call.raw[name]) for name in _FOLDERS if call.raw.get(name)), "")
    told = _IN.fullmatch(call.why)
    if told and not named:
        named = told[1]
    return str(PurePath(cwd, named))


def _written(call: AcpCall) -> tuple[str, ...]:
    moved = [text(call.raw[name]) for name in _TARGETS if text(call.raw.get(name))]
    return tuple(dict.fromkeys([*call.places, *moved]))


def _searched(call: AcpCall) -> str:
    pattern = text(call.raw.get("pattern"))
    # What is looked for in files leads nowhere; but not every agent says which of both it is.
    leads = "glob" in call.name.lower() or pattern.startswith(("/", "../", "~"))
    return searched(call.places[0] if call.places else "", pattern if leads else "")


# -- leave that an agent asks for, as a question to the user -----------------------------------


CANCELLED: Object = {"outcome": {"outcome": "cancelled"}}
_GEMINIS = re.compile(r"\[(?:in|current working directory) [^\]]*\]\s*(?:\((?P<why>.*)\))?.*", re.S)
"""How Gemini puts the reason for a command, after its folder."""


@dataclass(frozen=True)
class Permission:
    """A request for leave."""

    id: object
    call: AcpCall
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
        options=PERMISSION_OPTIONS,
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


def _shown(call: AcpCall, action: Action) -> tuple[str, str, ContentKind]:
    """What would be done, exactly."""
    if action.effect == "run" and action.command:
        return "Run a command", action.command, "PlainText"
    if call.diffs:
        return f"Change {', '.join(action.paths)}", call.diff, "Diff"
    return f"Use {call.name}", json.dumps(call.input, indent=2, ensure_ascii=False), "Json"


def _why(call: AcpCall) -> str:
    geminis = _GEMINIS.fullmatch(call.why)
    told = (geminis["why"] or "") if geminis else call.why
    return text(call.raw.get("description")) or told
