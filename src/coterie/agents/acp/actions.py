"""What the calls of an agent would do, by the kinds of tools that the protocol knows.

Which kind a tool is of is the agent's own word; where what it tells does not agree with it, the
worse of both counts.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from coterie.agents.acp.calls import Call
from coterie.agents.fields import text
from coterie.agents.searching import searched
from coterie.model.action import Action

_FOLDERS = ("workdir", "directory", "dir_path", "cwd")
"""What agents call the folder that a command is to run in."""
_TARGETS = ("newPath", "new_path", "destination", "to")
"""What they call the place that a file is moved to."""
_IN = re.compile(r"\[in ([^\[\]]+)\].*", re.DOTALL)
"""Gemini tells of another folder only in what it says about a command."""


def action_of(call: Call, cwd: str) -> Action:
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


def _folder(call: Call, cwd: str) -> str:
    named = next((text(call.raw[name]) for name in _FOLDERS if call.raw.get(name)), "")
    told = _IN.fullmatch(call.why)
    if told and not named:
        named = told[1]
    return str(PurePath(cwd, named))


def _written(call: Call) -> tuple[str, ...]:
    moved = [text(call.raw[name]) for name in _TARGETS if text(call.raw.get(name))]
    return tuple(dict.fromkeys([*call.places, *moved]))


def _searched(call: Call) -> str:
    pattern = text(call.raw.get("pattern"))
    # What is looked for in files leads nowhere; but not every agent says which of both it is.
    leads = "glob" in call.name.lower() or pattern.startswith(("/", "../", "~"))
    return searched(call.places[0] if call.places else "", pattern if leads else "")
