"""The examples from which the storage contract builds its data."""

from __future__ import annotations

from typing import NamedTuple

from coterie.testing.contracts.storage_values import examples


class Sizes(NamedTuple):
    wide: int
    high: int
    deep: float


def test_no_two_numbers_are_equal_so_swapped_fields_are_noticed() -> None:
    (sizes,) = examples(Sizes)
    assert len(set(sizes)) == 3
