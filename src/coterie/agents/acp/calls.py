"""The tool calls of a turn, put together from the pieces in which an agent tells of them.

A call may be told of first by its update, by the question for leave, or by its end: Gemini says
nothing before it asks, and nothing after a no.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.fields import bounded, mapping, mappings, strings, text, unified
from coterie.agents.process import Object
from coterie.agents.team_tools import is_ours
from coterie.model.tool_call import Effect
from coterie.model.update import ToolCallFinished, ToolCallStarted

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

Told = ToolCallStarted | ToolCallFinished


@dataclass
class AcpCall:
    """One tool call, as far as it is known."""

    id: str
    told: Object = field(default_factory=dict[str, object])
    raw: Object = field(default_factory=dict[str, object])
    """What the tool was given, as far as the agent says."""
    begun: bool = False
    ended: bool = False
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
        ours = self._title_of("other")
        if not is_ours(ours):
            ours = ""
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
        """What it can do."""
        return "read" if self.is_ours else _EFFECTS.get(self.kind, "other")

    @property
    def command(self) -> str:
        """The command that it runs; an agent that does not tell its input has it as title."""
        if not self.raw:
            return self._title_of("execute")
        words = strings(self.raw.get("command"))
        return shlex.join(words) if words else text(self.raw.get("command"))

    @property
    def title(self) -> str:
        """The call in the agent's words; of Gemini's commands, the command itself."""
        return text(self.told.get("title"))

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
            unified(*(text(change.get(name)) for name in ("path", "oldText", "newText")))
            for change in self.diffs
        )

    @property
    def _content(self) -> list[Object]:
        return mappings(self.told.get("content"))

    def _title_of(self, kind: str) -> str:
        return self.title if self.kind == kind else ""


class AcpCalls:
    """Which calls of a turn have begun and which have ended, each told once."""

    def __init__(self) -> None:
        self._known: dict[str, AcpCall] = {}

    @property
    def any(self) -> bool:
        """Whether there was one at all."""
        return bool(self._known)

    def hear(self, piece: Object, *, broken_off: bool) -> Iterator[Told]:
        """A `tool_call` or `tool_call_update`; whether the turn was broken off before it came."""
        call = self.learned(piece)
        status = piece.get("status")
        # One that is only announced will be told of better before it runs.
        if piece.get("sessionUpdate") == "tool_call_update" or status != "pending":
            yield from self.begin(call)
        if status in ("completed", "failed"):
            # A command that was broken off is "completed" to Gemini.
            yield from self.end(call, _outcome(piece), failed=broken_off or status == "failed")

    def learned(self, piece: Object) -> AcpCall:
        """The call that a message is about, with what the message says of it."""
        call_id = text(piece.get("toolCallId"))
        call = self._known.setdefault(call_id, AcpCall(call_id))
        call.learn(piece)
        return call

    def begin(self, call: AcpCall) -> Iterator[Told]:
        """It runs, or leave is asked for it."""
        if not call.begun:
            call.begun = True
            given = cast("Object", bounded(call.input))
            yield ToolCallStarted(call.id, call.name, given, call.effect)

    def end(self, call: AcpCall, output: Mapping[str, object], *, failed: bool) -> Iterator[Told]:
        """It is over; what is told of it later is not told again."""
        if not call.ended:
            call.ended = True
            yield ToolCallFinished(call.id, failed, output)

    def leave(self, *, broken_off: bool) -> Iterator[Told]:
        """The turn is over: of what has not ended, nobody will hear any more."""
        status = "interrupted" if broken_off else "unknown"
        for call in self._known.values():
            if call.begun:
                yield from self.end(call, {"status": status}, failed=True)


def _outcome(piece: Object) -> Object:
    """What the tool gave back."""
    call = AcpCall("", {"content": piece.get("content")})
    changed = [change.get("path") for change in call.diffs]
    told = {"text": call.why, "changed": changed, "result": piece.get("rawOutput")}
    return cast("Object", bounded({name: said for name, said in told.items() if said}))
