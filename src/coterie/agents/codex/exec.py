"""The fallback: `codex exec --json`, a process for each turn on one thread.

It can ask nothing, so whatever the member may do, here it can only look.  Its audit may lack
commands that the sandbox stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast
from uuid import uuid4

import anyio.to_thread

from coterie.agents.codex.calls import CodexCalls
from coterie.agents.codex.failures import failed, gone
from coterie.agents.codex.home import LOOKING, Leftovers, toml_value
from coterie.agents.codex.turn import Tokens
from coterie.agents.process import AgentProcessEnded, Object
from coterie.agents.program import OneShotChannel, StartProcess
from coterie.model.team import Member
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    TurnCompleted,
    Update,
)
from coterie.process.stdio_turns import clean

_ITEMS = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "mcp_tool_call": "mcpToolCall",
}
_NAMES = {"aggregated_output": "aggregatedOutput", "exit_code": "exitCode"}


@dataclass
class _ExecRun:
    """What one process has told."""

    thread: str | None
    spent: Tokens | None
    """What the thread had cost before; None where nobody knows."""
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])
    """Codex counts its items from 0 in every process."""
    text: str = ""
    end: End | None = None
    calls: CodexCalls = field(default_factory=CodexCalls)

    def take(self, event: Object) -> Iterator[Update]:
        """The updates in an event."""
        yield Activity()
        match event.get("type"):
            case "thread.started":
                self.thread = str(event.get("thread_id"))
            case "item.started":
                yield from self.calls.item_started(self._item(event))
            case "item.completed":
                yield from self._item_completed(event)
            case "turn.completed":
                self._completed(cast("Object", event.get("usage", {})))
            case "turn.failed":
                self.end = failed(cast("Object", event.get("error", {})))
            case _:
                pass

    def left(self, *, broken_off: bool) -> Iterator[Update]:
        """Ends the calls that have not ended."""
        yield from self.calls.leave(broken_off=broken_off)

    def gone(self, end: AgentProcessEnded) -> End:
        """Why the process ended before the turn did."""
        return gone(end)

    def _item(self, event: Object) -> Object:
        item = cast("Object", event.get("item", {}))
        named = {_NAMES.get(key, key): value for key, value in item.items()}
        kind = str(item.get("type"))
        return {**named, "type": _ITEMS.get(kind, kind), "id": f"{self.prefix}.{item.get('id')}"}

    def _item_completed(self, event: Object) -> Iterator[Update]:
        item = self._item(event)
        if item["type"] == "agent_message":
            self.text = clean(str(item.get("text", "")))
            yield TextDelta(f"{self.text}\n\n")
        yield from self.calls.item_completed(item)

    def _completed(self, usage: Object) -> None:
        total = Tokens(int(usage.get("input_tokens", 0)), int(usage.get("output_tokens", 0)))
        spent, self.spent = self.spent, total
        self.end = TurnCompleted(self.text, total.since(spent) if spent else None)


class CodexExecChannel(OneShotChannel[_ExecRun]):
    """`ports.Channel` by `codex exec`."""

    holds_past = True

    def __init__(
        self, start: StartProcess, member: Member, leftovers: Leftovers, thread: str | None
    ) -> None:
        super().__init__(start, _ExecRun(thread, None if thread else Tokens()))
        self._member = member
        self._leftovers = leftovers

    @property
    def thread(self) -> str | None:
        """Codex's id of the conversation; None before the first turn."""
        return self._run.thread

    def _next_run(self) -> _ExecRun:
        return _ExecRun(self._run.thread, self._run.spent)

    def _words(self) -> tuple[str, ...]:
        thread = self._run.thread
        role = f"developer_instructions={toml_value(self._member.system_instruction)}"
        sandbox = f"default_permissions={toml_value(LOOKING)}"
        resumed = ("resume", thread) if thread else ()
        settings = ("-c", role, "-c", sandbox)
        return ("exec", "--json", "--skip-git-repo-check", *settings, *resumed, "-")

    async def _end_process(self) -> None:
        await super()._end_process()
        await anyio.to_thread.run_sync(self._leftovers.remove)
