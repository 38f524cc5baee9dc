"""The interface to agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol, runtime_checkable

from coterie.model.conversation import Limits, Prompt
from coterie.model.interaction import Response
from coterie.model.team import Member
from coterie.model.update import Update
from coterie.model.workspace import Workspace
from coterie.ports.machines import Deadline


class Channel(Protocol):
    """A member's open line to its agent.  Used by one turn at a time.

    A channel whose agent reports every tool call before making it may set the attribute
    `asks_first` to true: then files are saved before the first call that may change some.
    For any other channel, files are saved around every turn, whatever the agent reports.
    """

    @property
    def thread(self) -> str | None:
        """The agent's own id of the conversation, to resume from; None if it has none."""
        ...

    @property
    def holds_past(self) -> bool:
        """Whether the agent remembers earlier turns, so that only new messages need to be sent."""
        ...

    @property
    def pid(self) -> int | None:
        """The pid of the process, for `ps`; None if the agent has none at the moment."""
        ...

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here; if not, a new channel is opened."""
        ...

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Send the prompt and yield updates, the last of them an `End`.

        Never raises for what the agent does: that is TurnFailed.  If the iteration is cancelled,
        the agent may be left in mid-turn: the caller closes the channel.
        """
        ...

    async def answer(self, key: str, response: Response) -> None:
        """Pass the agent the answer to what it `Asked`."""
        ...

    async def interrupt(self) -> None:
        """Ask the agent to interrupt the turn; the iteration then ends."""
        ...

    async def close(self) -> None:
        """End the agent and its whole process tree; returns when it is proven gone.

        Bounded in time and safe to call twice; must not be cancelled halfway.
        """
        ...


class Adapter(Protocol):
    """The code that speaks to one kind of agent."""

    def limits(self, member: Member) -> Limits:
        """Return the limits of this member's turns."""
        ...

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> Channel:
        """Open a channel, on an earlier thread if one is given and the agent supports it.

        Raises AgentMissing if the agent cannot be started.
        """
        ...


class ChildLog(Protocol):
    """Where the start and end of every agent process is recorded."""

    async def starting(self, member: str, agent: str) -> str:
        """Record that a process is about to be started; returns its mark."""
        ...

    def started(self, mark: str, pid: int) -> None:
        """Record its pid; need not be durable at once."""
        ...

    def ended(self, mark: str) -> None:
        """Record that it is proven gone."""
        ...


@runtime_checkable
class LeasedChildLog(Protocol):
    """The ChildLog of an owner whose agents end with its lease."""

    @property
    def deadline(self) -> Deadline | None:
        """When the agents end; None: not before their owner ends them."""
        ...


@runtime_checkable
class StderrLog(Protocol):
    """A ChildLog that also keeps what processes write to stderr."""

    def stderr(self, member: str) -> Callable[[bytes], None]:
        """Return the callback for what a process of the member writes to stderr, as it comes;
        called with nothing at its end.  Must not block."""
        ...
