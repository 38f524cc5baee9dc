from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie.process.streams import LineSplitter, parse_object

MIB = 1024 * 1024


def split(data: bytes, sizes: list[int], longest: int = MIB) -> list[bytes]:
    splitter = LineSplitter(longest)
    lines: list[bytes] = []
    while data:
        size = sizes.pop() if sizes else len(data)
        chunk, data = data[:size], data[size:]
        lines += splitter.feed(chunk)
    last = splitter.finish()
    return lines if last is None else [*lines, last]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\xff", b"\0", b"{}"])).map(b"".join),
    st.lists(st.integers(1, 5)),
)
def test_lines_do_not_depend_on_how_they_came(data: bytes, sizes: list[int]) -> None:
    *ended, rest = data.split(b"\n")
    assert split(data, sizes) == [*ended, *([rest] if rest else [])]


def test_a_half_line_at_the_end_is_a_line() -> None:
    assert split(b"one\r\ntwo", []) == [b"one", b"two"]


def test_what_is_no_utf8_becomes_a_replacement_character() -> None:
    assert parse_object(b'{"a": "b\xff"}') == {"a": "b\ufffd"}


@given(st.lists(st.integers(1, 7)))
def test_a_line_that_is_too_long_is_cut_and_the_next_is_whole(sizes: list[int]) -> None:
    data = b"x" * 25 + b"\n" + b"y" * 10 + b"\n"
    assert split(data, sizes, longest=10) == [
        b"x" * 10,
        b"y" * 10,
    ]


def test_a_line_of_64_mib_is_kept_and_a_longer_one_cut() -> None:
    splitter = LineSplitter()
    for _ in range(64):
        assert splitter.feed(b"x" * MIB) == []
    [line] = splitter.feed(b"\n")
    assert len(line) == 64 * MIB
    for _ in range(65):
        assert splitter.feed(b"y" * MIB) == []
    [line, after] = splitter.feed(b"y\nnext\n")
    assert (len(line), after) == (64 * MIB, b"next")


def test_a_partial_line_is_discarded_up_to_its_newline() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'whole\n{"type": "resu') == [b"whole"]
    splitter.discard_partial()
    splitter.discard_partial()
    assert splitter.feed(b'lt"}') == []
    assert splitter.feed(b" still\nnew\nhalf") == [b"new"]
    assert splitter.finish() == b"half"


def test_discarding_at_the_start_of_a_line_discards_nothing() -> None:
    splitter = LineSplitter()
    splitter.feed(b"one\n")
    splitter.discard_partial()
    assert splitter.feed(b"two\n") == [b"two"]


def test_a_discarded_line_does_not_come_at_the_end_either() -> None:
    splitter = LineSplitter()
    splitter.feed(b"half")
    splitter.discard_partial()
    splitter.feed(b" of it")
    assert splitter.finish() is None
    assert splitter.finish() is None
