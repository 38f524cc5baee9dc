"""The tool calls of a turn, and the permissions that an agent asks for.

A call is put together from the pieces in which an agent tells of it: first may come its update, the
request for permission, or its end.  Gemini says nothing before it asks, and nothing after a no.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import cast

from coterie.agents import questions
from coterie.agents.fields import (
    bounded,
    brief,
    exact_text,
    exactly,
    mapping,
    mappings,
    searched,
    strings,
    text,
    unified,
)
from coterie.agents.process import Object
from coterie.agents.program import CallLedger, ToldCall
from coterie.agents.team_tools.serving import is_ours
from coterie.model.tool_call import Action, Effect
from coterie.model.update import Asked, PendingCall, ToolCallStarted

_FIELDS = ("title", "kind", "locations", "content", "_meta")
_NAME_IN_ID = re.compile(r"([a-z]\w*?)__")
"""Gemini tells the name of a tool in the id of the call alone."""
_PATHS = ("path", "file_path", "filePath", "filepath", "absolute_path", "dir_path")
_EFFECTS: Mapping[str, Effect] = {
    "execute": "run",
    "fetch": "fetch",
    **dict.fromkeys(("read", "search", "think"), "read"),
    **dict.fromkeys(("edit", "delete", "move"), "write"),
}


@dataclass
class AcpCall:
    """One tool call, as far as it is known."""

    id: str
    told: Object = field(default_factory=dict[str, object])
    raw: Object = field(default_factory=dict[str, object])
    """What the tool was given, as far as the agent says."""
    asked: int = 0
    """How often leave was asked for it: OpenCode asks for the folder, then for the command."""

    def learn(self, piece: Object) -> None:
        """Take in what a message says of the call; what it leaves out stays."""
        for name in _FIELDS:
            if piece.get(name):
                self.told[name] = piece[name]
        # OpenCode tells of the folder of a command at first, and not when it asks.
        self.raw: Object = {**self.raw, **mapping(piece.get("rawInput"))}

    @property
    def name(self) -> str:
        """What the agent calls the tool, as far as it says; else what kind of tool it is."""
        meta = mapping(self.told.get("_meta"))
        names = (mapping(part).get("toolName") for part in (meta, *meta.values()))
        said = next((text(name) for name in names if name), "")
        in_id = _NAME_IN_ID.match(self.id)
        title = self._title_of("other")
        ours = title if is_ours(title) else ""
        return said or (in_id[1] if in_id else "") or ours or self.kind

    @property
    def kind(self) -> str:
        """read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
        return text(self.told.get("kind")) or "other"

    @property
    def is_ours(self) -> bool:
        """Whether it is of a tool that we gave the agent ourselves."""
        return self.kind == "other" and is_ours(self.name)

    @property
    def effect(self) -> Effect:
        return "read" if self.is_ours else _EFFECTS.get(self.kind, "other")

    @property
    def command(self) -> str:
        """The command that it runs; an agent that does not tell its input has it as title."""
        if not self.raw:
            return self._title_of("execute")
        words = strings(self.raw.get("command"))
        return shlex.join(words) if words else exact_text(self.raw.get("command"))

    @property
    def title(self) -> str:
        """The call in the agent's words; of Gemini's commands, the command itself."""
        return exact_text(self.told.get("title"))

    @property
    def why(self) -> str:
        """What the agent says about it."""
        said = (text(mapping(part.get("content")).get("text")) for part in self._content)
        return "\n".join(part for part in said if part)

    @property
    def diffs(self) -> list[Object]:
        """The changes it would make, each with `path`, `oldText` and `newText`."""
        return [part for part in self._content if part.get("type") == "diff"]

    @property
    def paths(self) -> list[str]:
        """The files it is about."""
        placed = (*self.diffs, *mappings(self.told.get("locations")))
        return list(dict.fromkeys(text(place.get("path")) for place in placed if place.get("path")))

    @property
    def places(self) -> list[str]:
        """The files or folders it is about, by all that the agent tells."""
        given = (text(self.raw.get(name)) for name in _PATHS)
        return list(dict.fromkeys([*self.paths, *(path for path in given if path)]))

    @property
    def input(self) -> Object:
        """What the tool was given, with the exact command or path whatever the agent tells."""
        raw = self.raw
        named = "command" if self.kind == "execute" else "title"
        # Whole files may have to be compared, so only where somebody is to look at it.
        diff = self.diff if self.asked else ""
        told = {named: self.title, "description": self.why, "diff": diff}
        given = dict(raw) or {name: said for name, said in told.items() if said}
        if self.paths and self.kind != "execute" and not any(name in given for name in _PATHS):
            given["path"] = self.paths[0]
        return given

    @property
    def diff(self) -> str:
        """Its changes as one text; to compare whole files may take a while."""
        return "\n".join(
            unified(*(exact_text(change.get(name)) for name in ("path", "oldText", "newText")))
            for change in self.diffs
        )

    @property
    def _content(self) -> list[Object]:
        return mappings(self.told.get("content"))

    def _title_of(self, kind: str) -> str:
        return self.title if self.kind == kind else ""


class AcpCalls(CallLedger):
    """Which calls of a turn have begun and which have ended, each told once."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, AcpCall] = {}

    @property
    def any(self) -> bool:
        """Whether there was one at all."""
        return bool(self._known)

    def hear(self, piece: Object, *, broken_off: bool) -> Iterator[ToldCall]:
        """A `tool_call` or `tool_call_update`; whether the turn was broken off before it came."""
        call = self.learned(piece)
        status = piece.get("status")
        # One that is only announced will be told of better before it runs.
        if piece.get("sessionUpdate") == "tool_call_update" or status != "pending":
            yield from self.begin(call)
        if status in ("completed", "failed"):
            # A command that was broken off is "completed" to Gemini.
            yield from self.finish(call.id, broken_off or status == "failed", _outcome(piece))

    def learned(self, piece: Object) -> AcpCall:
        """The call that a message is about, with what the message says of it."""
        call_id = text(piece.get("toolCallId"))
        call = self._known.setdefault(call_id, AcpCall(call_id))
        call.learn(piece)
        return call

    def begin(self, call: AcpCall) -> Iterator[ToldCall]:
        """Tell that it runs, or that permission is asked for it."""
        if call.id not in self.started:  # to work out what it was given may take a while
            given = cast("Object", exactly(call.input))
            yield from self.start(ToolCallStarted(call.id, call.name, given, call.effect))


def _outcome(piece: Object) -> Object:
    """What the tool gave back."""
    call = AcpCall("", {"content": piece.get("content")})
    changed = [change.get("path") for change in call.diffs]
    told = {"text": call.why, "changed": changed, "result": piece.get("rawOutput")}
    return cast("Object", bounded({name: said for name, said in told.items() if said}))


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


def asked(permission: Permission, cwd: str, said: str) -> Asked:
    """The question of an agent that works here and last said this.  To compare may take a while."""
    call = permission.call
    action = action_of(call, cwd)
    pending = PendingCall(
        # A further question about the same call is another question.
        call_id=f"{call.id}#{call.asked}" if call.asked > 1 else call.id,
        name=call.name,
        input=exactly(call.input),
        cwd=action.cwd,
        action=action,
        why=brief(_why(call)),
        said=brief(said),
        diff=call.diff,
    )
    question = questions.permission(permission.key, pending)
    return replace(question, takes_words=False)


def _why(call: AcpCall) -> str:
    geminis = _GEMINIS.fullmatch(call.why)
    told = (geminis["why"] or "") if geminis else call.why
    return text(call.raw.get("description")) or told
