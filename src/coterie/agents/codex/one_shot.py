"""The fallback: `codex exec --json`, a process for each turn on one thread.

It can ask nothing, so whatever the member may do, here it can only look.  Its audit may lack
commands that the sandbox stopped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast
from uuid import uuid4

import anyio.to_thread

from coterie.agents.codex.calls import Calls
from coterie.agents.codex.failures import failed, gone
from coterie.agents.codex.home import LOOKING, Leftovers, toml_value
from coterie.agents.codex.turn import Tokens
from coterie.agents.wire import Object, Starting, Wire, WireEnded
from coterie.errors import AgentMissing
from coterie.model.interaction import Response
from coterie.model.prompt import Prompt
from coterie.model.team import Member
from coterie.model.update import (
    Activity,
    End,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    Update,
)
from coterie.process.stdio_turns import clean


class Start(Protocol):
    """How a process of this member is started, by the words that choose the way of calling."""

    def __call__(self, *call: str) -> Starting: ...


_ITEMS = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "mcp_tool_call": "mcpToolCall",
}
_NAMES = {"aggregated_output": "aggregatedOutput", "exit_code": "exitCode"}


@dataclass
class _Run:
    """What one process has told."""

    thread: str | None
    spent: Tokens | None
    """What the thread had cost before; None where nobody knows."""
    prefix: str = field(default_factory=lambda: uuid4().hex[:8])
    """Codex counts its items from 0 in every process."""
    text: str = ""
    end: End | None = None
    calls: Calls = field(default_factory=Calls)

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


class OneShotChannel:
    """`ports.Channel` by `codex exec`."""

    holds_past = True
    version = ""

    def __init__(
        self, start: Start, member: Member, leftovers: Leftovers, thread: str | None
    ) -> None:
        self._start = start
        self._member = member
        self._leftovers = leftovers
        self._run = _Run(thread, None if thread else Tokens())
        self._wire: Wire | None = None
        self._interrupted = False
        self._closed = False

    @property
    def thread(self) -> str | None:
        """Codex's id of the conversation; None before the first turn."""
        return self._run.thread

    @property
    def pid(self) -> int | None:
        """The process of the turn that runs."""
        return self._wire.pid if self._wire else None

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here."""
        return not self._closed

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Run Codex once and yield what it tells, the last of it an `End`."""
        self._interrupted = False
        run = self._run = _Run(self._run.thread, self._run.spent)
        try:
            wire = self._wire = await Wire.open(self._start(*self._call()))
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
            run.end = TurnInterrupted(run.text) if self._interrupted else gone(end)
        finally:
            await self._drop()
        for update in run.calls.leave(broken_off=self._interrupted):
            yield update
        assert run.end is not None
        yield run.end

    async def answer(self, key: str, response: Response) -> None:
        """It asks nothing."""

    async def interrupt(self) -> None:
        """Ctrl-C for the process, which then ends without a word."""
        self._interrupted = True
        if self._wire is not None:
            self._wire.child.interrupt()

    async def close(self) -> None:
        """End the process of the turn that runs."""
        self._closed = True
        await self._drop()

    def _call(self) -> tuple[str, ...]:
        thread = self._run.thread
        role = f"developer_instructions={toml_value(self._member.system_instruction)}"
        sandbox = f"default_permissions={toml_value(LOOKING)}"
        resumed = ("resume", thread) if thread else ()
        settings = ("-c", role, "-c", sandbox)
        return ("exec", "--json", "--skip-git-repo-check", *settings, *resumed, "-")

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
        await anyio.to_thread.run_sync(self._leftovers.remove)
