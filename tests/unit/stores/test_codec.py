"""Converting values to rows and back: a column per field, JSON for what has no column type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from coterie.model.task import title_of
from coterie.stores.codec import Codec, chained, json_of, repair_surrogates

texts = st.text(st.characters(exclude_categories=()))


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
    codec = Codec(Whole, first=["count"], own_columns=["name", "count"], stored_elsewhere=["lines"])
    assert codec.columns == ("count", "name", "body")
    for value in (BARE, FULL):
        assert codec.value(codec.row(value), lines=value.lines) == value


def test_a_body_from_before_a_field_was_there_has_its_default() -> None:
    codec = Codec(Whole, own_columns=["name", "count"])
    assert codec.value(("x", 1, '{"words":["y"]}')) == Whole("x", 1, words=("y",))


@pytest.mark.parametrize(
    ("goal", "title"),
    [
        ("fix it", "fix it"),
        ("\n   \n  fix it  \nand more", "fix it"),
        ("", ""),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
    ],
)
def test_title(goal: str, title: str) -> None:
    assert title_of(goal) == title
    assert title_of(goal, 4) == (title if len(title) <= 4 else f"{title[:3]}…")


@given(texts)
def test_mended_text_can_be_kept_and_good_text_is_not_touched(text: str) -> None:
    kept = repair_surrogates(text)
    assert kept.encode().decode() == kept
    assert repair_surrogates(kept) == kept
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert kept == text


@given(st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts), max_size=3))
def test_any_object_of_the_audit_becomes_json(value: dict[str, object]) -> None:
    kept = json_of(value)
    read = json.loads(kept.encode())
    assert isinstance(read, dict)
    assert len(read) <= len(value)


def test_what_json_cannot_say_is_kept_as_text() -> None:
    assert json_of({"a": b"x", "b": {1}}) == '{"a":"b\'x\'","b":"{1}"}'


def test_a_chain_depends_on_every_field_and_on_what_came_before() -> None:
    rows = [(1, "a", "b"), (1, "ab", ""), (1, "a", None), (2, "a", "b"), ("1", "a", "b")]
    assert len({chained(before, row) for row in rows for before in (b"", b"x")}) == 2 * len(rows)
