"""The tool calls of a turn, each told once.

A hook tells of every call before it runs, asked for or not, also of those of helpers and of
those that Claude would run unasked.  Only a call that Claude itself throws out (no such tool, a
wrong input) has no hook: its result tells of both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from coterie.agents.claude.actions import effect_of
from coterie.agents.fields import bounded, mapping, mappings, text, texts
from coterie.agents.wire import Object
from coterie.model.update import ToolCallFinished, ToolCallStarted


class Calls:
    """Which calls were proposed by the model, and which of them have been told of."""

    def __init__(self) -> None:
        self._proposed: dict[str, ToolCallStarted] = {}
        self._told: dict[str, str] = {}
        """Those that have begun, each with the folder it is made in."""
        self._ended: set[str] = set()

    def propose(self, block: Object) -> None:
        """The model wants to use a tool; nothing has happened yet."""
        call = _call(block.get("id"), block.get("name"), block.get("input"))
        self._proposed[call.call_id] = call

    def begin(self, hook: Object) -> ToolCallStarted:
        """A call is about to be made, or to be asked for."""
        call = _call(hook.get("tool_use_id"), hook.get("tool_name"), hook.get("tool_input"))
        self._told[call.call_id] = text(hook.get("cwd"))
        return call

    def folder_of(self, call_id: str) -> str:
        """Where a call is made; empty where nobody said."""
        return self._told.get(call_id, "")

    def end(self, message: Object) -> Iterator[ToolCallStarted | ToolCallFinished]:
        """The results in a message."""
        told = {text(meta.get("id")): meta for meta in mappings(message.get("tool_result_meta"))}
        for block in mappings(mapping(message.get("message")).get("content")):
            if block.get("type") != "tool_result":
                continue
            call_id = text(block.get("tool_use_id"))
            if call_id not in self._told:
                yield self._proposed.get(call_id, ToolCallStarted(call_id, "unknown"))
            output = {"content": bounded(texts(block.get("content")))}
            output |= _decision(told.get(call_id, {}))
            self._ended.add(call_id)
            yield ToolCallFinished(call_id, block.get("is_error") is True, output)

    def leave(self, *, broken_off: bool) -> Iterator[ToolCallFinished]:
        """The turn is over: of what has not ended, nobody will hear any more."""
        status = "interrupted" if broken_off else "unknown"
        for call_id in self._told:
            if call_id not in self._ended:
                yield ToolCallFinished(call_id, True, {"status": status})


def _call(call_id: object, name: object, given: object) -> ToolCallStarted:
    kept = cast("Object", bounded(mapping(given)))
    tool = text(name) or "unknown"
    return ToolCallStarted(text(call_id), tool, kept, effect_of(tool))


def _decision(meta: Object) -> dict[str, object]:
    """Who let the call run, or why it did not."""
    found = {
        "permission": bounded(mapping(meta.get("permission_decision"))),
        "not_run": text(meta.get("non_execution_kind")),
    }
    return {name: value for name, value in found.items() if value}
