"""Budgets: what may be used before somebody is asked, and what has been."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from coterie.model.update import Usage

Measure = Literal["tokens", "usd", "turns"]
Scope = Literal["task", "member", "day", "member's day"]

MORE = r"\s*(stop|\+?\s*\$?\d+(\.\d+)?\s*[kKmM]?)\s*"
"""What may be answered where a budget is used up: how much more, or stop."""

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


class Allowance(BaseModel):
    """How much of each may be used; None: as much as it takes."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)
    turns: int | None = Field(default=None, ge=0)

    def limits(self) -> Iterator[tuple[Measure, float]]:
        """What is limited, and to how much."""
        if self.tokens is not None:
            yield "tokens", self.tokens
        if self.usd is not None:
            yield "usd", self.usd
        if self.turns is not None:
            yield "turns", self.turns


class Budget(Allowance):
    """An allowance for a task, and one for a day (UTC) of all tasks."""

    per_day: Allowance = Allowance()

    @property
    def is_set(self) -> bool:
        """Whether anything is limited at all."""
        return any(True for _ in self.limits()) or any(True for _ in self.per_day.limits())


@dataclass(frozen=True)
class Tally:
    """What has been used."""

    tokens: int = 0
    usd: float = 0.0
    turns: int = 0

    def plus(self, usage: Usage | None, turns: int = 0) -> Tally:
        """The tally after something more; what an agent did not tell cannot be counted."""
        if usage is None:
            return Tally(self.tokens, self.usd, self.turns + turns)
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return Tally(self.tokens + used, self.usd + (usage.cost_usd or 0.0), self.turns + turns)

    def of(self, measure: Measure) -> float:
        """One of its figures."""
        return {"tokens": self.tokens, "usd": self.usd, "turns": self.turns}[measure]


def more(said: str) -> float | None:
    """How much more an answer gives (`+200k`, `0.50`); None for stop."""
    text = re.sub(r"[\s+$]", "", said).lower()
    if text == "stop":
        return None
    letter = text[-1] if text[-1] in "km" else ""
    return float(text.removesuffix(letter)) * _FACTORS[letter]


def shown(measure: Measure, amount: float) -> str:
    """An amount as people read it: `500k tokens`, `$3.70`, `12 turns`."""
    if measure == "usd":
        return f"${amount:.2f}"
    if measure == "turns" or amount < 1000:
        return f"{amount:.0f} {measure}"
    return f"{amount / 1000:.4g}k {measure}"
