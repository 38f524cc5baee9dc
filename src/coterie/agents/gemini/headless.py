"""The fallback: `gemini --output-format stream-json`, a process for each turn.

It can ask nothing, so tools that would need a yes are not there.  It has no memory: what was
said before comes from our own store with every prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from coterie.agents.acp.failures import Failures
from coterie.agents.fields import bounded, mapping, number, text
from coterie.agents.process import AgentProcessEnded, Object, RpcError
from coterie.agents.program import OneShotChannel, StartProcess
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    Update,
    Usage,
)

_API_ERROR = re.compile(r"\[API Error: (.*)\]", re.DOTALL)
_LOOKING = frozenset(
    {"glob", "grep_search", "list_directory", "read_file", "read_many_files", "update_topic"}
)
_NOT_SIGNED_IN = 41
"""The exit code of a Gemini without a login."""


@dataclass
class _HeadlessRun:
    """What one process has told."""

    failures: Failures
    pieces: list[str] = field(default_factory=list[str])
    complaint: str = ""
    """What it said last of something that went wrong."""
    end: End | None = None
    calls: set[str] = field(default_factory=set[str])
    open: dict[str, None] = field(default_factory=dict[str, None])
    """The calls that have begun and not ended, oldest first."""

    @property
    def text(self) -> str:
        """What it said so far."""
        return "".join(self.pieces)

    def take(self, event: Object) -> Iterator[Update]:
        """The updates in an event."""
        yield Activity()
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                yield from self._said(text(event.get("content")))
            case "tool_use":
                yield self._called(event)
            case "tool_result":
                self.open.pop(text(event.get("tool_id")), None)
                yield _returned(event)
            case "error":
                self.complaint = text(event.get("message"))
            case "result":
                self.end = self._ended(event)
            case _:
                pass

    def _said(self, piece: str) -> Iterator[Update]:
        if piece:
            self.pieces.append(piece)
            yield TextDelta(piece)

    def _called(self, event: Object) -> ToolCallStarted:
        call_id, given = text(event.get("tool_id")), bounded(mapping(event.get("parameters")))
        self.calls.add(call_id)
        self.open[call_id] = None
        name = text(event.get("tool_name"))
        effect = "read" if name in _LOOKING else "other"
        return ToolCallStarted(call_id, name, cast("Object", given), effect)

    def left(self, *, broken_off: bool) -> Iterator[Update]:
        """Ends the calls that have not ended, unless whether they did is unknown."""
        if isinstance(self.end, TurnFailed) and self.end.kind == "exit":
            return
        status = "interrupted" if broken_off else "unknown"
        for call_id in self.open:
            yield ToolCallFinished(call_id, True, {"status": status})

    def gone(self, end: AgentProcessEnded) -> End:
        """Why the process ended before the turn did."""
        signed_out = end.exit_code == _NOT_SIGNED_IN
        return self.failures.signed_out(end.tail) if signed_out else self.failures.gone(end)

    def _ended(self, event: Object) -> End:
        if event.get("status") != "success":
            words = text(mapping(event.get("error")).get("message")) or self.complaint
            found = _API_ERROR.match(words)
            # As the protocol would have told it.
            return self.failures.failed(RpcError("", {"message": found[1] if found else words}))
        if not (self.text or self.calls):
            return self.failures.empty()
        stats = mapping(event.get("stats"))
        given, made = (int(number(stats.get(f"{way}_tokens"))) for way in ("input", "output"))
        return TurnCompleted(self.text, Usage(given, made, source=self.failures.name))


def _returned(event: Object) -> ToolCallFinished:
    told = {"text": text(event.get("output")), "error": mapping(event.get("error"))}
    output = bounded({name: said for name, said in told.items() if said})
    failed = event.get("status") != "success"
    return ToolCallFinished(text(event.get("tool_id")), failed, cast("Object", output))


class HeadlessChannel(OneShotChannel[_HeadlessRun]):
    """`ports.Channel` by a process for each turn."""

    thread = None
    holds_past = False

    def __init__(self, start: StartProcess, failures: Failures) -> None:
        super().__init__(start, _HeadlessRun(failures))
        self._failures = failures

    def _next_run(self) -> _HeadlessRun:
        return _HeadlessRun(self._failures)

    def _words(self) -> tuple[str, ...]:
        return ("--output-format", "stream-json")
