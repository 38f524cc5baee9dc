"""The adapter for agents without one of their own, driven by the registry entry alone."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

import anyio.to_thread

from coterie.agents.program import ProgramAdapter
from coterie.errors import AgentMissing, NotFound, UsageError
from coterie.model import update
from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.workspace import Workspace
from coterie.process.child import Child, DryRunChildLog, Spawn, start_recorded
from coterie.process.stdio_turns import CompletionStrategy, StdioTurns

DETECTORS = "coterie.detectors"
BACKSTOP = 2.0
"""We end a turn at its limit ourselves, to report what the agent wrote last; if we fail to,
the engine ends it this many seconds later."""
AFTER_INTERRUPT = 2.0
"""How long an interrupted agent may take to stop before it is ended."""
NATURAL_END = 2.0
"""How long an agent may take to exit by itself after its reply."""


@dataclass(frozen=True)
class GenericAdapter(ProgramAdapter):
    """Runs a program as its registry entry says."""

    def limits(self, member: Member) -> Limits:
        return self.agent.clocks(self.total(member) + BACKSTOP, member, self.quiet_after)

    def total(self, member: Member) -> float:
        """How long a turn may take, in seconds."""
        return self.agent.total_timeout_ms(member) / 1000

    async def open(
        self, member: Member, workspace: Workspace, thread: str | None
    ) -> GenericChannel:
        """Open a channel; a persistent agent is started now, others with each turn."""
        strategy = await self._strategy(member, workspace)
        channel = GenericChannel(self, member, workspace, strategy)
        if channel.holds_past or isinstance(self.children, DryRunChildLog):
            await channel.begin()
        return channel

    async def _strategy(self, member: Member, workspace: Workspace) -> CompletionStrategy:
        capabilities = self.agent.capabilities
        if capabilities.detection == "jsonl":
            return CompletionStrategy.json_event(
                frozenset(capabilities.completion_types), capabilities.text_field
            )
        if capabilities.detection == "idleTimeout":
            return CompletionStrategy.after_silence(self.agent.idle_timeout_ms(member))
        if capabilities.completion_pattern is not None:
            return CompletionStrategy.pattern(capabilities.completion_pattern)
        try:
            detect = await anyio.to_thread.run_sync(_detector, capabilities.detector or "")
        except UsageError as problem:
            raise self.missing(member, workspace, str(problem), problem.hint or "") from problem
        return CompletionStrategy.detector(detect)


@dataclass(eq=False)
class GenericChannel:
    """A member's channel to its program: one process for all turns, or one for each."""

    _adapter: GenericAdapter
    _member: Member
    _workspace: Workspace
    _strategy: CompletionStrategy
    thread: None = None
    _child: Child | None = None
    _exchange: StdioTurns | None = None
    _taking: StdioTurns | None = None
    _introduced: bool = False
    _interrupted: bool = False
    _closed: bool = False

    @property
    def holds_past(self) -> bool:
        """Whether the process persists, and with it what it was told."""
        return self._adapter.agent.capabilities.persistent

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def alive(self) -> bool:
        if self._closed:
            return False
        return not self.holds_past or (self._child is not None and self._child.alive)

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[update.Update]:
        """Send the prompt and yield the updates, the last one an `update.End`."""
        self._interrupted = False
        try:
            exchange = await self._ready()
        except AgentMissing as error:
            yield update.TurnFailed("missing", str(error), retry=False)
            return
        if self._interrupted:  # before the prompt was sent: a one-shot process must not wait for it
            stays = self.holds_past
            yield update.TurnInterrupted() if stays else await self._conclude(_UNASKED, exchange)
            return
        total = self._adapter.total(self._member)
        self._taking = exchange
        try:
            async with aclosing(exchange.take(self._framed(prompt.text), total)) as items:
                async for item in items:
                    is_end = isinstance(item, update.TurnCompleted | update.TurnFailed)
                    yield await self._conclude(item, exchange) if is_end else item
        finally:
            self._taking = None

    async def answer(self, key: str, response: Response) -> None:
        """Do nothing: such an agent asks no questions."""

    async def interrupt(self) -> None:
        """Send Ctrl-C to the agent; if it does not stop, it is ended."""
        self._interrupted = True
        if self._child is not None and self._taking is not None:
            self._child.interrupt()
            self._taking.break_off(AFTER_INTERRUPT)

    async def close(self) -> None:
        """End the process and its whole tree; raises AgentMissing if part of it would not die."""
        self._closed = True
        await self._drop()

    async def begin(self) -> StdioTurns:
        """Start the process; raises AgentMissing if that fails."""
        adapter, agent, place = self._adapter, self._adapter.agent, self._workspace
        folder, cwd = str(place.folder), str(place.execution_dir)
        words, member = self._adapter.agent.arguments(self._member), self._member.id
        spawn = Spawn(agent.command, words, cwd, place.env, member, folder, use_pty=agent.use_pty)
        self._child = await start_recorded(spawn, agent.name, adapter.children, adapter.keeper)
        if self._closed:  # while it was being started
            await self._drop()
            raise self._missing("it was closed while it was starting")
        self._introduced = False
        self._exchange = StdioTurns(self._child, self._strategy, one_shot=not self.holds_past)
        return self._exchange

    async def _ready(self) -> StdioTurns:
        if self._closed:
            raise self._missing("its channel is closed")
        if self.holds_past and self._exchange is not None:
            return self._exchange
        if self._child is not None:
            # The previous process has given its reply and may still be shutting down.
            with anyio.move_on_after(NATURAL_END):
                await self._child.exit()
            await self._drop()
        return await self.begin()

    async def _conclude(
        self, end: update.TurnCompleted | update.TurnFailed, exchange: StdioTurns
    ) -> update.End:
        """Return how the turn ended; end the process unless it persists or has said it is done.

        Falling silent does not count: it might keep working while another member has the floor.
        """
        completed = isinstance(end, update.TurnCompleted)
        if not completed or not (self.holds_past or self._strategy.silence is None):
            try:
                await self._drop()
            except AgentMissing as error:
                return update.TurnFailed("exit", str(error), retry=False)
        return update.TurnInterrupted(exchange.text) if self._interrupted else end

    async def _drop(self) -> None:
        child = self._child
        if child is not None:
            await child.close()
            if self._child is child:  # not replaced meanwhile, after a concurrent drop
                self._child = None

    def _missing(self, problem: str) -> AgentMissing:
        return self._adapter.missing(self._member, self._workspace, problem)

    def _framed(self, text: str) -> bytes:
        """Encode the prompt for the process; the first one is preceded by the member's role."""
        capabilities = self._adapter.agent.capabilities
        if not (self._introduced or capabilities.prompt_flag) and self._member.system_instruction:
            text = f"[SYSTEM]\n{self._member.system_instruction}\n\n{text}"
        self._introduced = True
        if capabilities.prompt_format == "jsonl":
            text = json.dumps({"type": "prompt", "text": text})
        return text.encode("utf-8", "replace")


_UNASKED = update.TurnFailed("exit", "it was stopped before it got a prompt")


def _detector(name: str) -> Callable[[str], str | bool | None]:
    from importlib.metadata import entry_points

    from coterie.ports.entry_points import load_entry_point

    for point in entry_points(group=DETECTORS, name=name):
        return load_entry_point(point, "detector")
    raise NotFound(f'no detector "{name}" among the entry points of {DETECTORS}', "coterie doctor")
