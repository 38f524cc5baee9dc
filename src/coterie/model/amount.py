"""Amounts of tokens, money and turns, as people write and read them in budgets."""

from __future__ import annotations

import re
from math import inf

from coterie.model.about import Measure
from coterie.model.update import token_count

MORE = r"\s*(stop|\+?\s*\$?\d+(\.\d+)?\s*[kKmM]?)\s*"
"""The answers accepted when a budget is used up: how much more, or stop."""

AMOUNT = r"^[0-9]+(\.[0-9]+)?[kKmM]?$"
"""A number of tokens as people write it: 500k, 1.5M."""

_MOST = 1e15
"""The most that one answer grants: nobody uses more, and an infinite amount cannot be added up."""
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6}


def amount(text: str) -> int:
    """Parse an amount such as `500k` or `1.5M`.  Raises ValueError if the text is not one."""
    if re.fullmatch(AMOUNT, text) is None or _number(text) == inf:
        raise ValueError(f"{text!r} is not an amount")
    return round(_number(text))


def _number(text: str) -> float:
    letter = text[-1].lower() if text[-1] in "kKmM" else ""
    return float(text[: len(text) - len(letter)]) * _FACTORS[letter]


def parse_increase(answer: str) -> float | None:
    """How much more an answer grants (`+200k`, `0.50`); None for stop."""
    text = re.sub(r"[\s+$]", "", answer).lower()
    if text == "stop":
        return None
    return min(_number(text), _MOST)


def format_amounts(measure: Measure, *amounts: float) -> str:
    """Amounts as people read them: `500k tokens`, `12 of 20 turns`, `$1.90 of $3.70`."""
    text = " of ".join(_figure(measure, amount) for amount in amounts)
    return text if measure == "usd" else f"{text} {measure}"


def _figure(measure: Measure, amount: float) -> str:
    if measure == "usd":
        return f"${amount:.2f}"
    return token_count(amount) if measure == "tokens" else f"{amount:.0f}"
