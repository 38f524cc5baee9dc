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
    """The user interrupted the turn."""


class Interrupter:
    """Makes everything in a turn that takes time interruptible.

    No keeper watches a built-in turn, so its deadline is checked here.
    """

    def __init__(self, deadline: Deadline | None = None) -> None:
        self._deadline = deadline
        self._asked = False
        self._scope: anyio.CancelScope | None = None
        self._make_scope = type(anyio.CancelScope())
        """The backend's scope class: looking it up for each scope costs more than the scope."""

    def reset(self) -> None:
        """Begin a new turn: an interrupt of an earlier one no longer counts."""
        self._asked = False

    def interrupt(self) -> None:
        """Cancel what is running, and let nothing new begin."""
        self._asked = True
        if self._scope is not None:
            self._scope.cancel()

    def check(self) -> None:
        """Raise Interrupted if that was requested, LeaseExpired once the deadline has passed."""
        if self._asked:
            raise Interrupted
        if self._deadline is not None:
            require_lease(self._deadline)

    async def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Return the result of the work; raises Interrupted as soon as that is requested."""
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
"""Seconds before each retry of a request that failed temporarily."""


Answers = dict[str, Response]
"""By the key of a question; the answer is there before the turn continues."""


@dataclass(frozen=True)
class TurnServices:
    """A model, its tools and its instructions."""

    model: ChatModel
    toolbox: Toolbox
    system: str
    summing_up: str
    """The instructions for a model that summarizes the older part of a thread."""
    tool_calls: ToolCalls = "auto"
    context_tokens: int = CONTEXT_TOKENS
    pauses: Sequence[float] = PAUSES
    deadline: Deadline | None = None
    """Past it, neither the model nor a tool is called."""

    @cached_property
    def tools(self) -> list[ToolSpec]:
        """The tools as described to the model, cached because that takes a while to work out."""
        return self.toolbox.specs()

    @property
    def offered(self) -> list[ToolSpec]:
        """The tools that the model can call natively."""
        return [] if self.tool_calls == "text" else self.tools

    @cached_property
    def characters(self) -> int:
        """How many characters a conversation may have, not counting what is always sent."""
        always = len(self.system) + sum(len(str(tool)) for tool in self.offered)
        return max(self.context_tokens * PER_TOKEN - always, PER_TOKEN)
