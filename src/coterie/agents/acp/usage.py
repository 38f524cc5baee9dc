"""What a turn cost, by whichever of three ways an agent tells it."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.agents.fields import mapping, number
from coterie.agents.wire import Object
from coterie.model.update import Usage


class Spent:
    """What an agent has told of the cost of its turns.

    The answer to a prompt has it (`usage`; Gemini: `_meta.quota`), or every answer of the model
    does (Qwen: `_meta.usage`).  The price, where there is one, runs on for the whole thread.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._told: list[Object] = []
        self._price: float | None = None
        self._paid = 0.0

    def begin(self) -> None:
        """A turn begins."""
        self._told.clear()
        self._paid = self._price or 0.0

    def hear(self, meta: Object) -> None:
        """The cost of one answer of the model."""
        if told := mapping(meta.get("usage")):
            self._told.append(told)

    def priced(self, cost: Object) -> None:
        """What the thread has cost up to now."""
        if cost.get("currency") == "USD":
            self._price = float(number(cost.get("amount")))

    def usage(self, result: Object) -> Usage | None:
        """The cost of the turn that this answer ends; None where nothing was told."""
        told = mapping(result.get("usage"))
        quota = mapping(mapping(mapping(result.get("_meta")).get("quota")).get("token_count"))
        if told:
            return self._sum([told])
        if quota:
            named = {"inputTokens": quota.get("input_tokens")}
            return self._sum([named | {"outputTokens": quota.get("output_tokens")}])
        return self._sum(self._told) if self._told else None

    def _sum(self, told: Sequence[Object]) -> Usage:
        return Usage(
            input_tokens=sum(map(_input, told)),
            output_tokens=sum(int(number(each.get("outputTokens"))) for each in told),
            cost_usd=None if self._price is None else self._price - self._paid,
            source=self._source,
        )


def _input(told: Object) -> int:
    """Tokens that went in, cached ones too, which some count apart and others do not."""
    given, made, thought, total = (
        int(number(told.get(f"{name}Tokens"))) for name in ("input", "output", "thought", "total")
    )
    return max(given, total - made - thought)
