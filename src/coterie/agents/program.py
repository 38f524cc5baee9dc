"""What the adapters of long-lived programs have in common."""

from __future__ import annotations

import math
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
from coterie.workspace.durable_git_guard import DurableGitGuard

START = 60.0
"""How long an agent may take to start and open a conversation; in practice a few seconds."""
QUIET_AFTER = 120.0
"""Seconds of silence after which a turn is shown as quiet."""
AFTER_INTERRUPT = 10.0
"""Seconds an interrupted agent gets to stop before it is ended; in practice it takes a tenth."""


_Opened = TypeVar("_Opened")


@dataclass(frozen=True)
class ProgramAdapter:
    """Base of adapters that run a program: the registry entry, and the log of its processes."""

    agent: AgentDefinition
    children: ChildLog
    keeper: KeeperName = "auto"
    quiet_after: float = QUIET_AFTER

    @classmethod
    def interactive(
        cls, agent: AgentDefinition, member: Member, workspace: Workspace
    ) -> InteractiveStart:
        """Prepare a member's home and return how to start its CLI for a person.  Blocks."""
        return InteractiveStart(agent.arguments(member), workspace.env, has_role=agent.takes_role)

    def limits(self, member: Member) -> Limits:
        """Return this member's clocks: such agents end a turn by an event, never by silence."""
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
        guard: DurableGitGuard | None = None,
    ) -> AgentProcess:
        """Start a process of this agent for this member; raises AgentMissing if that fails.

        If we die before the process does, its keeper cleans up what `guard` protects.
        """
        spawn = Spawn(self.agent.command, words, str(cwd), env, member.id, str(workspace.folder))
        if guard is not None:
            spawn = replace(spawn, orphaned=guard.recovery_command, memory=guard.record_fd)
        return await AgentProcess.open(spawn, self.agent.name, self.children, self.keeper)

    def missing(
        self, member: Member, workspace: Workspace, problem: str, advice: str = "coterie doctor"
    ) -> AgentMissing:
        """Return the error that says why this agent cannot be started for this member."""
        return AgentMissing(member.id, str(workspace.folder), self.agent.command, problem, advice)


class CannotOpen(Exception):
    """Why no conversation can be opened with an agent that runs."""


async def open_or_end(
    process: AgentProcess, opening: Awaitable[_Opened], readable: Callable[[str], str] = str
) -> _Opened:
    """Return the result of `opening`; if it fails, end the process and raise AgentMissing.

    `readable` prepares what the process last wrote outside the protocol for the error.
    """
    try:
        with anyio.move_on_after(START):
            return await opening
        problem = f"it did not respond within {START:g} s"
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


CallUpdate = ToolCallStarted | ToolCallFinished


class CallLedger:
    """The tool calls of a turn: reports each start once, and each end once."""

    def __init__(self) -> None:
        self.started: dict[str, ToolCallStarted] = {}
        self._finished: set[str] = set()

    @property
    def running(self) -> list[ToolCallStarted]:
        """The calls that have started but not finished, oldest first."""
        return [call for key, call in self.started.items() if key not in self._finished]

    def start(self, call: ToolCallStarted) -> Iterator[CallUpdate]:
        """Report that a call runs, or that permission is requested for it."""
        if call.call_id not in self.started:
            self.started[call.call_id] = call
            yield call

    def finish(self, call_id: str, failed: bool, output: Object) -> Iterator[CallUpdate]:
        """Report that a call has ended."""
        if call_id not in self._finished:
            self._finished.add(call_id)
            yield ToolCallFinished(call_id, failed, output)

    def finish_open_calls(self, *, interrupted: bool) -> Iterator[CallUpdate]:
        """Finish the calls still running when the turn is over: no news of them will follow."""
        for call in self.running:
            status = "interrupted" if interrupted else "unknown"
            yield from self.finish(call.call_id, True, {"status": status})


class InterruptDeadline:
    """When an interrupted agent is ended, because it has not ended its turn by itself."""

    def __init__(self) -> None:
        self._at = math.inf
        self._waiting: anyio.CancelScope | None = None

    def start(self) -> None:
        """Start counting: the turn has been interrupted.  A further interrupt postpones nothing."""
        self._at = min(self._at, anyio.current_time() + AFTER_INTERRUPT)
        if self._waiting is not None:
            self._waiting.deadline = self._at

    async def wait(self, process: AgentProcess, answer: Awaitable[_Opened]) -> _Opened:
        """Return the answer; past the deadline the process is ended as if it had exited."""
        with anyio.CancelScope(deadline=self._at) as self._waiting:
            return await answer
        await process.close()
        raise AgentProcessEnded(0, "")


class ProcessChannel:
    """What channels to a long-lived process have in common."""

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

    It is not alive, so the next attempt opens a new one; by then somebody may have signed in.
    """

    failure: TurnFailed

    thread = None
    holds_past = False
    asks_first = True
    pid = None
    alive = False

    async def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Yield why there is no turn."""
        yield self.failure

    async def answer(self, key: str, response: Response) -> None:
        """Do nothing: it asks no questions."""

    async def interrupt(self) -> None:
        """Do nothing: no turn runs."""

    async def close(self) -> None:
        """Do nothing: no process runs."""


StartProcess = Callable[..., Awaitable[AgentProcess]]
"""Starts a member's process, given the arguments that select how it is called."""


class OneShotRun(Protocol):
    """One process and what it has reported."""

    end: End | None

    @property
    def thread(self) -> str | None:
        """The agent's own id of the conversation, if it is known."""
        ...

    @property
    def text(self) -> str:
        """The reply so far."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments that select how the program is called."""
        ...

    def next(self) -> Self:
        """Return the next run, on the same thread."""
        ...

    def take(self, event: Object) -> Iterator[Update]:
        """Yield the updates in an event."""
        ...

    def finish_open_calls(self, *, interrupted: bool) -> Iterator[Update]:
        """Yield the ends of calls still running when the turn is over."""
        ...

    def end_of_exit(self, end: AgentProcessEnded) -> End:
        """Return the end of a turn whose process ended first."""
        ...


class OneShotChannel:
    """`ports.Channel` to a CLI that is run once per turn and cannot ask anything."""

    holds_past = False

    def __init__(self, start: StartProcess, run: OneShotRun) -> None:
        self._start = start
        self._run = run
        self._process: AgentProcess | None = None
        self._interrupted = False
        self._deadline = InterruptDeadline()
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
        """Run the CLI once and yield its updates, the last one an `End`."""
        self._interrupted, self._deadline = False, InterruptDeadline()
        run = self._run = self._run.next()
        try:
            process = self._process = await self._start(*run.words)
        except AgentMissing as error:
            yield TurnFailed("missing", str(error), retry=False, hint=error.hint)
            return
        if self._interrupted or self._closed:  # while it was starting: what it printed is no reply
            await self._end_process()
            yield self._end_of_exit(AgentProcessEnded(await process.child.exit(), process.tail))
            return
        process.child.post(prompt.text.encode("utf-8", "replace"))
        process.child.close_stdin()
        try:
            while run.end is None:
                for update in run.take(await self._deadline.wait(process, process.receive())):
                    yield update
        except AgentProcessEnded as end:
            run.end = self._end_of_exit(end)
        finally:
            await self._end_process()
        for update in run.finish_open_calls(interrupted=self._interrupted):
            yield update
        assert run.end is not None
        yield run.end

    def _end_of_exit(self, end: AgentProcessEnded) -> End:
        run = self._run
        return TurnInterrupted(run.text) if self._interrupted else run.end_of_exit(end)

    async def answer(self, key: str, response: Response) -> None:
        """Do nothing: it asks no questions."""

    async def interrupt(self) -> None:
        """Send Ctrl-C to the process, which then ends without a result, or is ended."""
        self._interrupted = True
        self._deadline.start()
        if self._process is not None:
            self._process.child.interrupt()

    async def close(self) -> None:
        """End the process of the current turn."""
        self._closed = True
        await self._end_process()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()
