"""Between values and rows: fields are columns, and what a column cannot hold is JSON in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from coterie.stores.codec import Codec


class Inner(BaseModel, frozen=True):
    size: int


@dataclass(frozen=True)
class Part:
    word: str


@dataclass(frozen=True)
class Whole:
    name: str
    count: int
    kind: Literal["a", "b"] | Literal["c"] = "a"
    on: bool | None = None
    words: tuple[str, ...] = ()
    facts: Mapping[str, object] | None = None
    part: Part | None = None
    inner: Inner | None = None
    lines: tuple[Part, ...] = field(default_factory=tuple[Part, ...])


BARE = Whole("x", 1)
FULL = Whole(
    "x", 1, "c", on=False, words=("é",), facts={"n": [1]}, part=Part("w"), inner=Inner(size=3),
    lines=(Part("l"),),
)  # fmt: skip


def test_a_column_for_each_field() -> None:
    codec = Codec(Whole)
    assert codec.row(FULL) == (
        "x", 1, "c", 0, '["é"]', '{"n":[1]}', '{"word":"w"}', '{"size":3}', '[{"word":"l"}]',
    )  # fmt: skip
    for value in (BARE, FULL):
        assert codec.value(codec.row(value)) == value


def test_some_fields_first_some_in_one_body_some_elsewhere() -> None:
    codec = Codec(Whole, first=["count"], alone=["name", "count"], apart=["lines"])
    assert codec.columns == ("count", "name", "body")
    for value in (BARE, FULL):
        assert codec.value(codec.row(value), lines=value.lines) == value


def test_a_body_from_before_a_field_was_there_has_its_default() -> None:
    codec = Codec(Whole, alone=["name", "count"])
    assert codec.value(("x", 1, '{"words":["y"]}')) == Whole("x", 1, words=("y",))
