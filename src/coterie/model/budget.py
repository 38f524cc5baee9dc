"""Budgets: what may be used before somebody is asked, and what has been."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from coterie.model.about import Measure
from coterie.model.update import Usage

MORE = r"\s*(stop|\+?\s*\$?\d+(\.\d+)?\s*[kKmM]?)\s*"
"""What may be answered where a budget is used up: how much more, or stop."""

AMOUNT = r"^[0-9]+(\.[0-9]+)?[kKmM]?$"
"""A number of tokens as people write it: 500k, 1.5M."""

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


def amount(text: str) -> int:
    """How many `500k` or `1.5M` are; ValueError for what is no amount."""
    if re.match(AMOUNT, text) is None:
        raise ValueError(f"{text!r} is no amount")
    return round(_number(text))


def _number(text: str) -> float:
    letter = text[-1].lower() if text[-1] in "kKmM" else ""
    return float(text[: len(text) - len(letter)]) * _FACTORS[letter]


def _written(value: object) -> object:
    return amount(value) if isinstance(value, str) else value


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

    tokens: Annotated[int | None, BeforeValidator(_written)] = Field(default=None, ge=0)
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
    return _number(text)


def shown(measure: Measure, *amounts: float) -> str:
    """Amounts as people read them: `500k tokens`, `12 of 20 turns`, `$1.90 of $3.70`."""
    said = " of ".join(_figure(measure, amount) for amount in amounts)
    return said if measure == "usd" else f"{said} {measure}"


def _figure(measure: Measure, amount: float) -> str:
    if measure == "usd":
        return f"${amount:.2f}"
    if measure == "turns" or amount < 1000:
        return f"{amount:.0f}"
    return f"{amount / 1000:.4g}k"
