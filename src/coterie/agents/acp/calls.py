"""The tool calls of a turn, and the permissions that an agent asks for.

A call is assembled from the messages about it, of which the first may be its update, the request
for permission, or its end.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import cast

from coterie.agents import questions
from coterie.agents.fields import (
    ANYWHERE,
    bounded,
    brief,
    exact_text,
    mapping,
    mappings,
    searched,
    strings,
    text,
    unified,
    verbatim,
)
from coterie.agents.process import Object
from coterie.agents.program import CallLedger, CallUpdate
from coterie.agents.team_tools.serving import is_ours
from coterie.model.tool_call import Action, Effect
from coterie.model.update import Asked, PendingCall, ToolCallStarted

_FIELDS = ("title", "kind", "locations", "content", "_meta")
_PATHS = ("path", "file_path", "filePath", "filepath", "absolute_path", "dir_path")
_EFFECTS: Mapping[str, Effect] = {
    "execute": "run",
    "fetch": "fetch",
    **dict.fromkeys(("read", "search", "think"), "read"),
    **dict.fromkeys(("edit", "delete", "move"), "write"),
}
_LISTS = frozenset({"glob", "list", "list_directory"})
"""Tools that show names of files, not what is in them."""
_FOLDERS = ("workdir", "directory", "dir_path", "cwd")
"""What agents call the folder that a command runs in."""


@dataclass
class AcpCall:
    """One tool call, as far as it is known.

    An agent that states something in its own way has a subclass, in its own package.
    """

    id: str
    fields: Object = field(default_factory=dict[str, object])
    raw_input: Object = field(default_factory=dict[str, object])
    """The tool's input, as far as the agent reports it."""
    asked: int = 0
    """How often permission was requested: OpenCode asks for the folder, then for the command."""

    def learn(self, piece: Object) -> None:
        """Merge in what a message says about the call; what it leaves out stays as it was."""
        for name in _FIELDS:
            if piece.get(name):
                self.fields[name] = piece[name]
        # OpenCode reports the folder of a command at first, but not when it asks.
        self.raw_input: Object = {**self.raw_input, **mapping(piece.get("rawInput"))}

    @property
    def name(self) -> str:
        """The agent's name for the tool, if it gives one; otherwise the kind of tool."""
        meta = mapping(self.fields.get("_meta"))
        names = (mapping(part).get("toolName") for part in (meta, *meta.values()))
        tool_name = next((text(name) for name in names if name), "")
        title = self._title_of("other")
        return tool_name or (title if is_ours(title) else "") or self.kind

    @property
    def kind(self) -> str:
        """read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
        return text(self.fields.get("kind")) or "other"

    @property
    def is_ours(self) -> bool:
        """Whether it calls one of our own tools."""
        return self.kind == "other" and is_ours(self.name)

    @property
    def effect(self) -> Effect:
        return "read" if self.is_ours else _EFFECTS.get(self.kind, "other")

    @property
    def command(self) -> str:
        """The command that it runs; the title, if the agent does not report the input."""
        if not self.raw_input:
            return self._title_of("execute")
        words = strings(self.raw_input.get("command"))
        return shlex.join(words) if words else exact_text(self.raw_input.get("command"))

    @property
    def title(self) -> str:
        """The call in the agent's words; for some agents' commands, the command itself."""
        return exact_text(self.fields.get("title"))

    @property
    def description(self) -> str:
        """What the agent says about it."""
        texts = (text(mapping(part.get("content")).get("text")) for part in self._content)
        return "\n".join(part for part in texts if part)

    @property
    def why(self) -> str:
        """The reason for it."""
        return text(self.raw_input.get("description")) or self.description

    @property
    def folder(self) -> str:
        """The folder that its command runs in; empty if none is named."""
        named = (text(self.raw_input[name]) for name in _FOLDERS if self.raw_input.get(name))
        return next(named, "")

    @property
    def searched(self) -> str:
        """The folder that it searches."""
        if not (self.raw_input or self.places):
            return ANYWHERE
        pattern = text(self.raw_input.get("pattern"))
        # A pattern for file contents names no place, but not every agent says which kind it is.
        leads = "glob" in self.name.lower() or pattern.startswith(("/", "../", "~"))
        return searched(next(iter(self.places), ""), pattern if leads else "")

    @property
    def diffs(self) -> list[Object]:
        """The changes it would make, each with `path`, `oldText` and `newText`."""
        return [part for part in self._content if part.get("type") == "diff"]

    @property
    def paths(self) -> list[str]:
        """The files it is about."""
        placed = (*self.diffs, *mappings(self.fields.get("locations")))
        return list(dict.fromkeys(text(place.get("path")) for place in placed if place.get("path")))

    @property
    def places(self) -> list[str]:
        """The files or folders it is about, from everything that the agent reports."""
        paths = (text(self.raw_input.get(name)) for name in _PATHS)
        return list(dict.fromkeys([*self.paths, *(path for path in paths if path)]))

    @property
    def input(self) -> Object:
        """The tool's input, with the exact command or path however the agent reports it."""
        raw = self.raw_input
        named = "command" if self.kind == "execute" else "title"
        # Whole files may have to be compared, so only if somebody will look at the diff.
        diff = self.diff if self.asked else ""
        facts = {named: self.title, "description": self.description, "diff": diff}
        given = dict(raw) or {name: value for name, value in facts.items() if value}
        if self.paths and self.kind != "execute" and not any(name in given for name in _PATHS):
            given["path"] = self.paths[0]
        return given

    @property
    def diff(self) -> str:
        """Its changes as one text; comparing whole files may take a while."""
        return "\n".join(
            unified(*(exact_text(change.get(name)) for name in ("path", "oldText", "newText")))
            for change in self.diffs
        )

    @property
    def _content(self) -> list[Object]:
        return mappings(self.fields.get("content"))

    def _title_of(self, kind: str) -> str:
        return self.title if self.kind == kind else ""


class AcpCalls(CallLedger):
    """Which calls of a turn have begun and which have ended, each reported once."""

    def __init__(self, call_type: type[AcpCall] = AcpCall) -> None:
        super().__init__()
        self._call_type = call_type
        self._known: dict[str, AcpCall] = {}

    @property
    def any(self) -> bool:
        """Whether there was any call."""
        return bool(self._known)

    def handle(self, piece: Object, *, interrupted: bool) -> Iterator[CallUpdate]:
        """Handle a `tool_call` or `tool_call_update`; `interrupted`: after an interrupt."""
        call = self.learned(piece)
        status = piece.get("status")
        # A call that is only announced will be described better before it runs.
        if piece.get("sessionUpdate") == "tool_call_update" or status != "pending":
            yield from self.begin(call)
        if status in ("completed", "failed"):
            # Gemini reports an interrupted command as "completed".
            yield from self.finish(call.id, interrupted or status == "failed", _outcome(piece))

    def learned(self, piece: Object) -> AcpCall:
        """Return the call that a message is about, updated with what the message says."""
        call_id = text(piece.get("toolCallId"))
        call = self._known.setdefault(call_id, self._call_type(call_id))
        call.learn(piece)
        return call

    def begin(self, call: AcpCall) -> Iterator[CallUpdate]:
        """Report that a call runs, or that permission is requested for it."""
        if call.id not in self.started:  # working out its input may take a while
            given = cast("Object", verbatim(call.input))
            yield from self.start(ToolCallStarted(call.id, call.name, given, call.effect))


def _outcome(piece: Object) -> Object:
    """Return what the tool gave back."""
    call = AcpCall("", {"content": piece.get("content")})
    changed = [change.get("path") for change in call.diffs]
    output = {"text": call.description, "changed": changed, "result": piece.get("rawOutput")}
    return cast("Object", bounded({name: value for name, value in output.items() if value}))


_TARGETS = ("newPath", "new_path", "destination", "to")
"""What agents call the path that a file is moved to."""


def action_of(call: AcpCall, cwd: str) -> Action:
    """Return what a call would do."""
    name, kind = call.name, call.kind
    if kind == "execute" or (kind == "other" and call.command):
        return Action("run", name, str(PurePath(cwd, call.folder)), command=call.command)
    if kind in ("edit", "delete", "move") or call.diffs:
        return Action("write", name, cwd, paths=_written(call))
    if kind == "search":
        return Action("read", name, cwd, paths=(call.searched,), names_only=name in _LISTS)
    if kind == "think":
        return Action("read", name, cwd)
    if kind == "read" and call.places:
        return Action("read", name, cwd, paths=tuple(call.places))
    if kind == "fetch":
        return Action("fetch", name, cwd, target=text(call.raw_input.get("url")))
    # This includes a read of an unknown place.
    return Action("other", name, cwd)


def _written(call: AcpCall) -> tuple[str, ...]:
    moved = [text(call.raw_input[name]) for name in _TARGETS if text(call.raw_input.get(name))]
    return tuple(dict.fromkeys([*call.places, *moved]))


CANCELLED: Object = {"outcome": {"outcome": "cancelled"}}


@dataclass(frozen=True)
class Permission:
    """A request for permission."""

    id: object
    call: AcpCall
    options: Sequence[Object]

    @property
    def key(self) -> str:
        """Its key among the agent's questions."""
        return str(self.id)

    def reply(self, approved: bool) -> Object:
        """Return the option that allows or rejects once; a standing answer is never given."""
        wanted = "allow_once" if approved else "reject_once"
        for option in self.options:
            if option.get("kind") == wanted:
                chosen = {"outcome": "selected", "optionId": option.get("optionId")}
                return {"outcome": chosen}
        return CANCELLED


def question_for(permission: Permission, cwd: str, last_text: str) -> Asked:
    """Return an agent's question, with its last text.  Comparing files may take a while."""
    call = permission.call
    action = action_of(call, cwd)
    pending = PendingCall(
        call_id=call.id,
        name=call.name,
        input=verbatim(call.input),
        cwd=action.cwd,
        action=action,
        why=brief(call.why),
        said=brief(last_text),
        diff=call.diff,
        number=call.asked,
    )
    question = questions.permission(permission.key, pending)
    return replace(question, takes_words=False)
