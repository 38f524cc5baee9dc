"""The fallback: `gemini --output-format stream-json`, a process for each turn.

It can ask nothing, so tools that would need a yes are not there.  It has no memory: what was
said before comes from our own store with every prompt.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

from coterie.agents.acp.failures import Failures
from coterie.agents.fields import bounded, mapping, number, text
from coterie.agents.rpc import RpcError
from coterie.agents.wire import Object, Starting, Wire, WireEnded
from coterie.errors import AgentMissing
from coterie.model.interaction import Response
from coterie.model.prompt import Prompt
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
    Usage,
)

_API_ERROR = re.compile(r"\[API Error: (.*)\]", re.DOTALL)
_LOOKING = frozenset(
    {"glob", "grep_search", "list_directory", "read_file", "read_many_files", "update_topic"}
)
_NOT_SIGNED_IN = 41
"""The exit code of a Gemini without a login."""


class Start(Protocol):
    """How a process of this member is started, by the words that choose the way of calling."""

    def __call__(self, *call: str) -> Starting: ...


@dataclass
class _Run:
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
        """The turn is over: of what has not ended, nobody will hear any more."""
        status = "interrupted" if broken_off else "unknown"
        for call_id in self.open:
            yield ToolCallFinished(call_id, True, {"status": status})

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


class HeadlessChannel:
    """`ports.Channel` by a process for each turn."""

    thread = None
    holds_past = False
    version = ""

    def __init__(self, start: Start, failures: Failures) -> None:
        self._start = start
        self._failures = failures
        self._wire: Wire | None = None
        self._interrupted = False
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process of the turn that runs."""
        return self._wire.pid if self._wire else None

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here."""
        return not self._closed

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Run Gemini once and yield what it tells, the last of it an `End`."""
        self._interrupted = False
        run = _Run(self._failures)
        try:
            wire = self._wire = await Wire.open(self._start("--output-format", "stream-json"))
        except AgentMissing as error:
            yield TurnFailed("missing", str(error), retry=False, hint=error.hint)
            return
        wire.child.post(prompt.text.encode("utf-8", "replace"))
        wire.child.close_stdin()
        try:
            while run.end is None:
                for update in run.take(await wire.receive()):
                    yield update
        except WireEnded as end:
            run.end = TurnInterrupted(run.text) if self._interrupted else self._gone(end)
        finally:
            await self._drop()
        if not isinstance(run.end, TurnFailed) or run.end.kind != "exit":
            for update in run.left(broken_off=self._interrupted):
                yield update
        yield run.end

    async def answer(self, key: str, response: Response) -> None:
        """It asks nothing."""

    async def interrupt(self) -> None:
        """Ctrl-C for the process, which then ends without a result."""
        self._interrupted = True
        if self._wire is not None:
            self._wire.child.interrupt()

    async def close(self) -> None:
        """End the process of the turn that runs."""
        self._closed = True
        await self._drop()

    def _gone(self, end: WireEnded) -> TurnFailed:
        signed_out = end.exit_code == _NOT_SIGNED_IN
        return self._failures.signed_out(end.tail) if signed_out else self._failures.gone(end)

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
