"""What a turn of the built-in agent works with, and how it is interrupted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import anyio

from coterie.agents.builtin.conversation import ChatModel
from coterie.agents.builtin.thread import PER_TOKEN
from coterie.model.agent import ToolCalls
from coterie.model.interaction import Response
from coterie.ports import Deadline, require_lease
from coterie.tools.toolbox import Toolbox, ToolSpec

_T = TypeVar("_T")


class Interrupted(Exception):
    """The user broke the turn off."""


class Breaker:
    """Stands around everything in a turn that takes time.

    There is no keeper around a turn of ours, so its deadline is looked at here.
    """

    def __init__(self, deadline: Deadline | None = None) -> None:
        self._deadline = deadline
        self._asked = False
        self._scope: anyio.CancelScope | None = None
        self._make_scope = type(anyio.CancelScope())
        """What anyio looks up anew whenever it makes one, which costs more than the scope."""

    def reset(self) -> None:
        """A new turn begins: what was said to an earlier one is over."""
        self._asked = False

    def interrupt(self) -> None:
        """Break off what runs now, and let nothing new begin."""
        self._asked = True
        if self._scope is not None:
            self._scope.cancel()

    def check(self) -> None:
        """Raise Interrupted where that was asked for, LeaseExpired where nothing may be begun."""
        if self._asked:
            raise Interrupted
        if self._deadline is not None:
            require_lease(self._deadline)

    async def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """The outcome of the work, or Interrupted as soon as that is asked for."""
        self.check()
        with self._make_scope() as scope:
            self._scope = scope
            try:
                return await work()
            finally:
                self._scope = None
        raise Interrupted


CONTEXT_TOKENS = 120_000
PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each further try at a request that failed for a moment."""


Answers = dict[str, Response]
"""By the key of a question; there is one before the turn goes on."""


@dataclass(frozen=True)
class TurnServices:
    """A model, its tools, and what it is told."""

    model: ChatModel
    toolbox: Toolbox
    system: str
    summing_up: str
    """What a model is told that sums up the older part of a thread."""
    tool_calls: ToolCalls = "auto"
    context_tokens: int = CONTEXT_TOKENS
    pauses: Sequence[float] = PAUSES
    deadline: Deadline | None = None
    """Past it neither the model nor a tool is asked for anything."""

    @cached_property
    def tools(self) -> list[ToolSpec]:
        """The tools as they are described to the model; that takes a while to work out."""
        return self.toolbox.specs()

    @property
    def offered(self) -> list[ToolSpec]:
        """The tools that the model can call natively."""
        return [] if self.tool_calls == "text" else self.tools

    @cached_property
    def characters(self) -> int:
        """How long a conversation may be, beside what always goes with it."""
        always = len(self.system) + sum(len(str(tool)) for tool in self.offered)
        return max(self.context_tokens * PER_TOKEN - always, PER_TOKEN)
