"""What somebody is about to buy."""

from __future__ import annotations

from dataclasses import dataclass, field

from shop.money import Cents, rounded


@dataclass
class Cart:
    """Items by name, each with its price and how many of it."""

    items: dict[str, tuple[Cents, int]] = field(default_factory=dict[str, tuple[Cents, int]])

    def add(self, name: str, price: Cents, count: int = 1) -> None:
        """Put something in; more of the same adds up."""
        if count < 1:
            raise ValueError(f"{count} of {name}")
        _, before = self.items.get(name, (price, 0))
        self.items[name] = (price, before + count)

    def total(self, discount: float = 0.0) -> Cents:
        """What all of it costs, less a share of it."""
        whole = sum(price * count for price, count in self.items.values())
        return rounded(whole * (1 - discount))
