"""What a member of the built-in agent works with, the same for all its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from coterie.agents.builtin.compaction import PER_TOKEN
from coterie.agents.builtin.speech import Model
from coterie.model.agent import ToolCalls
from coterie.model.interaction import Response
from coterie.tools.toolbox import Toolbox, ToolSpec

CONTEXT_TOKENS = 120_000
PAUSES = (0.5, 2.0, 5.0)
"""Seconds before each further try at a request that failed for a moment."""


@dataclass(frozen=True)
class Kit:
    """A model, its tools, and what it is told."""

    model: Model
    toolbox: Toolbox
    system: str
    summing_up: str
    """What a model is told that sums up the older part of a thread."""
    tool_calls: ToolCalls = "auto"
    context_tokens: int = CONTEXT_TOKENS
    pauses: Sequence[float] = PAUSES

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


@dataclass
class Answers:
    """The answers to what the turn asked, on their way to it."""

    _given: dict[str, Response] = field(default_factory=dict[str, Response])

    def give(self, key: str, response: Response) -> None:
        """Keep an answer until the turn takes it."""
        self._given[key] = response

    def take(self, key: str) -> Response | None:
        """The answer; there is one before the turn goes on."""
        return self._given.pop(key, None)
