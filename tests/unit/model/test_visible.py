"""Untrusted text as shown to a person: nothing hidden, nothing lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.model.visible import (
    decoded,
    encodable,
    printable,
    terminal_safe,
    visible,
    visible_line,
    visible_path,
)

ANY = st.text(
    st.one_of(
        st.characters(categories=None),
        st.sampled_from("<U+0x1B>\\t \n\r\u0301\u200b\ufe0f\U000e0041\udcff\ud800"),
    )
)
"""Includes lone surrogates and undecodable bytes."""


@given(ANY)
def test_it_can_be_undone(text: str) -> None:
    assert decoded(visible(text)) == text
    assert decoded(visible_line(text)) == text


@given(ANY)
def test_nothing_is_hidden(text: str) -> None:
    for shown in (visible(text), printable(text), terminal_safe(text)):
        assert shown.replace("\n", "").isprintable()
        assert terminal_safe(shown) == shown
    assert not any(line.endswith(" ") for line in visible(text).split("\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode, 漢字, हिन्दी, ไทยที่, e\u0301", None),
        ("if a < b:\n    pass", None),
        ("a\tb\r\n", "a<U+0009>b<U+000D>\n"),
        ("tail  ", "tail <U+0020>"),
        ("<U+001B> <0xFF> <u+1>", "<U+003C>U+001B> <U+003C>0xFF> <u+1>"),
        ("\x1b[2J\x07\x9b\0", "<U+001B>[2J<U+0007><U+009B><U+0000>"),
        ("a\u00a0b\u3000c\u2028d\u2029e", "a<U+00A0>b<U+3000>c<U+2028>d<U+2029>e"),
        ("\u2800\u3164\u115f\uffa0", "<U+2800><U+3164><U+115F><U+FFA0>"),
        ("x\u202ey\u2066\u200d\u00ad", "x<U+202E>y<U+2066><U+200D><U+00AD>"),
        ("\U000e0041\U000e0100\ue000", "<U+E0041><U+E0100><U+E000>"),
        ("a\ufe0f☃\ufe0f", "a<U+FE0F>☃<U+FE0F>"),
        ("o\u0338 e\u20dd \u0301", "o<U+0338> e<U+20DD> <U+0301>"),
        ("e\u0301\u0302\u0303\u0304", "e\u0301\u0302<U+0303><U+0304>"),
        ("caf\udce9", "caf<0xE9>"),
        ("\ud83d", "<U+D83D>"),
    ],
)
def test_what_is_shown(text: str, shown: str | None) -> None:
    assert visible(text) == (text if shown is None else shown)
    assert decoded(visible(text)) == text


def test_a_gap_shows_that_it_goes_on() -> None:
    shown = visible("ls" + " " * 500 + "; rm -rf ~")
    assert "<U+0020>" in shown
    assert decoded(shown) == "ls" + " " * 500 + "; rm -rf ~"


def test_prose_keeps_its_tabs_and_pictures() -> None:
    assert printable("a\tb\r\n\u26a0\ufe0f") == "a   b\n\u26a0\ufe0f"


def test_every_character_that_is_no_sign_is_written_out() -> None:
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    for point in (*range(0x3100), *range(0xD7F0, 0x10000), *range(0xE0000, 0xE0200)):
        sign = chr(point)
        if unicodedata.category(sign) in hidden and sign != "\n":
            assert visible(sign).startswith(("<U+", "<0x")), hex(point)


@given(ANY)
def test_a_path_can_be_kept_and_given_back(path: str) -> None:
    visible_path(path).encode()
    assert decoded(visible_path(path)) == path


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ("plain", "plain"),
        ("caf\udce9", "caf<0xE9>"),
        ("\ud83d\ude00 and half \ud83d", "\U0001f600 and half \ufffd"),
        (
            {"a": ["\udcff", 1, {"b": ("\udc80",)}], "c": None},
            {"a": ["<0xFF>", 1, {"b": ["<0x80>"]}], "c": None},
        ),
    ],
)
def test_what_is_kept_is_text(given_: object, kept: object) -> None:
    assert encodable(given_) == kept
