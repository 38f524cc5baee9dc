"""Output is bounded and readable, and says what was omitted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.tools.toolbox import MAX_OUTPUT_CHARS, Excerpt, readable, truncated


def taken(chunks: list[bytes], head: int = 8, tail: int = 4) -> Excerpt:
    excerpt = Excerpt(head, tail)
    for chunk in chunks:
        excerpt.add(chunk)
    return excerpt


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([], ""),
        ([b"abc", b"def"], "abcdef"),
        ([b"0123456789ab"], "0123456789ab"),
        ([b"0123456789abc"], "01234567\n… 1 bytes left out …\n9abc"),
        ([b"0" * 8, b"1" * 1_000_000, b"2345"], f"{'0' * 8}\n… 1,000,000 bytes left out …\n2345"),
        ([b"a\0b", b"\xff"], "a␀b\ufffd"),
        (["1234567é".encode(), b"8901", "é23".encode()], "1234567\n… 5 bytes left out …\né23"),
        ([b"12345678x", "éabc".encode()], "12345678\n… 2 bytes left out …\nabc"),
    ],
)
def test_head_and_tail_are_kept(chunks: list[bytes], text: str) -> None:
    assert taken(chunks).text == text


@given(st.lists(st.binary(max_size=30)), st.integers(1, 20), st.integers(1, 20))
def test_it_is_the_same_however_the_stream_is_cut(
    chunks: list[bytes], head: int, tail: int
) -> None:
    whole = b"".join(chunks)
    excerpt = taken(chunks, head, tail)
    assert excerpt.text == taken([whole], head, tail).text
    assert excerpt.left_out == max(0, len(whole) - head - tail)
    if not excerpt.left_out:
        assert excerpt.text == readable(whole)


def test_a_flood_is_counted_and_not_kept() -> None:
    excerpt = Excerpt()
    for _ in range(1000):
        excerpt.add(b"x" * 65_536)
    kept = sum(len(piece) for piece in excerpt._tail) + len(excerpt._head)
    assert (excerpt.left_out, kept) == (65_536_000 - 30_000, 30_000)


def test_a_text_is_cut_at_its_end() -> None:
    whole = "x" * MAX_OUTPUT_CHARS
    assert truncated(whole) == whole
    assert truncated(f"{whole}1234") == f"{whole}\n… 4 characters left out …"
