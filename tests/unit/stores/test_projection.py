from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.stores.codec import json_of, mended
from coterie.stores.projection import chained, title_of

texts = st.text(st.characters(exclude_categories=()))


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


@given(texts)
def test_mended_text_can_be_kept_and_good_text_is_not_touched(text: str) -> None:
    kept = mended(text)
    assert kept.encode().decode() == kept
    assert mended(kept) == kept
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
