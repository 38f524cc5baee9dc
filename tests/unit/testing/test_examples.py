"""The examples from which the storage contract builds its data."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from coterie.testing.contracts.storage_values import examples


class Sizes(NamedTuple):
    wide: int
    high: int
    deep: float


def test_no_two_numbers_are_equal_so_swapped_fields_are_noticed() -> None:
    (sizes,) = examples(Sizes)
    assert len(set(sizes)) == 3


class Settings(BaseModel):
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    rework: Annotated[int, Field(ge=0, le=100)] = 3
    instances: Annotated[int, Field(ge=1, le=64)] = 4


def test_no_two_numbers_are_equal_where_a_type_limits_them() -> None:
    first = examples(Settings)[0]
    assert len({first.retries, first.rework, first.instances}) == 3
