"""Money in cents, so that nothing is lost on the way."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

Cents = int


def rounded(amount: float) -> Cents:
    """The nearest cent; half a cent is the customer's loss."""
    return int(Decimal(str(amount)).quantize(Decimal(1), ROUND_HALF_UP))
