"""The seam to agents."""

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

    One whose agent reports every tool call before it is made may say so by an attribute
    `asks_first` that is true: then files are kept before the first call that may change some.
    Around the turns of any other they are kept whatever it reports.
    """

    @property
    def thread(self) -> str | None:
        """The agent's own id of the conversation, to resume from; None where it has none."""
        ...

    @property
    def holds_past(self) -> bool:
        """Whether the agent remembers earlier turns, so that only what is new need be sent."""
        ...

    @property
    def pid(self) -> int | None:
        """The process, for `ps`; None for an agent that has none at the moment."""
        ...

    @property
    def alive(self) -> bool:
        """Whether another turn can be taken here; if not, a new channel is opened."""
        ...

    def take_turn(self, prompt: Prompt) -> AsyncGenerator[Update]:
        """Send the prompt and yield updates, the last of them an `End`.

        Never raises for what the agent does: that is TurnFailed.  When the iteration is
        cancelled, the agent may be left in the middle: the caller closes the channel.
        """
        ...

    async def answer(self, key: str, response: Response) -> None:
        """Give the agent the answer to what it `Asked`."""
        ...

    async def interrupt(self) -> None:
        """Ask the agent to break off the turn; the iteration then ends."""
        ...

    async def close(self) -> None:
        """End the agent and its whole process tree; returns when it is proven gone.

        Bounded in time, safe to call twice, not to be cancelled half-way.
        """
        ...


class Adapter(Protocol):
    """The code that speaks to one kind of agent."""

    def limits(self, member: Member) -> Limits:
        """The clocks for this member's turns."""
        ...

    async def open(self, member: Member, workspace: Workspace, thread: str | None) -> Channel:
        """Open a channel, on an earlier thread where one is given and the agent can.

        Raises AgentMissing when the agent cannot be started.
        """
        ...


class ChildLog(Protocol):
    """Where the start and end of every agent process is recorded."""

    async def starting(self, member: str, agent: str) -> str:
        """Record, before it is started, that a process will be; returns its mark."""
        ...

    def started(self, mark: str, pid: int) -> None:
        """Record its pid; need not be durable at once."""
        ...

    def ended(self, mark: str) -> None:
        """Record that it is proven gone."""
        ...


@runtime_checkable
class LeasedChildLog(Protocol):
    """A ChildLog of an owner whose agents end when its lease does."""

    @property
    def deadline(self) -> Deadline | None:
        """When that is; None: not before their owner ends them."""
        ...


@runtime_checkable
class StderrLog(Protocol):
    """A ChildLog that also keeps what processes write to stderr."""

    def stderr(self, member: str) -> Callable[[bytes], None]:
        """What is called with all that a process of the member writes to stderr, as it comes; with
        nothing at its end.  Must not block."""
        ...
