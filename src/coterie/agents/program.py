"""What the adapters of long-lived programs have in common."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, TypeVar

import anyio

from coterie.agents.process import AgentProcess, AgentProcessEnded, Object, RpcError
from coterie.errors import AgentMissing
from coterie.model.agent import AgentDefinition
from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import (
    End,
    ToolCallFinished,
    ToolCallStarted,
    TurnFailed,
    TurnInterrupted,
    Update,
)
from coterie.model.workspace import InteractiveStart, Workspace
from coterie.ports import ChildLog
from coterie.process.child import KeeperName, Spawn
from coterie.workspace.git_work import GuardedWork

START = 60.0
"""How long an agent may take to start and open a conversation; in practice a few seconds."""
QUIET_AFTER = 120.0
"""Seconds of silence after which a turn is shown as quiet."""


_Opened = TypeVar("_Opened")


@dataclass(frozen=True)
class ProgramAdapter:
    """An agent by its registry entry, and where the start of its processes is recorded."""

    agent: AgentDefinition
    children: ChildLog
    keeper: KeeperName = "auto"
    quiet_after: float = QUIET_AFTER

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        """Prepare a member's home; returns how its CLI is started for a person.  Blocks."""
        return InteractiveStart(agent.arguments(member), workspace.env, is_told=agent.takes_role)

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns: such an agent's end is an event, never silence."""
        return self.agent.clocks(
            self.agent.total_timeout_ms(member, silent=False) / 1000, member, self.quiet_after
        )

    async def start(
        self,
        member: Member,
        workspace: Workspace,
        cwd: Path,
        env: Mapping[str, str],
        *words: str,
        work: GuardedWork | None = None,
    ) -> AgentProcess:
        """A process of this agent for this member; AgentMissing when it cannot be started.

        `work` is put right by its keeper, if we are gone before it.
        """
        spawn = Spawn(self.agent.command, words, str(cwd), env, member.id, str(workspace.folder))
        if work is not None:
            spawn = replace(spawn, orphaned=work.when_orphaned, memory=work.memory)
        return await AgentProcess.open(spawn, self.agent.name, self.children, self.keeper)

    def missing(
        self, member: Member, workspace: Workspace, problem: str, advice: str = "coterie doctor"
    ) -> AgentMissing:
        """Why this agent cannot be started for this member."""
        return AgentMissing(member.id, str(workspace.folder), self.agent.command, problem, advice)


class CannotOpen(Exception):
    """Why no conversation can be had with an agent that runs."""


async def opened_on(
    process: AgentProcess, opening: Awaitable[_Opened], readable: Callable[[str], str] = str
) -> _Opened:
    """What `opening` returns; without it, the process is ended and AgentMissing says why.

    `readable` is for the last that it wrote outside the protocol.
    """
    try:
        with anyio.move_on_after(START):
            return await opening
        problem = f"it did not answer within {START:g} s"
    except CannotOpen as error:
        problem = str(error)
    except RpcError as error:
        problem = f"it refused {error.method}: {error.message}"
    except AgentProcessEnded as end:
        problem = f"it ended with exit code {end.exit_code}"
    except BaseException:
        with anyio.CancelScope(shield=True):
            await process.close()
        raise
    await process.close()
    tail = readable(process.tail)
    raise process.child.spawn.missing(f"{problem}\n{tail}" if tail else problem)


ToldCall = ToolCallStarted | ToolCallFinished


class CallLedger:
    """The tool calls of a turn: each is told to start once, and to finish once."""

    def __init__(self) -> None:
        self.started: dict[str, ToolCallStarted] = {}
        self._finished: set[str] = set()

    @property
    def running(self) -> list[ToolCallStarted]:
        """Those that have started and not finished, oldest first."""
        return [call for key, call in self.started.items() if key not in self._finished]

    def start(self, call: ToolCallStarted) -> Iterator[ToldCall]:
        """It runs, or permission is asked for it."""
        if call.call_id not in self.started:
            self.started[call.call_id] = call
            yield call

    def finish(self, call_id: str, failed: bool, output: Object) -> Iterator[ToldCall]:
        """It is over."""
        if call_id not in self._finished:
            self._finished.add(call_id)
            yield ToolCallFinished(call_id, failed, output)

    def leave(self, *, broken_off: bool) -> Iterator[ToldCall]:
        """The turn is over: of what has not finished, nobody will hear any more."""
        for call in self.running:
            status = "interrupted" if broken_off else "unknown"
            yield from self.finish(call.call_id, True, {"status": status})


class ProcessChannel:
    """What the channels on one long-lived process have in common."""

    holds_past = True
    asks_first = True

    def __init__(self, process: AgentProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.alive


@dataclass(frozen=True)
class RefusedChannel:
    """`ports.Channel` to an agent that nobody has signed in to: nothing runs and nothing is sent.

    It is not alive, so the next try opens another, by when somebody may have signed in.
    """

    failure: TurnFailed

    thread = None
    holds_past = False
    asks_first = True
    pid = None
    alive = False

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Say why there is no turn."""
        yield self.failure

    async def answer(self, key: str, response: Response) -> None:
        """It asks nothing."""

    async def interrupt(self) -> None:
        """It does nothing that could be broken off."""

    async def close(self) -> None:
        """There is nothing to end."""


StartProcess = Callable[..., Awaitable[AgentProcess]]
"""Starts a process of a member, by the words that choose the way of calling."""


class OneShotRun(Protocol):
    """One process and what it has told."""

    end: End | None

    @property
    def thread(self) -> str | None:
        """The agent's own id of the conversation, as far as it is known."""
        ...

    @property
    def text(self) -> str:
        """The reply so far."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """The words that choose the way of calling."""
        ...

    def next(self) -> Self:
        """The run after this one, on the same thread."""
        ...

    def take(self, event: Object) -> Iterator[Update]:
        """The updates in an event."""
        ...

    def left(self, *, broken_off: bool) -> Iterator[Update]:
        """The turn is over: the ends of calls of which nobody will hear any more."""
        ...

    def gone(self, end: AgentProcessEnded) -> End:
        """Why the process ended before the turn did."""
        ...


class OneShotChannel:
    """`ports.Channel` to a CLI that is run once for each turn and can ask nothing."""

    holds_past = False

    def __init__(self, start: StartProcess, run: OneShotRun) -> None:
        self._start = start
        self._run = run
        self._process: AgentProcess | None = None
        self._interrupted = False
        self._closed = False

    @property
    def thread(self) -> str | None:
        return self._run.thread

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        return not self._closed

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Run the CLI once and yield what it tells, the last of it an `End`."""
        self._interrupted = False
        run = self._run = self._run.next()
        try:
            process = self._process = await self._start(*run.words)
        except AgentMissing as error:
            yield TurnFailed("missing", str(error), retry=False, hint=error.hint)
            return
        process.child.post(prompt.text.encode("utf-8", "replace"))
        process.child.close_stdin()
        try:
            while run.end is None:
                for update in run.take(await process.receive()):
                    yield update
        except AgentProcessEnded as end:
            run.end = TurnInterrupted(run.text) if self._interrupted else run.gone(end)
        finally:
            await self._end_process()
        for update in run.left(broken_off=self._interrupted):
            yield update
        assert run.end is not None
        yield run.end

    async def answer(self, key: str, response: Response) -> None:
        """It asks nothing."""

    async def interrupt(self) -> None:
        """Ctrl-C for the process, which then ends without a result."""
        self._interrupted = True
        if self._process is not None:
            self._process.child.interrupt()

    async def close(self) -> None:
        """End the process of the turn that runs."""
        self._closed = True
        await self._end_process()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()
