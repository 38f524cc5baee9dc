"""Secrets are found in every written form, and only their own characters are masked."""

from __future__ import annotations

import base64
import json
import shlex
import timeit
from collections.abc import Callable
from html import escape
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.engine.task_run import RedactingObserver
from coterie.model.conversation import Message
from coterie.model.interaction import Display
from coterie.model.record import DeltaRecord, MessageRecord, Record
from coterie.model.redaction import MASK, Redactor, is_kept_as

SECRET = "Zx9/tQ+v_Lm3-kk=81.aB'c"
BY = Redactor([SECRET, "hunter2", "pässwörter!!", "production", "abc"])
KEYS = (
    "sk-ant-api03-abcdefghijkl",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AIzaSyabcdefghijkl",
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"a {SECRET} b", "a [redacted 23] b"),
        (json.dumps(SECRET), '"[redacted 23]"'),
        ("".join(f"\\u{ord(sign):04x}" for sign in SECRET), "[redacted 138]"),
        ("".join(f"%{ord(sign):02X}" for sign in SECRET), "[redacted 69]"),
        (f"https://h/?k={quote(SECRET, '')}&x", "https://h/?k=[redacted 31]&x"),
        (shlex.quote(SECRET), "'[redacted 22]\"'\"'[redacted 1]'"),
        (f"{SECRET[:7]}\n    {SECRET[7:]}", "[redacted 7]\n    [redacted 16]"),
        (f"{SECRET[:7]}\\n{SECRET[7:]}", "[redacted 7]\\n[redacted 16]"),
        (f'{SECRET[:7]}" + "{SECRET[7:]}', '[redacted 7]" + "[redacted 16]'),
        (base64.b64encode(f"u:{SECRET}x".encode()).decode(), "dTp[redacted 30]3g="),
        (f"x{SECRET.encode().hex()}", "x[redacted 46]"),
        (SECRET.encode().hex().upper(), "[redacted 46]"),
        (f"u={quote(quote(SECRET, ''), '')}", "u=[redacted 39]"),
        (escape(SECRET).replace("/", "&#x2F;"), "[redacted 33]"),
        ("".join(f"\\{ord(sign):03o}" for sign in SECRET), "[redacted 92]"),
        (f"k={SECRET.replace('=', '=3D')}", "k=[redacted 25]"),
        ("x=hunter2; hunter22", "x=[redacted 7]; hunter22"),
        (quote("pässwörter!!"), "[redacted 26]"),
        ("in production, abc", None),
        ("curl https://tok@h.com/x", "curl https://[redacted 3]@h.com/x"),
        ("https://u:p$HOME@h", "https://[redacted 1]:[redacted 1]$HOME@h"),
        ("https:\\/\\/u:p@h", "https:\\/\\/[redacted 1]:[redacted 1]@h"),
        ("https://x;reboot;@h git@github.com:x Bearer abcdefghijklmnopqrstuvwxyz", None),
        (f"{SECRET[:7]};rm;{SECRET[7:]}", None),
    ],
)
def test_what_is_kept(text: str, kept: str | None) -> None:
    assert BY.text(text) == (text if kept is None else kept)
    assert BY.text(BY.text(text)) == BY.text(text)


@given(st.text(), st.sampled_from([str, json.dumps, lambda text: quote(text, "")]))
def test_masks_count_what_they_hide(around: str, written: Callable[[str], str]) -> None:
    text = f"{around} {written(SECRET)} {around}"
    kept = Redactor([SECRET]).text(text)
    assert SECRET not in kept
    hidden = sum(int(mask[0][10:-1]) for mask in MASK.finditer(kept))
    assert len(MASK.sub("", kept)) + hidden == len(text)


def test_values_of_ours_are_walked_and_the_same_where_nothing_is_found() -> None:
    plain = Display(title="a", content="b")
    assert BY.redact_object(plain) is plain
    assert BY.redact_object(Display(title="a", content=SECRET)).content == "[redacted 23]"
    assert BY.value({SECRET: [SECRET, 1]}) == {"[redacted 23]": ["[redacted 23]", 1]}
    message = Message("k3f9", 1, "ada", SECRET, "2026-11-15T12:04:00Z")
    assert BY.redact_object(message) == message._replace(text="[redacted 23]")


def test_a_kept_text_is_known_again() -> None:
    assert is_kept_as(f"use {SECRET} now", BY.text(f"use {SECRET} now"))
    assert is_kept_as("use it", "use [redacted]")
    assert not is_kept_as("use it now", "use [redacted 23] now")
    assert not is_kept_as("use it", None)


def test_an_ordinary_text_costs_next_to_nothing() -> None:
    text = ("An ordinary sentence of a reply that somebody wrote about files. " * 5)[:300]
    by, bare = Redactor(KEYS), Redactor(KEYS[:0])
    once = min(timeit.repeat(lambda: by.text(text), number=1000, repeat=20))
    # Compared with a redactor without values, so that a busy machine does not matter.
    assert once < 10 * min(timeit.repeat(lambda: bare.text(text), number=1000, repeat=20))


def test_a_text_that_almost_holds_keys_everywhere_is_read_once() -> None:
    text = "-eyJ" * 500_000  # hours if it were read again from each
    assert BY.text(text) == text


class Terminal:
    """Show all text as it arrives."""

    def __init__(self) -> None:
        self.shown = ""

    def saw(self, record: Record) -> None:
        self.shown += record.text if isinstance(record, DeltaRecord) else ""


def test_what_a_failed_attempt_began_to_say_is_not_shown_with_the_next() -> None:
    terminal = Terminal()
    observer = RedactingObserver(terminal, Redactor([SECRET]))
    observer.saw(DeltaRecord("k3f9", "ann", "I have fou"))
    observer.begin("ann")
    observer.saw(DeltaRecord("k3f9", "ann", "Here is "))
    assert terminal.shown == "I have Here is "


KEY_LINE = "MIIEowIBAAKCAQEA7bq0mJcVx1kq9sYlTnZ0wq3r"
PRIVATE_KEY = (
    f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE}\n{KEY_LINE}\n-----END RSA PRIVATE KEY-----"
)


@given(st.lists(st.integers(1, 220), max_size=12), st.sampled_from(["", "\n    ", '" + "', "\\\n"]))
def test_what_is_said_piece_by_piece_shows_no_part_of_a_secret(cuts: list[int], gap: str) -> None:
    """However the text is chunked, and even if the secret is split across words or lines."""
    parts = SECRET[:6], SECRET[6:15], SECRET[15:]
    whole = f"I found {gap.join(parts)} there, {PRIVATE_KEY} and more.\n"
    terminal = Terminal()
    observer = RedactingObserver(terminal, Redactor([SECRET]))
    places = [0, *sorted({cut for cut in cuts if cut < len(whole)}), len(whole)]
    for begin, end in pairwise(places):
        observer.saw(DeltaRecord("k3f9", "ann", whole[begin:end]))
    observer.saw(MessageRecord("k3f9", 1, "ann", ""))
    assert terminal.shown == Redactor([SECRET]).text(whole)
